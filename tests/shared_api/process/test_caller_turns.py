"""Threads take turns in the shares of their callers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from shared_api.caller_shares import ShareLimits
from shared_api.process.caller_turns import CallerTurns
from shared_api.process.clock import SystemClock
from shared_api.question_errors import QuestionError
from shared_api.testing.virtual_clock import VirtualClock


def limits(patience_seconds: float) -> ShareLimits:
    return ShareLimits(
        places=2, waiting=2, patience_seconds=patience_seconds, rate=2.0, own_rate=1.0
    )


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


class Answer:
    """An answer in the making, on a thread of its own, until the test lets it end."""

    def __init__(self, turns: CallerTurns, caller: str, pool: ThreadPoolExecutor) -> None:
        self.has_begun = threading.Event()
        self._may_end = threading.Event()
        self._turns, self._caller = turns, caller
        self.made: Future[None] = pool.submit(self._make)

    def _make(self) -> None:
        with self._turns.take(self._caller):
            self.has_begun.set()
            assert self._may_end.wait(10)

    def end(self) -> None:
        self._may_end.set()
        self.made.result(10)


def begin(turns: CallerTurns, caller: str, pool: ThreadPoolExecutor) -> Answer:
    """Return an answer that has begun."""
    answer = Answer(turns, caller, pool)
    assert answer.has_begun.wait(10)
    return answer


def test_a_turn_waits_for_the_one_before_it(threads: ThreadPoolExecutor) -> None:
    turns = CallerTurns(limits(patience_seconds=30.0), SystemClock())
    first, second = begin(turns, "a", threads), Answer(turns, "a", threads)
    assert not second.has_begun.wait(0.1)
    first.end()
    assert second.has_begun.wait(10)
    second.end()


def test_another_caller_begins_beside_it(threads: ThreadPoolExecutor) -> None:
    turns = CallerTurns(limits(patience_seconds=30.0), SystemClock())
    first = begin(turns, "a", threads)
    begin(turns, "b", threads).end()
    first.end()


def test_a_turn_that_does_not_come_in_time_is_refused(threads: ThreadPoolExecutor) -> None:
    turns = CallerTurns(limits(patience_seconds=0.2), SystemClock())
    first = begin(turns, "a", threads)
    with pytest.raises(QuestionError, match="ask again in 1 s") as caught, turns.take("a"):
        pytest.fail("it has no turn")
    assert caught.value.retry_after == 1
    first.end()


def test_who_loses_its_place_in_the_queue_is_told_at_once(threads: ThreadPoolExecutor) -> None:
    turns = CallerTurns(limits(patience_seconds=30.0), SystemClock())
    running = [begin(turns, "a", threads), begin(turns, "b", threads)]
    asked = [Answer(turns, "a", threads) for _ in range(3)]
    refused = wait([each.made for each in asked], 10, "FIRST_COMPLETED").done
    assert [type(each.exception()) for each in refused] == [QuestionError]
    newcomer = Answer(turns, "b", threads)
    left = [each for each in asked if each.made not in refused]
    refused = wait([each.made for each in left], 10, "FIRST_COMPLETED").done
    assert [type(each.exception()) for each in refused] == [QuestionError]
    left = [each for each in left if each.made not in refused]
    for each in (*running, newcomer, *left):
        each.end()


def test_seconds_that_are_spent_come_back() -> None:
    clock = VirtualClock()
    spare = ShareLimits(places=2, waiting=2, patience_seconds=1.0, rate=0.5, own_rate=0.1)
    turns = CallerTurns(spare, clock)
    with turns.take("a"):
        clock.advance(60.0)
    with pytest.raises(QuestionError) as caught, turns.take("a"):
        pytest.fail("it has spent everything")
    assert caught.value.retry_after == 10
    clock.advance(9.5)
    before = clock.monotonic()
    with turns.take("a"):  # waits for the rest
        assert clock.monotonic() - before == pytest.approx(0.5, abs=0.01)


def test_a_block_that_fails_gives_its_place_back() -> None:
    turns = CallerTurns(limits(patience_seconds=0.1), SystemClock())
    for _ in range(5):
        with pytest.raises(ValueError, match="no"), turns.take("a"):
            raise ValueError("no")
