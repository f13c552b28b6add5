"""Which units are asked again after a round, and when, if only woken or timed ones are asked."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.decision import Dequeue, Preempt, Rest
from queue_scheduler.preemption.blocked_classes import SEARCH_AGAIN_SECONDS
from queue_scheduler.preemption.nomination import NOMINATED_SECONDS, STUCK_SECONDS, for_whom_mark
from queue_scheduler.preemption.preemption_rounds import REST_SECONDS
from queue_scheduler.preemption.protection import LEFT_ALONE_SECONDS
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    MAX_DEPTH,
    PREEMPTIBLE,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_pod,
    build_unit,
    changed,
    wall_time,
)
from tests.queue_scheduler.round_kit import BEGIN, LONG, PREEMPTS, TAKES_ALL, Times


def two_run(cpu: int = 4, said: dict[str, str] | None = None) -> Times:
    """Of one quota, one and two run, with two cores each; two has the higher priority."""
    times = Times()
    times.quota("q", cpu)
    times.queue("q", PREEMPTS | (said or {}))
    times.runs("one", "q", 2)
    times.runs("two", "q", 2, priority=1)
    times.ask()
    return times


def one_runs_in_each() -> Times:
    """One of quota a runs in queue q and two of quota b in queue r, under one full parent."""
    times = Times()
    for name, cpu, parent in (("top", 4, ""), ("a", 4, "top"), ("b", 2, "top")):
        times.quota(name, cpu, parent)
    for name in ("q", "r"):
        times.queue(name, PREEMPTS)
    times.runs("one", "a", 2)
    times.runs("two", "b", 2, queue="r")
    return times


def test_an_overtaken_unit_tries_again_after_its_rest() -> None:
    times = two_run()
    times.comes("first", "q", 2)
    times.comes("urgent", "q", 1, priority=10)
    times.frees("one")
    want = [(BEGIN, "first evicts one"), (BEGIN, "urgent starts")]
    assert times.wait(1.0) == want
    assert times.wait(REST_SECONDS) == [(BEGIN + REST_SECONDS, "first evicts two")]


def test_a_unit_that_lost_its_room_to_an_unasked_one_tries_again_after_its_rest() -> None:
    times = two_run()
    times.comes("first", "q", 2)
    times.runs("adopted", "q", 2, priority=9)
    times.frees("one")
    want = [(BEGIN, "first evicts one"), (BEGIN + REST_SECONDS, "first evicts two")]
    assert times.wait(STUCK_SECONDS - 1) == want


def test_pods_of_released_victims_are_waited_for_without_further_evictions() -> None:
    times = two_run()
    times.workers.wake(times.engine.on_pod(build_pod("pod", cpu=2, unit="ns/one", quota="q")))
    times.comes("first", "q", 2)
    times.frees("one")
    times.runs("adopted", "q", 2, priority=9)
    times.edit("first", priority=10)
    assert times.wait(REST_SECONDS - 1) == [(BEGIN, "first evicts one")]


def test_victims_count_as_leaving_before_the_watch_has_reported_it() -> None:
    times = two_run(5)
    times.runs("small", "q", 1, priority=9)
    times.put(build_unit("first", "q", queue="q", cpu=2, priority=9))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Preempt)
    times.workers.wake(times.engine.on_preempted(decision))
    times.frees("small")
    assert tuple(times.engine.nominations.by_key) == ("ns/first",)
    assert times.wait(REST_SECONDS) == []


def test_a_slow_victim_leaves_for_its_preemptor() -> None:
    times = two_run()
    times.comes("first", "q", 2)
    got = times.wait(NOMINATED_SECONDS - 1)
    unit = times.units["one"]
    times.put(changed(unit, 1, "Enqueued", admissions=(), conditions=()))
    assert [what for _, what in got + times.wait(LONG)] == ["first evicts one", "first starts"]


def test_no_unit_waits_longer_than_ten_minutes_behind_a_hanging_victim() -> None:
    times = one_runs_in_each()
    times.comes("first", "a", 2)
    times.comes("second", "b", 2, queue="r")
    got = times.wait(STUCK_SECONDS + 1)
    assert got == [(BEGIN, "first evicts one"), (BEGIN + STUCK_SECONDS, "second evicts two")]


def test_a_hanging_victim_makes_no_room() -> None:
    times = two_run()
    times.comes("first", "q", 2)
    got = times.wait(STUCK_SECONDS + 1)
    assert got == [(BEGIN, "first evicts one"), (BEGIN + STUCK_SECONDS, "first evicts two")]


@pytest.mark.parametrize(
    ("priority", "labels"),
    [
        pytest.param(9, {}, id="its priority"),
        pytest.param(0, {PREEMPTIBLE: "false"}, id="its label"),
    ],
)
def test_a_unit_that_searched_in_vain_looks_again_when_a_running_one_is_edited(
    priority: int, labels: dict[str, str]
) -> None:
    times = Times()
    times.quota("q", 4)
    times.queue("q", PREEMPTS)
    unit = build_unit("one", "q", cpu=4, priority=priority, labels=labels)
    times.put(admitted(unit, 1, "Running"))
    times.comes("first", "q", 2, priority=5)
    assert times.wait(1.0) == []
    times.put(admitted(build_unit("one", "q", cpu=4, priority=0), 1, "Running"))
    got = times.wait(SEARCH_AGAIN_SECONDS)
    assert got == [(BEGIN + SEARCH_AGAIN_SECONDS, "first evicts one")]


def test_a_unit_that_counted_on_a_leaving_one_evicts_when_the_eviction_is_undone() -> None:
    times = two_run()
    times.has_to_leave("one", "by hand", reason="Stopped")
    times.comes("first", "q", 2)
    assert times.wait(1.0) == []
    times.put(changed(times.units["one"], 1, conditions=()))
    assert times.wait(1.0) == [(BEGIN + 1.0, "first evicts one")]


def test_a_unit_that_counted_on_a_hanging_one_evicts_another_after_ten_minutes() -> None:
    times = two_run()
    times.has_to_leave("one", "by hand", reason="Stopped")
    times.comes("first", "q", 2)
    assert times.wait(LONG)[:1] == [(BEGIN + STUCK_SECONDS, "first evicts two")]


def test_a_unit_that_stands_back_evicts_the_other_when_one_of_two_has_gone() -> None:
    times = Times()
    times.quota("q", 9)
    times.queue("q", PREEMPTS)
    for name in ("one", "two"):
        times.put(admitted(build_unit(name, "q", cpu=1), 1, "Dequeued"))
    times.has_to_leave("two", "by hand", reason="Stopped")  # so no other unit may ask it
    times.queue("q", PREEMPTS | {WAIT_FOR_PODS_RUNNING: "true"})
    times.comes("first", "q", 1)
    assert times.wait(1.0) == []
    times.frees("two")
    want = [(BEGIN + 1.0, "first evicts one"), (BEGIN + 1.0, "first starts")]
    assert times.wait(0.0) == want, "there is room beside it; only its pods were waited for"


def test_a_round_that_was_not_written_holds_none_up() -> None:
    times = one_runs_in_each()
    times.put(build_unit("first", "a", queue="q", cpu=2, priority=9))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Preempt)
    times.edit("one", priority=10)
    times.workers.wake(times.engine.on_preempted(decision, decision.victims))
    times.comes("second", "b", 2, queue="r")
    assert times.wait(1.0) == [(BEGIN, "second evicts two")]


def test_a_write_of_which_only_the_answer_was_lost_has_not_failed() -> None:
    """The eviction is undone by hand: the unit rests, as after any round without result."""
    times = two_run()
    times.put(build_unit("first", "q", queue="q", cpu=2, priority=9))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Preempt)
    times.workers.wake(times.engine.on_preempted(decision, decision.victims))
    times.has_to_leave("one", f"{for_whom_mark('ns/first')}(...)")
    assert times.wait(1.0) == []
    times.put(changed(times.units["one"], 1, conditions=()))
    assert times.wait(REST_SECONDS - 1.0) == []


def test_pods_of_a_unit_that_was_not_asked_to_leave_are_no_room() -> None:
    """Its job was deleted without them while its eviction could not be written."""
    times = two_run()
    times.workers.wake(times.engine.on_pod(build_pod("pod", cpu=2, unit="ns/one", quota="q")))
    times.put(build_unit("first", "q", queue="q", cpu=4, priority=9))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Preempt)
    assert {each.unit for each in decision.victims} == {"ns/one", "ns/two"}
    times.workers.wake(times.engine.on_queue_unit_gone(times.units.pop("one")))
    times.workers.wake(times.engine.on_preempted(decision, decision.victims))
    assert times.wait(1.0) == []


def test_room_is_kept_while_pods_of_the_first_choice_end_after_the_second() -> None:
    """The watch reports of the first choice only that it is released."""
    times = two_run()
    times.queue("r", TAKES_ALL)
    times.workers.wake(times.engine.on_pod(build_pod("pod", cpu=2, unit="ns/one", quota="q")))
    times.put(build_unit("first", "q", queue="q", cpu=4, priority=9))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Preempt)
    failed = tuple(each for each in decision.victims if each.unit == "ns/two")
    times.workers.wake(times.engine.on_preempted(decision, failed))
    assert times.wait(1.0) == [(BEGIN, "first evicts two")]
    times.frees("one")
    times.frees("two")
    times.comes("other", "q", 2, queue="r")
    assert times.wait(1.0) == [], "the room of two is kept until the pod of one has gone"


def test_no_room_is_kept_for_a_unit_that_meanwhile_asks_for_too_much() -> None:
    times = Times()
    times.quota("q", 6)
    times.queue("q", PREEMPTS)
    times.queue("r", TAKES_ALL)
    times.runs("one", "q", 2)
    times.runs("two", "q", 2, priority=9)
    times.comes("first", "q", 4)
    times.comes("other", "q", 2, queue="r")
    assert times.wait(1.0) == [(BEGIN, "first evicts one")]
    times.edit("first", request={"cpu": 9})
    assert times.wait(0.0) == [(BEGIN + 1.0, "other starts")]


def test_no_room_is_kept_for_a_unit_that_the_server_does_not_let_start() -> None:
    times = Times()
    times.quota("q", 4)
    times.queue("q", PREEMPTS)
    times.queue("r", TAKES_ALL)
    times.runs("one", "q", 4)
    times.comes("first", "q", 4)
    times.writes = False
    times.frees("one")
    times.writes = True
    times.comes("other", "q", 4, queue="r")
    assert times.wait(0.0) == [(BEGIN, "first evicts one"), (BEGIN, "other starts")]


@pytest.mark.parametrize("names", [("higher", "lower"), ("lower",)])
def test_room_that_is_given_up_goes_to_the_queue_whose_turn_it_is(names: tuple[str, ...]) -> None:
    """It turns out to be of no use when the lower queue's unit is asked."""
    times = Times()
    times.quota("q", 6)
    times.queue("q", PREEMPTS)
    times.queue("high", TAKES_ALL, priority=9)
    times.queue("low", TAKES_ALL, priority=-1)
    times.runs("one", "q", 2)
    times.runs("two", "q", 2, priority=9)
    times.comes("first", "q", 4)
    if "higher" in names:
        times.comes("higher", "q", 1, queue="high")
    times.runs("adopted", "q", 1, priority=9)
    times.comes("lower", "q", 1, queue="low")
    assert [what for _, what in times.wait(0.0)] == ["first evicts one", f"{names[0]} starts"]


