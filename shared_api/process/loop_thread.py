"""Runs a ``step()`` again and again on a thread.

Everything that goes on in the two programs is a ``step``: it does one bounded piece of work and
returns how many seconds it may rest (0: there is more to do; None: until ``wake`` is called). This
is the only module that starts threads, loops, sleeps and catches ``Exception``, so that tests can
call the same steps on one thread.

What happens to an error:

- an ``Exception`` out of a step is logged and counted, and the step is called again after a pause
  that doubles up to the cap of ``ERROR_PAUSES``. A wake does not shorten that pause: a step that
  fails on every fact must not fill the log at the rate of the facts;
- anything else (``SystemExit``, ``KeyboardInterrupt``, an error in this module) would silently end
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
"""One bounded piece of work; returns the seconds it may rest, None for "until woken"."""

ERROR_PAUSES: Final = Backoff(base_seconds=0.1, cap_seconds=5.0)
"""Short at first, because most errors are gone at the second try; at last what a neighbour that has
recovered (an API server that was down) may take to be noticed."""

STOP_SECONDS: Final = 5.0
"""What `stop` waits by default: a quarter of the 20 s grace period that the chart gives a pod."""

EXIT_FATAL: Final = 70
"""Exit code when a thread cannot go on: EX_SOFTWARE of sysexits.h."""

log = structlog.get_logger("loop_thread")


def end_process(name: str, error: BaseException) -> NoReturn:
    """End the process at once, because the thread of this name cannot go on.

    Not ``sys.exit``: on any thread but the main one that would only end the thread.
    """
    log.critical("thread ended by a fatal error, ending the process", thread=name, exc_info=error)
    os._exit(EXIT_FATAL)


class LoopThread:
    """One thread that runs one step.

    Args:
        name: shown in logs, metrics and probes.
        step: called on this thread only.
        clock: what it rests on.
        on_error: told of every exception out of a step, for a metric. Called on this thread.
        on_fatal: called on this thread when it cannot go on; the default ends the process.
        unblock: called by `stop` to make a blocking step return (it closes a socket, say).
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
        """End the rest, or make the next rest end at once. Cheap, from any thread."""
        # Where it is set already, the thread has yet to clear it, and runs a step after that.
        self._awake.set()

    def ask_to_stop(self) -> None:
        """Let the current step finish and run no other, without waiting for it."""
        self._stopping.set()
        self._awake.set()
        if self._unblock is not None:
            self._unblock()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Let the current step finish, run no other, and wait for the thread to end.

        Returns whether it has ended. Harmless when repeated, before `start`, and on this thread.
        """
        self.ask_to_stop()
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
        """Whether a wake makes it run a step at once: no step is running, nor has one failed."""
        return self._busy_since is None and not self._failures

    def busy_seconds(self) -> float:
        """Return how long the present step has been running; 0 while the thread rests."""
        since = self._busy_since
        return 0.0 if since is None else max(self._clock.monotonic() - since, 0.0)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:
            self._on_fatal(self.name, error)

    def _turn(self) -> None:
        """Run one step and rest as it says."""
        # Before the step, not after: a wake while the step runs is about something that the step
        # may have looked at too early, so it must cut the coming rest.
        self._awake.clear()
        if self._stopping.is_set():  # set between the loop's look and the clear
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
        """Log and count a failed step; return how long to pause."""
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
    """Run a function on a short-lived thread; an exception out of it is logged, not repeated."""

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
    """Stop threads together, and wait so long for all of them; return whether all have ended.

    One after the other, some that wait for a slow server would take as long as a pod is given.
    """
    until = clock.monotonic() + timeout_seconds
    for thread in threads:
        thread.ask_to_stop()
    ended = [thread.stop(max(until - clock.monotonic(), 0.0)) for thread in threads]
    return all(ended)


def check_threads(threads: Sequence[LoopThread], limit_seconds: float) -> tuple[bool, str]:
    """Judge for ``/livez`` whether every thread runs and none hangs in a step.

    Returns (ok, detail); the detail names the threads that are not well.
    """
    ended = [thread.name for thread in threads if not thread.is_alive()]
    hung = [t.name for t in threads if t.is_alive() and t.busy_seconds() > limit_seconds]
    if not ended and not hung:
        return True, f"{len(threads)} threads run"
    parts = [f"ended: {', '.join(sorted(ended))}"] if ended else []
    if hung:
        parts.append(f"in one step for over {limit_seconds:g} s: {', '.join(sorted(hung))}")
    return False, "; ".join(parts)
