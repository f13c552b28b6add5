"""Runs a ``step()`` repeatedly on a thread.

All work of the two programs is done in a ``step``: it does one bounded piece of work and returns
how many seconds the thread may rest (0: there is more to do; None: until ``wake`` is called). This
is the only module that starts threads, loops, sleeps and catches ``Exception``, so that tests can
call the same steps on one thread.

How errors are handled:

- An ``Exception`` raised by a step is logged and counted, and the step is called again after a
  pause that doubles up to the cap of ``ERROR_PAUSES``. A wake does not shorten that pause: a step
  that fails on every event must not fill the log at the rate of the events.
- Anything else (``SystemExit``, ``KeyboardInterrupt``, an error in this module) would silently end
  the thread, and the program would look alive without doing its work. So it ends the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import structlog

from shared_api.backoff import Backoff
from shared_api.process.alarm import Alarm
from shared_api.process.clock import Clock

Step = Callable[[], float | None]
"""One bounded piece of work; returns the seconds to rest, or None for "until woken"."""

ERROR_PAUSES: Final = Backoff(base_seconds=0.1, cap_seconds=5.0)
"""Short at first, because most errors are gone at the second try; the cap is how late a recovered
peer (an API server that was down) may be noticed."""

STOP_SECONDS: Final = 5.0
"""How long `stop` waits by default: a quarter of the 20 s grace period that the chart gives a
pod."""

EXIT_FATAL: Final = 70
"""Exit code when a thread cannot go on: EX_SOFTWARE of sysexits.h."""

log = structlog.get_logger("loop_thread")


def end_process(name: str, error: BaseException) -> NoReturn:
    """End the process at once, because the thread of this name cannot continue.

    ``sys.exit`` would end only the thread, on any thread but the main one.
    """
    log.critical("thread ended by a fatal error, ending the process", thread=name, exc_info=error)
    os._exit(EXIT_FATAL)


class LoopThread:
    """One thread that runs one step.

    Args:
        name: Shown in logs, metrics and probes.
        step: Called on this thread only.
        clock: Waits while the thread rests.
        on_error: Called on this thread with the name and each exception of a step, for a metric.
        on_fatal: Called on this thread when it cannot continue; the default ends the process.
        unblock: Called by `stop` to make a blocking step return, for example by closing a socket.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        clock: Clock,
        *,
        on_error: Callable[[str, Exception], None] | None = None,
        on_fatal: Callable[[str, BaseException], None] = end_process,
        unblock: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._step = step
        self._clock = clock
        self._on_error = on_error
        self._on_fatal = on_fatal
        self._unblock = unblock
        self._awake = Alarm()  # set by wake() and stop()
        self._stopping = Alarm()
        self._failures = 0  # in a row; only this thread writes it
        self._busy_since: float | None = None  # only this thread writes it
        # Daemon: a step that hangs in a system call must not keep a stopped program alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; once."""
        self._thread.start()

    def wake(self) -> None:
        """End the current rest, or make the next one end at once. Cheap; from any thread."""
        # If it is already set, the thread has yet to clear it, and runs a step after that.
        self._awake.set()

    def request_stop(self) -> None:
        """Let the current step finish and run no other; return without waiting."""
        self._stopping.set()
        self._awake.set()
        if self._unblock is not None:
            self._unblock()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Let the current step finish, run no other, and wait for the thread to end.

        Returns whether it has ended. Idempotent; may be called before `start` and on this thread.
        """
        self.request_stop()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            log.warning("thread did not stop in time", thread=self.name, seconds=timeout_seconds)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    @property
    def is_resting(self) -> bool:
        """Whether a wake makes it run a step at once: no step runs, and the last one succeeded."""
        return self._busy_since is None and not self._failures

    def busy_seconds(self) -> float:
        """Return the seconds for which the current step has been running; 0 while it rests."""
        since = self._busy_since
        return 0.0 if since is None else max(self._clock.monotonic() - since, 0.0)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:
            self._on_fatal(self.name, error)

    def _turn(self) -> None:
        """Run one step and rest as long as it returns."""
        # Before the step, not after: a wake during the step is about something that the step may
        # have read too early, so it must end the coming rest.
        self._awake.clear()
        if self._stopping.is_set():  # set between the loop's check and the clear
            return
        self._busy_since = self._clock.monotonic()
        try:
            rest = self._step()
        except Exception as error:
            self._busy_since = None
            self._clock.wait(self._stopping, self._on_failure(error))
            return
        self._busy_since = None
        self._failures = 0
        if rest is None or rest > 0:
            self._clock.wait(self._awake, rest)

    def _on_failure(self, error: Exception) -> float:
        """Log and count a failed step; return the seconds to pause."""
        pause = ERROR_PAUSES.seconds(self._failures)
        self._failures += 1
        log.error(
            "step failed",
            thread=self.name,
            failures=self._failures,
            retry_in_seconds=pause,
            exc_info=error,
        )
        if self._on_error is not None:
            self._on_error(self.name, error)
        return pause


def run_once(name: str, work: Callable[[], None], clock: Clock) -> None:
    """Run a function once on a thread of its own; an exception is logged and not retried."""

    def step() -> None:
        try:
            work()
        finally:
            thread.stop()

    thread = LoopThread(name, step, clock)
    thread.start()


def stop_all(
    threads: Sequence[LoopThread], clock: Clock, timeout_seconds: float = STOP_SECONDS
) -> bool:
    """Stop threads together, waiting `timeout_seconds` in all; return whether all have ended.

    Stopped one after the other, threads that wait for a slow server would use up the grace period
    of the pod.
    """
    until = clock.monotonic() + timeout_seconds
    for thread in threads:
        thread.request_stop()
    ended = [thread.stop(max(until - clock.monotonic(), 0.0)) for thread in threads]
    return all(ended)


def check_threads(threads: Sequence[LoopThread], limit_seconds: float) -> tuple[bool, str]:
    """Return for ``/livez`` whether every thread runs and none hangs in a step.

    Args:
        threads: Those to check.
        limit_seconds: A step that runs longer than this hangs.

    Returns:
        (ok, detail); the detail names the threads that failed the check.
    """
    ended = [thread.name for thread in threads if not thread.is_alive()]
    hung = [t.name for t in threads if t.is_alive() and t.busy_seconds() > limit_seconds]
    if not ended and not hung:
        return True, f"{len(threads)} threads run"
    parts = [f"ended: {', '.join(sorted(ended))}"] if ended else []
    if hung:
        parts.append(f"in one step for over {limit_seconds:g} s: {', '.join(sorted(hung))}")
    return False, "; ".join(parts)
