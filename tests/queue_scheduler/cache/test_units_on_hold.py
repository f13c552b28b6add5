"""How many are held, by queue and reason, and nothing left when they are gone."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.unit_state import Standing, UnitRecord
from queue_scheduler.cache.units_on_hold import HeldCounts
from queue_scheduler.decision import Reason, Refusal
from tests.properties.engine_kit import build_unit

UNMAPPED = UnitRecord(
    unit=build_unit("u"),
    version=1,
    standing=Standing.HELD,
    hold=Refusal(reason=Reason.NO_QUOTA),
)
STALE = UnitRecord(unit=build_unit("v"), version=1, standing=Standing.STALE)


def test_they_are_counted_by_reason() -> None:
    counts = HeldCounts()
    for record in (UNMAPPED, UNMAPPED, STALE):
        counts.add(record)
    assert counts.by_reason("") == {Reason.NO_QUOTA: 2, Reason.WRITE_FAILED: 1}
    assert counts.total("") == 3
    assert (counts.by_reason("team"), counts.total("team")) == ({}, 0)
    counts.validate([UNMAPPED, UNMAPPED, STALE])


def test_nothing_is_left_of_those_that_are_gone() -> None:
    counts = HeldCounts()
    for record in (UNMAPPED, STALE):
        counts.add(record)
    counts.remove(UNMAPPED)
    assert counts.by_reason("") == {Reason.WRITE_FAILED: 1}
    counts.remove(STALE)
    counts.validate([])


def test_a_copy_goes_its_own_way() -> None:
    counts = HeldCounts()
    counts.add(STALE)
    twin = counts.fork()
    twin.remove(STALE)
    assert (counts.total(""), twin.total("")) == (1, 0)


def test_a_wrong_count_is_found() -> None:
    counts = HeldCounts()
    counts.add(STALE)
    with pytest.raises(AssertionError, match="WRITE_FAILED"):
        counts.validate([])