def test_a_queue_that_rests_behind_another_keeps_its_time() -> None:
    times = Times()
    for name, cpu, parent in (("top", 8, ""), ("q", 4, "top"), ("y", 4, "top")):
        times.quota(name, cpu, parent)
    times.queue("q", PREEMPTS)
    times.queue("y", TAKES_ALL, priority=5)
    times.runs("peer", "q", 2, priority=9)
    times.runs("one", "q", 1)
    times.comes("first", "q", 4)
    times.frees("peer")
    times.put(build_unit("small", "q", queue="q", cpu=1, priority=1))
    times.put(build_unit("other", "y", queue="y", cpu=1))
    rest = times.engine.decide_next("q", BEGIN, wall_time(WALL))
    assert isinstance(rest, Rest)
    assert (rest.behind, rest.until) == ("y", BEGIN + SEARCH_AGAIN_SECONDS)


@pytest.mark.parametrize(
    "said", [{}, {BACKFILL: "true"}, {MAX_DEPTH: "1"}], ids=["plain", "backfill", "depth"]
)
def test_a_unit_ahead_of_the_preemptor_does_not_wait_for_its_start_once_all_have_left(
    said: dict[str, str],
) -> None:
    """In most such queues the one behind it could not start before it."""
    times = two_run(said=said)
    times.comes("behind", "q", 2)
    times.comes("ahead", "q", 4, priority=10)
    assert times.wait(1.0) == [(BEGIN, "behind evicts one")]
    times.frees("one")
    assert times.wait(1.0) == [(BEGIN + 1.0, "ahead evicts two")], "the room of one is its own"
    times.frees("two")
    assert times.wait(REST_SECONDS) == [(BEGIN + 2.0, "ahead starts")]


