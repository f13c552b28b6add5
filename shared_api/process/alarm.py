"""A flag that one thread waits for and any thread sets.

What `threading.Event` does with a condition, a list of waiters and a lock for each wait, one lock
does: the alarm is set while the lock is free. A wake and a rest are two calls each, of an event
some twenty; and threads of both programs rest and are woken dozens of times in the life of a job.
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
        """End the wait, or the next one. Harmless when repeated, by any threads at once."""
        if not self._lock.locked():
            return
        try:
            self._lock.release()
        except RuntimeError:
            return  # another thread has set it since the look

    def clear(self) -> None:
        """Let the next wait rest; by the thread that waits."""
        self._lock.acquire(blocking=False)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds (None: no limit); return whether it is.

        It stays set, as an event does.
        """
        if self._lock.acquire(timeout=-1 if timeout is None else timeout):
            self.set()
            return True
        return False
