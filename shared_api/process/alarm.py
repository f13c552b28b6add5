"""A flag that one thread waits for and any thread sets.

One lock replaces what `threading.Event` does with a condition, a list of waiters and a lock for
each wait: the alarm is set while the lock is free. A wake or a wait costs two calls, where an event
takes some twenty, and threads of both programs wait and are woken dozens of times per job.
"""

from __future__ import annotations

import threading


class Alarm:
    """An event for one waiting thread; any thread may set it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards nothing: free while the alarm is set
        self._lock.acquire()

    def is_set(self) -> bool:
        """Return whether a wait would return at once."""
        return not self._lock.locked()

    def set(self) -> None:
        """End the current wait, or the next one. Idempotent; safe from any number of threads."""
        if not self._lock.locked():
            return
        try:
            self._lock.release()
        except RuntimeError:
            return  # another thread has set it since the check

    def clear(self) -> None:
        """Make the next wait block; called only by the thread that waits."""
        self._lock.acquire(blocking=False)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for at most `timeout` seconds; return whether it is set.

        None waits without a limit. The alarm stays set, as an event does.
        """
        if self._lock.acquire(timeout=-1 if timeout is None else timeout):
            self.set()
            return True
        return False