def test_a_unit_that_may_be_evicted_in_a_moment_is_evicted_if_no_borrower_may() -> None:
    times = Times()
    times.quota("top", 6)
    times.quota("a", 4, "top", guaranteed=4)
    times.quota("b", 6, "top", guaranteed=2)
    times.queue("q", TAKES_ALL | {ENABLE_PREEMPTION: "true"})
    times.queue("r", TAKES_ALL)
    times.runs("borrows", "b", 4, priority=99, queue="r")
    times.put(build_unit("starts", "a", queue="q", cpu=2))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Dequeue)
    times.comes("first", "a", 2)
    assert times.wait(0.5) == [], "its admission is being written"
    times.units["starts"] = unit = admitted(times.units["starts"], times.version + 1)
    times.workers.wake(times.engine.on_written(decision, unit))
    assert times.wait(1.0) == [(BEGIN + 1.0, "first evicts starts")]


def test_after_a_failed_write_the_room_of_the_other_victims_goes_to_no_unit() -> None:
    """A unit kept out is woken by the first victim, and asked before the preemptor."""
    times = Times()
    times.quota("q", 6)
    for name in ("zz", "r"):
        times.queue(name, PREEMPTS)
    for name in ("one", "two"):
        times.runs(name, "q", 2, queue="zz")
    times.put(build_unit("first", "q", queue="zz", cpu=5, priority=9))
    times.workers.wall = WALL
    decision = times.workers.run()[0]
    assert isinstance(decision, Preempt)
    assert [victim.unit for victim in decision.victims] == ["ns/two", "ns/one"]
    times.comes("second", "q", 2, 0, queue="r")
    times.has_to_leave("one", f"{for_whom_mark('ns/first')}(...)")
    times.put(times.units["two"])
    times.workers.wake(times.engine.on_preempted(decision, decision.victims[:1]))
    assert times.wait(1.0) == [(BEGIN, "first evicts two")]


