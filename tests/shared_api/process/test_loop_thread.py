"""Tests of shared_api.process.loop_thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shared_api.process.clock import SystemClock, Waitable
from shared_api.process.loop_thread import (
    ERROR_PAUSES,
    LoopThread,
    check_threads,
    end_process,
    run_once,
    stop_all,
)
from shared_api.testing.virtual_clock import VirtualClock

PATIENCE_SECONDS = 60.0


class ScriptedStep:
    """Returns the given answers; the last one repeats. Counts its calls."""

    def __init__(self, *answers: float | BaseException | None) -> None:
        self.answers = list(answers)
        self.calls = 0
        self.called = threading.Condition()

    def __call__(self) -> float | None:
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        with self.called:
            self.calls += 1
            self.called.notify_all()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def wait_for_calls(self, count: int) -> None:
        with self.called:
            assert self.called.wait_for(lambda: self.calls >= count, PATIENCE_SECONDS), (
                f"{self.calls} calls"
            )


@contextmanager
def running(thread: LoopThread) -> Iterator[LoopThread]:
    thread.start()
    try:
        yield thread
    finally:
        assert thread.stop(PATIENCE_SECONDS)


def test_a_step_is_called_again_after_its_rest() -> None:
    clock, step = VirtualClock(blocking=True), ScriptedStep(5.0)
    with running(LoopThread("t", step, clock)):
        clock.wait_for_sleepers(1)
        clock.advance(4.9)
        assert step.calls == 1
        clock.advance(0.2)
        step.wait_for_calls(2)


def test_a_step_with_more_to_do_is_called_again_at_once() -> None:
    clock, step = VirtualClock(blocking=True), ScriptedStep(0.0, 0.0, 0.0, None)
    with running(LoopThread("t", step, clock)):
        step.wait_for_calls(4)
        clock.wait_for_sleepers(1)
        assert step.calls == 4


def test_a_wake_ends_the_rest() -> None:
    clock, step = VirtualClock(blocking=True), ScriptedStep(None)
    with running(LoopThread("t", step, clock)) as thread:
        clock.wait_for_sleepers(1)
        thread.wake()
        step.wait_for_calls(2)
        clock.wait_for_sleepers(1)
        assert step.calls == 2, "one wake, one call"


def test_a_wake_while_the_step_runs_is_not_lost() -> None:
    clock, step = VirtualClock(blocking=True), ScriptedStep(None)

    def woken_in_the_middle() -> float | None:
        if step.calls == 0:
            thread.wake()
        return step()

    thread = LoopThread("t", woken_in_the_middle, clock)
    with running(thread):
        step.wait_for_calls(2)


def test_a_failing_step_is_repeated_after_growing_pauses() -> None:
    clock = VirtualClock(start=0, blocking=True)
    step = ScriptedStep(*[ValueError("no")] * 8, None)
    seen: list[tuple[str, str]] = []
    thread = LoopThread("t", step, clock, on_error=lambda n, e: seen.append((n, str(e))))
    pauses = []
    with running(thread):
        for failure in range(1, 9):
            step.wait_for_calls(failure)
            clock.wait_for_sleepers(1)
            deadline = clock.next_deadline()
            assert deadline is not None
            pauses.append(deadline - clock.monotonic())
            clock.advance(pauses[-1])
        step.wait_for_calls(9)
    assert seen == [("t", "no")] * 8
    assert pauses[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert pauses[-1] == ERROR_PAUSES.cap_seconds


class ClockThatNeverWaits(SystemClock):
    """Records each wait, and whether an event could end it early."""

    def __init__(self) -> None:
        self.waits: list[tuple[float | None, bool]] = []

    def wait(self, event: Waitable, seconds: float | None) -> bool:
        self.waits.append((seconds, event.is_set()))
        return event.is_set()


def test_a_wake_does_not_shorten_the_pause_after_an_error() -> None:
    clock = ClockThatNeverWaits()

    enough = threading.Event()

    def woken_and_failing() -> float | None:
        thread.wake()
        if len(clock.waits) == 3:
            enough.set()
            thread.stop()
        raise ValueError

    thread = LoopThread("t", woken_and_failing, clock)
    thread.start()
    assert enough.wait(PATIENCE_SECONDS)
    assert thread.stop(PATIENCE_SECONDS)
    assert clock.waits[:3] == [(0.1, False), (0.2, False), (0.4, False)]


def test_only_a_thread_that_a_wake_starts_counts_as_resting() -> None:
    clock = VirtualClock(start=0, blocking=True)
    step = ScriptedStep(ValueError(), None)
    with running(LoopThread("t", step, clock)) as thread:
        step.wait_for_calls(1)
        clock.wait_for_sleepers(1)
        assert not thread.is_resting, "it pauses after an error"
        clock.advance(ERROR_PAUSES.cap_seconds)
        step.wait_for_calls(2)
        clock.wait_for_sleepers(1)
        assert thread.is_resting


def test_a_step_that_recovers_starts_again_with_the_shortest_pause() -> None:
    clock = VirtualClock(start=0, blocking=True)
    step = ScriptedStep(ValueError(), ValueError(), 0.0, ValueError(), None)
    with running(LoopThread("t", step, clock)):
        for calls, pause in ((1, 0.1), (2, 0.2), (4, 0.1)):
            step.wait_for_calls(calls)
            clock.wait_for_sleepers(1)
            got = (clock.next_deadline() or 0) - clock.monotonic()
            assert got == pytest.approx(pause)
            clock.advance(got)
        step.wait_for_calls(5)


@pytest.mark.parametrize("fatal", [SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_a_fatal_error_does_not_end_the_thread_silently(fatal: BaseException) -> None:
    reported: list[tuple[str, BaseException]] = []
    thread = LoopThread(
        "worker", ScriptedStep(fatal), SystemClock(), on_fatal=lambda n, e: reported.append((n, e))
    )
    thread.start()
    assert thread.stop(PATIENCE_SECONDS)
    assert reported == [("worker", fatal)]


def test_a_fatal_error_ends_the_process_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise LookupError(code)

    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(LookupError, match="70"):
        end_process("worker", SystemExit())


def test_stop_unblocks_a_step_that_waits_and_joins_it() -> None:
    door, inside = threading.Event(), threading.Event()

    def step() -> float:
        inside.set()
        door.wait()
        return 0.0

    thread = LoopThread("t", step, SystemClock(), unblock=door.set)
    thread.start()
    assert inside.wait(PATIENCE_SECONDS)
    assert thread.stop(PATIENCE_SECONDS)
    assert thread.stop(PATIENCE_SECONDS), "again"
    assert not thread.is_alive()


def test_stop_gives_up_on_a_step_that_hangs() -> None:
    door, inside = threading.Event(), threading.Event()

    def step() -> float:
        inside.set()
        door.wait()
        return 0.0

    thread = LoopThread("t", step, SystemClock())
    thread.start()
    assert inside.wait(PATIENCE_SECONDS)
    assert not thread.stop(0.01)
    door.set()
    assert thread.stop(PATIENCE_SECONDS)


def test_stop_before_start_and_from_the_thread_itself_is_harmless() -> None:
    assert LoopThread("t", lambda: None, SystemClock()).stop()
    answers: list[bool] = []
    thread = LoopThread("t", lambda: answers.append(thread.stop()), SystemClock())
    thread.start()
    assert thread.stop(PATIENCE_SECONDS)
    assert answers == [True]


@pytest.mark.parametrize("failure", [None, ValueError("bug")])
def test_a_single_run_is_not_repeated_and_its_thread_ends(failure: Exception | None) -> None:
    inside, door, calls = threading.Event(), threading.Event(), []

    def work() -> None:
        calls.append(threading.current_thread())
        inside.set()
        door.wait(PATIENCE_SECONDS)
        if failure is not None:
            raise failure

    run_once("errand", work, SystemClock())
    assert inside.wait(PATIENCE_SECONDS)
    assert calls[0].name == "errand"
    door.set()
    calls[0].join(PATIENCE_SECONDS)
    assert not calls[0].is_alive()
    assert len(calls) == 1


def test_the_live_check_names_threads_that_ended_or_hang() -> None:
    clock, door, inside = VirtualClock(blocking=True), threading.Event(), threading.Event()

    def hang() -> float | None:
        inside.set()
        door.wait()
        return None

    hung = LoopThread("hung", hang, clock, unblock=door.set)
    with running(hung), running(LoopThread("well", ScriptedStep(None), clock)) as well:
        assert inside.wait(PATIENCE_SECONDS)
        clock.wait_for_sleepers(1)
        assert check_threads([hung, well], 30) == (True, "2 threads run")
        clock.advance(31)
        assert hung.busy_seconds() == 31
        assert well.busy_seconds() == 0
        never = LoopThread("never", ScriptedStep(None), clock)
        got = check_threads([well, hung, never], 30)
        assert got == (False, "ended: never; in one step for over 30 s: hung")


def test_threads_that_stop_together_do_not_wait_for_each_other() -> None:
    is_free = threading.Event()
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        assert is_free.wait(PATIENCE_SECONDS)

    waiting = LoopThread("waits for the next", wait, SystemClock())
    freeing = LoopThread("frees it", ScriptedStep(None), SystemClock(), unblock=is_free.set)
    waiting.start()
    freeing.start()
    assert begun.wait(PATIENCE_SECONDS)
    assert stop_all([waiting, freeing], SystemClock(), 5.0)


def test_threads_that_stop_together_share_one_timeout() -> None:
    clock = VirtualClock()
    given: list[float] = []

    class Hanging(LoopThread):
        def stop(self, timeout_seconds: float = 60.0) -> bool:
            given.append(timeout_seconds)
            clock.advance(min(timeout_seconds, 3.0))
            return False

    hanging = [Hanging(name, ScriptedStep(None), clock) for name in "abc"]
    assert not stop_all(hanging, clock, 5.0)
    assert given == [5.0, 2.0, 0.0]
