"""Which classes are asked again, and when."""

from __future__ import annotations

import pytest

from queue_scheduler.framework.extension_points import Waiter
from queue_scheduler.preemption.blocked_classes import (
    SEARCH_AGAIN_SECONDS,
    BlockedClasses,
    Releases,
)
from shared_api.objects.meta import Uid

A: Waiter = ("q", 1)
B: Waiter = ("q", 2)
OTHER: Waiter = ("p", 1)
NOTHING: Releases = (0, 0, 0)


def test_a_class_kept_out_is_asked_at_any_release() -> None:
    waiters = BlockedClasses()
    waiters.keep_out(A, (4, 2, 7))
    waiters.wake_after((4, 2, 7))
    assert waiters.take_woken() == []
    waiters.wake_after((4, 2, 8))
    assert waiters.take_woken() == [A]
    assert not waiters


@pytest.mark.parametrize("over", [(5, 2, 7), (4, 3, 7)], ids=["departure", "end"])
def test_a_class_behind_a_round_is_asked_when_one_is_over(over: tuple[int, int, int]) -> None:
    waiters = BlockedClasses()
    waiters.hold_behind_rounds(A, (4, 2, 7))
    waiters.wake_after((4, 2, 9))
    assert waiters.take_woken() == []
    waiters.wake_after((*over[:2], 9))
    assert waiters.take_woken() == [A]


def test_a_release_before_the_wait_wakes_no_class() -> None:
    waiters = BlockedClasses()
    waiters.keep_out(A, (1, 0, 0))
    waiters.wake_after((2, 0, 0))
    waiters.keep_out(B, (9, 0, 0))
    waiters.wake_after((9, 0, 0))
    assert waiters.take_woken() == [A]


def test_a_later_waiter_hides_no_release_from_an_earlier_one() -> None:
    waiters = BlockedClasses()
    waiters.keep_out(A, (1, 0, 0))
    waiters.hold_behind_rounds(B, (2, 0, 0))
    waiters.wake_after((2, 0, 0))
    assert A in waiters.take_woken()


@pytest.mark.parametrize(
    "left", [frozenset[Uid](), frozenset({Uid("b")})], ids=["none", "one of two"]
)
def test_a_class_that_stands_back_is_asked_when_others_of_its_queue_are_in_flight(
    left: frozenset[Uid],
) -> None:
    waiters = BlockedClasses()
    in_flight = frozenset({Uid("a"), Uid("b")})
    waiters.stand_back(A, in_flight)
    waiters.stand_back(OTHER, in_flight)
    waiters.wake_after(NOTHING, lambda queue: left if queue == "p" else in_flight)
    assert waiters.take_woken() == [OTHER]
    assert waiters


@pytest.mark.parametrize("times", [(5.0, 9.0), (9.0, 5.0)])
def test_of_two_times_the_first_counts(times: tuple[float, float]) -> None:
    waiters = BlockedClasses()
    for at in times:
        waiters.ask_at(A, at)
    assert waiters.times_of("q") == [5.0]


def test_a_class_with_a_time_is_asked_then_and_in_its_queue() -> None:
    waiters = BlockedClasses()
    waiters.ask_at(A, 5.0)
    waiters.ask_at(OTHER, 1.0)
    assert waiters.times_of("q") == [5.0]
    waiters.wake_due("q", 4.9, NOTHING)
    assert waiters.take_woken() == []
    waiters.wake_due("q", 5.0, NOTHING)
    assert waiters.take_woken() == [A]
    assert waiters.times_of("q") == []
    assert waiters.times_of("p") == [1.0]


def test_a_class_that_searched_in_vain_is_asked_again_after_a_release() -> None:
    waiters = BlockedClasses()
    waiters.search_again(A, 5.0, (3, 1, 7), "who")
    at = 5.0 + SEARCH_AGAIN_SECONDS
    waiters.wake_due("q", at - 0.1, (3, 1, 8))
    waiters.wake_due("q", at, (4, 2, 7))
    assert waiters.take_woken() == []
    assert waiters.times_of("q") == [at + SEARCH_AGAIN_SECONDS]
    waiters.wake_due("q", at + SEARCH_AGAIN_SECONDS, (4, 2, 8))
    assert waiters.take_woken() == [A]
    assert not waiters


@pytest.mark.parametrize(
    ("who", "after", "released", "want"),
    [
        pytest.param("who", 9.9, 8, True, id="too early"),
        pytest.param("who", 99.0, 7, True, id="nothing was released"),
        pytest.param("who", 10.0, 8, False, id="in time"),
        pytest.param("other", 0.0, 7, False, id="another"),
    ],
)
def test_a_class_that_searched_in_vain_does_not_search_for_a_while(
    who: str, after: float, released: int, *, want: bool
) -> None:
    waiters = BlockedClasses()
    waiters.search_again(A, 5.0, (3, 1, 7), "who")
    for each in (waiters, waiters.copy()):
        assert each.has_searched(A, who, 5.0 + after, (3, 1, released)) is want
        assert not each.has_searched(B, who, 5.0 + after, (3, 1, released))


def test_a_copy_is_independent() -> None:
    waiters = BlockedClasses()
    waiters.keep_out(A, (0, 0, 0))
    waiters.ask_at(B, 5.0)
    twin = waiters.copy()
    waiters.wake_after((1, 0, 0))
    waiters.wake_due("q", 9.0, NOTHING)
    assert waiters.take_woken() == [A, B]
    assert twin.take_woken() == []
    twin.wake_after((1, 0, 0))
    assert twin.take_woken() == [A]
    assert twin.times_of("q") == [5.0]
