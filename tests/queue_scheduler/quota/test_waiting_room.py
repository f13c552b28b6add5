from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_decision import Demand, QuotaRefusal, RefusalReason
from queue_scheduler.quota.waiting_room import Waiting, WaitingRoom


def waiting(waiter: str, need: int, *rank: int, reason: RefusalReason | None = None) -> Waiting:
    refusal = QuotaRefusal(
        reason=reason or RefusalReason.OVER_QUOTA_MAX, quota="q", resource="x", requested=need
    )
    return Waiting(0, waiter, rank, "q", "", Demand({"x": need}), refusal)


def take(room: WaitingRoom, left: int | None, most: int | None = None) -> list[object]:
    room.mark_due("", "q")
    return list(room.take(most, lambda *_: left))


def room_of(*all_waiting: Waiting) -> WaitingRoom:
    room = WaitingRoom()
    for one in all_waiting:
        room.add(one)
    return room


@pytest.mark.parametrize(
    ("left", "want"),
    [
        pytest.param(0, [], id="no room"),
        pytest.param(2, ["small", "tiny"], id="room for some"),
        pytest.param(9, ["large", "small", "tiny"], id="room for all"),
        pytest.param(None, ["large", "small", "tiny"], id="no limit any more"),
    ],
)
def test_those_with_room_are_woken_in_order_of_ranks(left: int | None, want: list[str]) -> None:
    room = room_of(waiting("tiny", 1, 3), waiting("small", 2, 2), waiting("large", 9, 1))
    assert take(room.fork(), left) == want
    assert [take(room, left, most=1) for _ in want] == [[name] for name in want]


def test_equal_ranks_go_by_arrival() -> None:
    room = room_of(waiting("b", 1), waiting("a", 1), waiting("c", 1))
    assert take(room, 1) == ["b", "a", "c"]


def test_nodes_that_are_not_due_are_not_looked_at() -> None:
    room = room_of(waiting("a", 1))
    assert room.take(None, lambda *_: 100) == []
    room.mark_due("", "another")
    assert room.take(None, lambda *_: 100) == []


def test_who_waits_again_or_leaves_is_not_woken_for_before() -> None:
    room = room_of(waiting("a", 1), waiting("b", 1))
    room.add(waiting("a", 5))
    room.remove("b")
    assert take(room, 4) == []
    assert [one.waiter for one in room.waiting()] == ["a"]
    assert take(room, 5) == ["a"]
    assert not room.is_anybody_there()


def test_kept_for_another_reason() -> None:
    contract = waiting("a", 1, reason=RefusalReason.HURTS_OTHERS)
    room = room_of(contract)
    assert [one.waiter for one in room.refused_by_contract("", "x")] == ["a"]
    assert room.refused_by_guarantee("") == []
    now = QuotaRefusal(reason=RefusalReason.GUARANTEE_OF_OTHERS, quota="q", resource="x")
    room.keep(room.waiting()[0], now, seen_at=7)
    assert room.refused_by_contract("", "x") == []
    assert [one.waiter for one in room.refused_by_guarantee("")] == ["a"]
    assert room.latest_seen_at() == 7


def test_waking_all_keeps_the_order() -> None:
    rest = QuotaRefusal(reason=RefusalReason.UNKNOWN_QUOTA, quota="gone")
    room = room_of(waiting("b", 1, 2), waiting("a", 9, 1))
    room.add(Waiting(0, "c", (0,), "gone", "", Demand({}), rest))
    room.wake_all()
    assert room.watched_nodes() == []
    assert [take(room, 0, most=2), take(room, 0)] == [["c", "a"], ["b"]]


def test_a_woken_one_can_leave() -> None:
    room = room_of(waiting("a", 1), waiting("b", 1))
    room.wake_all()
    room.remove("a")
    assert take(room, 0) == ["b"]
