"""The account of a unit: where it is charged, and who submitted it."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.tenants.accounts import Account, account_of_unit
from shared_api.well_known_labels import SUBMITTED_BY, USER
from tests.properties.engine_kit import build_unit


def test_the_account_follows_from_the_unit_and_where_it_is_charged() -> None:
    unit = build_unit("u", "a", created=0, job="job")
    meta = replace(unit.metadata, labels={USER: "ann"}, annotations={SUBMITTED_BY: "bob"})
    unit = replace(unit, metadata=meta)
    said = account_of_unit(unit, "a", "q", are_proved=False)
    proved = account_of_unit(unit, "a", "q", are_proved=True)
    assert said == Account("a", "q", "ns", "", "ann")
    assert proved == Account("a", "q", "ns", "", "bob")