def kept_out() -> Times:
    """Room is kept for `first`, and one leaves for it; `second` would fit beside that one."""
    times = Times()
    for name, cpu, parent in (("top", 5, ""), ("a", 3, "top"), ("b", 5, "top")):
        times.quota(name, cpu, parent)
    times.queue("q", PREEMPTS)
    times.queue("r", TAKES_ALL)
    times.runs("one", "a", 2)
    times.comes("first", "a", 3)
    times.comes("second", "b", 3, queue="r")
    assert times.wait(1.0) == [(BEGIN, "first evicts one")]
    return times


def test_a_unit_kept_out_is_asked_when_a_limit_is_raised() -> None:
    times = kept_out()
    times.quota("top", 6)
    times.ask()
    assert times.wait(0.0) == [(BEGIN + 1.0, "second starts")]


def test_a_unit_kept_out_is_asked_when_the_preemptor_asks_for_less() -> None:
    times = kept_out()
    times.comes("first", "a", 2)
    assert times.wait(0.0) == [(BEGIN + 1.0, "second starts")]


def test_nothing_is_remembered_of_a_deleted_queue() -> None:
    times = Times()
    times.quota("q", 4)
    times.queue("r", TAKES_ALL)
    times.runs("one", "q", 4, priority=99, queue="r")
    times.queue("q", PREEMPTS)
    times.comes("vain", "q", 2)
    assert times.engine.rounds.waiters.times_of("q") == [BEGIN + SEARCH_AGAIN_SECONDS]
    times.workers.wake(times.engine.on_queue_gone("q"))
    assert times.engine.rounds.is_idle


