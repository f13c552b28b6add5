from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.runtime_wake_index import NO_FAMILY
from queue_scheduler.quota_cache.wake_index import SLACK, Waiting, WakeIndex, Whole


def waiting(waiter: str, need: int, *rank: int, reason: Reason | None = None) -> Waiting:
    refusal = Refusal(
        reason=reason or Reason.OVER_QUOTA_MAX, quota="q", resource="x", requested=need
    )
    return Waiting(0, waiter, rank, "q", "", Demand({"x": need}), refusal)


def take(room: WakeIndex, left: int | None, most: int | None = None) -> list[object]:
    """Take the enabled waiters while `left` is free at node "q" of the one domain."""
    room.mark_due("", "q")
    return take_due(room, left, most)


def take_due(room: WakeIndex, left: int | None, most: int | None = None) -> list[object]:
    taken: list[object] = []
    for domain in room.stirred():
        while most is None or len(taken) < most:
            first = room.first(domain, lambda *_: left, lambda _: True)
            if first is None:
                break
            taken.append(first[2])
            room.remove(first[2])
    return taken


def room_of(*all_waiting: Waiting) -> WakeIndex:
    room = WakeIndex()
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
def test_waiters_with_room_are_woken_in_order_of_ranks(left: int | None, want: list[str]) -> None:
    room = room_of(waiting("tiny", 1, 3), waiting("small", 2, 2), waiting("large", 9, 1))
    assert take(room.fork(), left) == want
    assert [take(room, left, most=1) for _ in want] == [[name] for name in want]


def test_equal_ranks_go_by_arrival() -> None:
    room = room_of(waiting("b", 1), waiting("a", 1), waiting("c", 1))
    assert take(room, 1) == ["b", "a", "c"]


def test_nodes_that_are_not_due_are_not_looked_at() -> None:
    room = room_of(waiting("a", 1))
    assert take_due(room, 100) == []
    room.mark_due("", "another")
    assert take_due(room, 100) == []


def test_a_renewed_or_removed_waiter_is_not_woken_for_its_previous_demand() -> None:
    room = room_of(waiting("a", 1), waiting("b", 1))
    room.add(waiting("a", 5))
    room.remove("b")
    assert take(room, 4) == []
    assert [one.waiter for one in room.waiting()] == ["a"]
    assert take(room, 5) == ["a"]
    assert room.waiting() == []


def test_a_waiter_kept_for_another_reason() -> None:
    room = room_of(waiting("a", 1, reason=Reason.HURTS_OTHERS))
    assert room.refused_by_runtime("", "x")[""].families[NO_FAMILY] == {None: {"a": 0}}
    assert room.borrowers("", "q") == []
    now = Refusal(reason=Reason.GUARANTEE_OF_OTHERS, quota="p", resource="x", requested=1)
    room.keep(replace(room.waiting()[0], refusal=now, seen_at=7))
    assert room.refused_by_runtime("", "x") == {}
    assert [one.waiter for one in room.borrowers("", "q")] == ["a"]
    assert [one.waiter for one in room.borrowers("")] == ["a"]
    assert room.owners("") == []
    assert room.entry_of("a").seen_at == 7
    room.mark_due("", "p")
    assert take_due(room, 1) == ["a"]


def test_an_owner_is_not_measured_by_the_room_of_others() -> None:
    refused = waiting("a", 1, reason=Reason.GUARANTEE_OF_OTHERS)
    room = room_of(replace(refused, is_owner=True))
    assert take(room, 100) == []
    assert [one.waiter for one in room.owners("")] == ["a"]
    room.mark_for_recheck(room.owners("")[0])
    assert take_due(room, 0) == ["a"]


def test_waiters_in_doubt_are_verified_in_turn_and_no_further_than_needed() -> None:
    room = room_of(*(waiting(name, 1, rank) for rank, name in enumerate("abcd")))
    for one in room.waiting():
        room.mark_for_recheck(one)
    asked: list[object] = []

    def verify(one: Waiting) -> bool:
        asked.append(one.waiter)
        if one.waiter == "a":
            room.keep(one)
        return one.waiter != "a"

    assert room.first("", lambda *_: 0, verify, before=(2,)) == ((1,), 2, "b")
    assert asked == ["a", "b"]
    room.remove("b")
    assert room.first("", lambda *_: 0, verify, before=(0,)) == ((2,), 3, "c")
    assert asked == ["a", "b"], "a waiter that comes too late is not asked"


def test_current_ranks_count() -> None:
    room = room_of(waiting("a", 1, 1), waiting("b", 1, 2), waiting("c", 1, 3))
    today = {"a": (9,), "b": (4,), "c": (3,)}
    room.mark_due("", "q")
    order = []
    while first := room.first("", lambda *_: 1, lambda _: True, rank_of=today.__getitem__):
        order.append(first[2])
        room.remove(first[2])
    assert order == ["c", "b", "a"]


def test_the_ranks_of_other_needs_are_not_asked_for_once_the_first_is_found() -> None:
    room = room_of(waiting("a", 1, 1), waiting("b", 2, 2), waiting("c", 3, 3), waiting("d", 4, 5))
    today = {"a": (9,), "b": (4,), "c": (3,), "d": (5,)}
    asked: list[str] = []

    def rank_of(waiter: str) -> tuple[int, ...]:
        asked.append(waiter)
        return today[waiter]

    room.mark_due("", "q")
    assert room.first("", lambda *_: 9, lambda _: True, rank_of=rank_of) == ((3,), 3, "c")
    assert asked == ["a", "b", "c"]


