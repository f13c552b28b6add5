"""Counts of units on hold, by queue and reason; nothing is left of deleted ones."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.cache.units_on_hold import UnitsOnHold
from queue_scheduler.decision import Reason, Refusal
from tests.properties.engine_kit import build_unit

UNMAPPED = CachedUnit(
    unit=build_unit("u"),
    version=1,
    state=UnitState.ON_HOLD,
    hold=Refusal(reason=Reason.NO_QUOTA),
)
STALE = CachedUnit(unit=build_unit("v"), version=1, state=UnitState.CONFLICT)


def test_they_are_counted_by_reason() -> None:
    counts = UnitsOnHold()
    for record in (UNMAPPED, UNMAPPED, STALE):
        counts.add(record)
    assert counts.by_reason("") == {Reason.NO_QUOTA: 2, Reason.WRITE_FAILED: 1}
    assert counts.total("") == 3
    assert (counts.by_reason("team"), counts.total("team")) == ({}, 0)
    counts.validate([UNMAPPED, UNMAPPED, STALE])


def test_nothing_is_left_of_deleted_units() -> None:
    counts = UnitsOnHold()
    for record in (UNMAPPED, STALE):
        counts.add(record)
    counts.remove(UNMAPPED)
    assert counts.by_reason("") == {Reason.WRITE_FAILED: 1}
    counts.remove(STALE)
    counts.validate([])


def test_a_copy_is_independent() -> None:
    counts = UnitsOnHold()
    counts.add(STALE)
    twin = counts.fork()
    twin.remove(STALE)
    assert (counts.total(""), twin.total("")) == (1, 0)


def test_a_wrong_count_is_found() -> None:
    counts = UnitsOnHold()
    counts.add(STALE)
    with pytest.raises(AssertionError, match="WRITE_FAILED"):
        counts.validate([])