def owner_and_borrower(reclaims: str, queue: dict[str, str] | None = None) -> Times:
    """Quota a is guaranteed half of what it shares with b, which is guaranteed nothing."""
    times = Times()
    times.quota("top", 4)
    times.quota("a", 4, "top", guaranteed=2, reclaims=reclaims)
    times.quota("b", 4, "top")
    times.queue("q", PREEMPTS | {WAIT_FOR_PODS_RUNNING: "true"} | (queue or {}))
    return times


def test_a_unit_that_would_reclaim_the_room_at_once_is_not_evicted_for_it() -> None:
    times = owner_and_borrower("Never")
    times.comes("owner", "a", 2, priority=0)
    times.runs("keep", "b", 2, priority=9)
    times.comes("high", "b", 2, priority=5)
    assert times.wait(LONG) == [(BEGIN, "owner starts")]


def test_a_borrower_that_waits_for_its_pods_is_evicted_for_its_room() -> None:
    times = owner_and_borrower("Never")
    times.runs("keep", "b", 2, priority=9)
    times.comes("low", "b", 2, priority=0)
    times.comes("high", "b", 2, priority=5)
    times.frees("low")
    got = [what for _, what in times.wait(LONG)]
    assert got == ["low starts", "high evicts low", "high starts"]


def test_an_owner_that_has_reclaimed_is_not_evicted_by_its_victim() -> None:
    times = owner_and_borrower("Any")
    times.runs("big", "b", 4, priority=9)
    times.comes("owner", "a", 2, priority=0)
    unit = times.units["big"]
    times.put(changed(unit, 1, "Enqueued", admissions=(), conditions=()))
    times.ask()
    assert [what for _, what in times.wait(LONG)] == ["owner evicts big", "owner starts"]


def test_a_unit_that_waits_for_pods_evicts_one_that_is_owed_other_room() -> None:
    times = owner_and_borrower("Never")
    times.comes("owner", "a", 1, priority=0)
    times.runs("low", "b", 3, priority=1)
    times.comes("high", "b", 3, priority=5)
    times.frees("owner")
    times.frees("low")
    got = [what for _, what in times.wait(1.0)]
    assert got == ["owner starts", "high evicts owner and low", "high starts"]