def test_stale_entries_do_not_pile_up() -> None:
    room = room_of(waiting("stays", 1, 1))
    for turn in range(1000):
        room.add(waiting("restless", 1, 9 if turn % 2 else 2))
        room.mark_for_recheck(room.waiting()[-1])
    [rules] = room._by_sum.values()  # noqa: SLF001 - no answer shows how much is kept
    [needs] = rules.values()
    heaps = (*needs.values(), *room._queues.values())  # noqa: SLF001 - the same
    kept = [len(heap) for heap in heaps]
    assert max(kept) <= 2 * 2 + SLACK
    assert take_due(room, 0) == ["restless"]


@pytest.mark.parametrize("leaves", [True, False], ids=["deleted", "refused again"])
def test_needs_of_waiters_that_left_do_not_pile_up(*, leaves: bool) -> None:
    """A user may ask for another amount each time, for which there is never room."""
    room = room_of(waiting("stays", 5000, 1), waiting("small", 1, 2))
    for turn in range(1000):
        room.add(waiting("restless", 10 + turn))
        if leaves:
            room.remove("restless")
        take(room.fork(), 0)
    [rules] = room._by_sum.values()  # noqa: SLF001 - no answer shows how much is kept
    [needs] = rules.values()
    assert len(needs) <= 2 * 3 + SLACK
    assert sum(map(len, needs.values())) == room._stale + len(room.waiting())  # noqa: SLF001 - same
    assert take(room, 1) == ["small"]
    assert set(take(room, 5000)) == {"stays"} | ({"restless"} if not leaves else set())
    room.mark_due("", "q")
    assert take_due(room, 5000) == []


def test_dropped_needs_leave_the_waiters_of_other_nodes() -> None:
    room = room_of(waiting("restless", 1))
    elsewhere = Refusal(reason=Reason.OVER_QUOTA_MAX, quota="p", resource="x", requested=9)
    for turn in range(2 * SLACK):
        room.add(replace(waiting("stays", 9), refusal=elsewhere))
        room.remove("restless")
        room.add(waiting("restless", turn))
    room.remove("restless")
    room.mark_due("", "p")
    assert take_due(room, 9) == ["stays"]
    assert take(room, None) == []


def test_domains_do_not_wait_for_each_other() -> None:
    room = room_of(
        replace(waiting("a", 1, 1), domain="one"),
        replace(waiting("b", 1, 2), domain="two", quota="p"),
    )
    room.wake_all()
    assert room.stirred() == ["one", "two"]
    assert room.first("two", lambda *_: 0, lambda _: True) == ((2,), 2, "b")


def test_waking_all_keeps_the_order() -> None:
    rest = Refusal(reason=Reason.UNKNOWN_QUOTA, quota="gone")
    room = room_of(waiting("b", 1, 2), waiting("a", 9, 1))
    room.add(Waiting(0, "c", (0,), "gone", "", Demand({}), rest))
    room.wake_all(domains_differ=True)
    assert room.waiting() == []
    assert [take(room, 0, most=2), take(room, 0)] == [["c", "a"], ["b"]]


def test_a_woken_waiter_can_leave() -> None:
    room = room_of(waiting("a", 1), waiting("b", 1))
    room.wake_all()
    room.remove("a")
    assert take(room, 0) == ["b"]


def test_a_waiter_for_its_whole_as_well_is_enabled_by_either_and_taken_once() -> None:
    for left, is_enabled in ((2, False), (3, True)):
        room = room_of(replace(waiting("a", 9, reason=Reason.HURTS_OTHERS), rank=(1,)))
        room.add_whole(waiting("a", 3, 1))
        room.add_whole(waiting("a", 3, 1))
        fork = room.fork()
        for each in (room, fork):
            assert take(each, left) == (["a"] if is_enabled else [])
            assert bool(each.waiting()) is not is_enabled


def test_nothing_is_left_of_its_whole_when_a_waiter_is_removed() -> None:
    room = room_of(waiting("a", 9))
    room.add_whole(waiting("a", 3))
    room.remove("a")
    assert room.waiting() == []
    assert take(room, 9) == []


def test_the_rank_of_a_whole_is_asked_by_the_waiters_own_name() -> None:
    room = room_of(waiting("a", 9), waiting("b", 3, 2))
    room.add_whole(waiting("a", 3))
    room.mark_due("", "q")
    ranks = {"a": (1,), "b": (2,)}
    first = room.first("", lambda *_: 3, lambda _: True, rank_of=ranks.__getitem__)
    assert first is not None
    assert (first[0], first[2]) == ((1,), "a")
    assert Whole("a") in {one.waiter for one in room.waiting()}


def test_a_waiter_with_a_whole_is_woken_once_when_all_are() -> None:
    room = room_of(waiting("a", 9))
    room.add_whole(waiting("a", 3))
    room.wake_all()
    assert take_due(room, None) == ["a"]
    assert room.is_idle()
    assert take_due(room, None) == []
