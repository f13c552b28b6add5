"""Units that were deleted not long ago."""

from __future__ import annotations

import pytest

from queue_scheduler.cache import gone_units
from queue_scheduler.cache.gone_units import GoneUnits
from shared_api.objects.meta import Uid


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone_units, "GONE_REMEMBERED", 3)


def uids(first: int, end: int) -> list[Uid]:
    return [Uid(f"uid-{number}") for number in range(first, end)]


def test_the_last_ones_are_remembered_and_not_many_more() -> None:
    gone = GoneUnits()
    for number, uid in enumerate(uids(0, 10)):
        gone.add(uid)
        remembered = [each for each in uids(0, 10) if each in gone]
        assert remembered[-3:] == uids(max(0, number - 2), number + 1)
        assert len(remembered) <= 6


@pytest.mark.parametrize("more", [0, 1, 2], ids=["older half", "both halves", "almost full"])
def test_a_revived_one_is_not_gone(more: int) -> None:
    gone = GoneUnits()
    for uid in uids(0, 3 + more):
        gone.add(uid)
    for uid in uids(0, 3 + more):
        gone.revive(uid)
        assert uid not in gone


def test_a_copy_is_independent() -> None:
    gone = GoneUnits()
    for uid in uids(0, 4):
        gone.add(uid)
    twin = gone.copy()
    for uid in uids(0, 4):
        twin.revive(uid)
    twin.add(Uid("new"))
    assert all(uid in gone for uid in uids(0, 4))
    assert Uid("new") not in gone