def test_an_owner_reclaims_from_a_borrower_what_its_queue_holds_within_another_min() -> None:
    """Evicting `mine` would be one eviction more: it would then reclaim from the borrower."""
    times = Times()
    times.quota("top", 6)
    for name in ("a", "b"):
        times.quota(name, 6, "top", guaranteed=2)
    times.quota("c", 6, "top")
    for name in ("q", "r"):
        times.queue(name, PREEMPTS)
    times.runs("mine", "a", 2)
    for name in ("c1", "c2"):
        times.runs(name, "c", 2, priority=5, queue="r")
    times.comes("high", "b", 2, priority=9)
    times.frees("c2")
    assert [what for _, what in times.wait(LONG)] == ["high evicts c2", "high starts"]


def test_a_unit_requeued_after_an_eviction_is_left_alone_for_a_while() -> None:
    times = two_run(2)
    times.frees("two")
    times.comes("first", "q", 2)
    times.returns("one")
    times.frees("first")
    at = times.workers.now
    times.comes("second", "q", 2)
    want = ["first evicts one", "first starts", "one starts"]
    assert [what for _, what in times.wait(LEFT_ALONE_SECONDS - 1)] == want
    assert times.wait(1.0) == [(at + LEFT_ALONE_SECONDS, "second evicts one")]


def borrower_before_owner(
    said: dict[str, str], policy: str = "Priority", priority: int = 0, *more: str
) -> Times:
    """Return a queue in which running borrowers precede a waiting owner.

    The guarantee is not the owner's: a unit of its quota that asks for more waits first elsewhere.
    """
    times = Times()
    times.quota("top", 6)
    times.quota("a", 6, "top", guaranteed=2)
    times.quota("b", 6, "top")
    times.quota("c", 6, "top", guaranteed=2)
    times.queue("ranked", TAKES_ALL, priority=5)
    times.queue("q", TAKES_ALL | said, policy=policy)
    for name in ("borrower", *more):
        times.runs(name, "b", 2 // (1 + len(more)), priority=priority)
    times.runs("stays", "b", 4, priority=9, queue="ranked")
    times.comes("too-much", "a", 3, queue="ranked")
    times.comes("owner", "a", 2, priority=0)
    return times


@pytest.mark.parametrize(
    "said",
    [{}, {BACKFILL: "true"}, {MAX_DEPTH: "2"}, {WAIT_FOR_PODS_RUNNING: "true"}],
    ids=["plain", "backfill", "depth", "waits for pods"],
)
def test_a_unit_evicted_for_an_owner_does_not_start_before_it(said: dict[str, str]) -> None:
    """It would be evicted again, start before the owner again, and so on without end."""
    times = borrower_before_owner(said)
    times.returns("borrower")
    assert [what for _, what in times.wait(LONG)] == ["owner evicts borrower", "owner starts"]


def test_a_unit_that_would_be_evicted_for_an_owner_next_does_not_take_the_room_either() -> None:
    times = borrower_before_owner({})
    times.comes("another", "b", 1, priority=5)
    times.frees("borrower")
    assert [what for _, what in times.wait(LONG)] == ["owner evicts borrower", "owner starts"]


def test_a_unit_that_could_not_be_evicted_for_an_owner_starts_before_it() -> None:
    """It is within its own min, and comes first."""
    times = borrower_before_owner({})
    times.comes("another", "c", 2, priority=5)
    times.frees("borrower")
    assert [what for _, what in times.wait(1.0)] == ["owner evicts borrower", "another starts"]


@pytest.mark.parametrize(
    "borrowers",
    [
        pytest.param(({MAX_DEPTH: "1"}, "Priority", 0), id="beyond the depth"),
        pytest.param(({MAX_DEPTH: "2"}, "Priority", 0, "borrower-2"), id="two beyond the depth"),
        pytest.param(({}, "Intelligent", 5), id="in a lower band"),
    ],
)
def test_a_victim_that_would_keep_the_owner_from_its_turn_is_not_chosen(
    borrowers: tuple[Any, ...],
) -> None:
    times = borrower_before_owner(*borrowers)
    times.frees("stays")
    assert [what for _, what in times.wait(LONG)] == ["owner evicts stays", "owner starts"]
