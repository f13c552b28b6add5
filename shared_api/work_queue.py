"""A queue of keys: no key waits twice, and no key is worked on by two threads.

Two sets do it. A key is *dirty* from ``add`` until a worker takes it, *processing* from then until
``done``. A key that is added while it is processed becomes dirty again, and goes back into the line
at ``done``, so that what happened meanwhile is looked at, once.

    add ──► dirty, in line ──► try_get ──► processing ──► done ──► (dirty again? back in line)
                 ▲                              │
    add_after ───┘ when due                     └─ add: dirty, but not in line yet

A key that is taken takes its delay with it: whoever works on it now sees what the delay was to
bring it back for, and asks again if that is not enough.

Model: client-go ``util/workqueue``. Different here: nobody blocks in the queue, workers rest as
their threads do; and delays are a heap inside it that ``try_get`` looks at, not a thread. So tests
in virtual time use the queue as it is.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Hashable
from math import ceil
from typing import Generic, Protocol, TypeVar

from shared_api.process.clock import Clock

KeyT = TypeVar("KeyT", bound=Hashable)


class WorkQueueObserver(Protocol):
    """Sees what goes through a queue (for metrics). Called without the lock, on any thread."""

    def show(self, *, depth: Callable[[], float]) -> None:
        """Learn whom to ask how many keys are in line; called once."""
        ...

    def on_add(self, count: int) -> None:
        """See that so many keys became dirty."""
        ...

    def on_get(self, waited_seconds: float) -> None:
        """See that a worker took a key which had been dirty for this long."""
        ...

    def on_done(self, worked_seconds: float) -> None:
        """See that a worker finished a key which it had taken this long ago."""
        ...

    def on_retry(self) -> None:
        """See that a key was added after a failure."""
        ...


class WorkQueue(Generic[KeyT]):
    """Keys to work on; safe for many adders and many workers.

    Args:
        clock: the time for delays and durations.
        backoff: attempt number (0 for the first retry) -> seconds, for `add_rate_limited`.
        observer: sees what goes on.
        on_ready: called, without the lock, when a key came into line or a delay became the
            nearest; a `LoopThread.wake`.
        on_delay: called in its place for a delay, where somebody else than the workers looks after
            delays (`start_due`): else every worker that rests wakes for the same one.
        delay_step_seconds: delays end together, at multiples of this time, and so what wakes for
            one key finds others beside it; 0: each at its own time.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        backoff: Callable[[int], float],
        observer: WorkQueueObserver | None = None,
        on_ready: Callable[[], None] | None = None,
        on_delay: Callable[[], None] | None = None,
        delay_step_seconds: float = 0.0,
    ) -> None:
        self._clock = clock
        self._backoff = backoff
        self._observer = observer
        self._on_ready = on_ready
        self._on_delay = on_ready if on_delay is None else on_delay
        self._delay_step = delay_step_seconds
        self._lock = threading.Lock()  # guards all fields below
        self._line: deque[KeyT] = deque()
        self._dirty: dict[KeyT, float] = {}  # -> since when
        self._processing: dict[KeyT, float] = {}  # -> since when
        self._delayed: list[tuple[float, int, KeyT]] = []  # heap of (due, order of adding, key)
        self._due: dict[KeyT, float] = {}  # the entry of the heap that counts for a key
        self._order = 0
        self._retries: dict[KeyT, int] = {}
        self._shut_down = False
        if observer is not None:
            observer.show(depth=self.depth)

    def add(self, key: KeyT) -> None:
        """Ask for work on a key; nothing new when it is dirty already, or after `shut_down`."""
        with self._lock:
            became_dirty = self._mark_dirty(key)
            is_work_left = bool(self._line)
        self._report_added(int(became_dirty), is_work_left=is_work_left)

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Add the key when so many seconds have passed; of several delays the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        with self._lock:
            due = self._on_grid(self._clock.monotonic() + seconds)
            if self._shut_down or self._due.get(key, due + 1) <= due:
                return
            self._order += 1
            self._due[key] = due
            heapq.heappush(self._delayed, (due, self._order, key))
            is_nearest = self._delayed[0][2] == key
        if is_nearest and self._on_delay is not None:
            self._on_delay()

    def add_rate_limited(self, key: KeyT, *, at_least_seconds: float = 0.0) -> None:
        """Add the key after a pause that grows with each call until `forget`, or a longer one."""
        with self._lock:
            attempt = self._retries.get(key, 0)
            self._retries[key] = attempt + 1
        if self._observer is not None:
            self._observer.on_retry()
        self.add_after(key, max(self._backoff(attempt), at_least_seconds))

    def forget(self, key: KeyT) -> None:
        """Start from the shortest pause again: the work on the key has succeeded."""
        with self._lock:
            self._retries.pop(key, None)

    def retries(self, key: KeyT) -> int:
        """Return how often the key was added after a failure since it was last forgotten."""
        with self._lock:
            return self._retries.get(key, 0)

    def try_get(self) -> KeyT | None:
        """Take the next key, or None when none is ready. Every key taken needs a `done`."""
        with self._lock:
            now = self._clock.monotonic()
            became_dirty = self._move_due(now) if self._delayed else 0
            key = self._line.popleft() if self._line else None
            is_work_left = bool(self._line)
            waited = 0.0
            if key is not None:
                waited = now - self._dirty.pop(key)
                self._processing[key] = now
                self._due.pop(key, None)
        self._report_added(became_dirty, is_work_left=is_work_left)
        if key is not None and self._observer is not None:
            self._observer.on_get(waited)
        return key

    def done(self, key: KeyT) -> None:
        """Finish work on a key that was taken; it goes back in line when it was added meanwhile."""
        with self._lock:
            now = self._clock.monotonic()
            worked = now - self._processing.pop(key)
            again = key in self._dirty
            if again:
                self._line.append(key)
        if self._observer is not None:
            self._observer.on_done(worked)
        if again and self._on_ready is not None:
            self._on_ready()

    def work(self, look_at: Callable[[KeyT], None]) -> float | None:
        """Look at the next key; return how long there is none, None: until one is added.

        A key at which `look_at` raises comes again, ever more slowly; the exception is the
        caller's.
        """
        key = self.try_get()
        if key is None:
            return self.seconds_until_ready()
        try:
            look_at(key)
        except BaseException:
            self.add_rate_limited(key)
            raise
        finally:
            self.done(key)
        return 0.0

    def seconds_until_ready(self) -> float | None:
        """Return how long a worker may rest: 0 with a key in line, None with nothing to come."""
        with self._lock:
            return self._seconds_until_ready()

    def start_due(self) -> float | None:
        """Bring keys whose delay is over into line; return how long until the next, None: never.

        Whoever calls this, when `on_delay` says so and then in time, keeps the workers' sleep.
        """
        with self._lock:
            became_dirty = self._move_due(self._clock.monotonic())
            is_work_left = bool(self._line)
            rest = self._seconds_until_due()
        self._report_added(became_dirty, is_work_left=is_work_left)
        return rest

    def hand_over(self) -> None:
        """Have another worker take what is in line, because this one is going to block."""
        if self._line and self._on_ready is not None:
            self._on_ready()

    def shut_down(self) -> None:
        """Take no more keys in. Those in line are still given out."""
        with self._lock:
            self._shut_down = True
            self._delayed.clear()
            self._due.clear()
        if self._on_ready is not None:
            self._on_ready()

    def depth(self) -> int:
        """Return how many keys are in line."""
        with self._lock:
            return len(self._line)

    def longest_processing_seconds(self) -> float:
        """Return how long the oldest key in work has been so; 0 with none."""
        with self._lock:
            oldest = min(self._processing.values(), default=None)
            return 0.0 if oldest is None else self._clock.monotonic() - oldest

    def validate(self) -> None:
        """Assert what must hold between two calls; for tests."""
        with self._lock:
            line = set(self._line)
            assert len(line) == len(self._line), "a key is in line twice"
            assert line == self._dirty.keys() - self._processing.keys(), "line is not dirty - busy"
            assert self._due.keys() <= {key for _, _, key in self._delayed}, "a delay was lost"

    # What follows is called with the lock held.

    def _mark_dirty(self, key: KeyT) -> bool:
        """Make a key dirty; return whether it was not."""
        if self._shut_down or key in self._dirty:
            return False
        self._dirty[key] = self._clock.monotonic()
        if key not in self._processing:
            self._line.append(key)
        return True

    def _move_due(self, now: float) -> int:
        """Bring the keys whose delay is over into line; return how many became dirty."""
        became_dirty = 0
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due:  # else it is void: overtaken, or the key was taken
                del self._due[key]
                became_dirty += self._mark_dirty(key)
        return became_dirty

    def _seconds_until_ready(self) -> float | None:
        return 0.0 if self._line else self._seconds_until_due()

    def _seconds_until_due(self) -> float | None:
        while self._delayed:
            due, _, key = self._delayed[0]
            if self._due.get(key) == due:
                return max(due - self._clock.monotonic(), 0.0)
            heapq.heappop(self._delayed)  # void: an earlier one counts, or the key was taken
        return None

    def _on_grid(self, due: float) -> float:
        return ceil(due / self._delay_step) * self._delay_step if self._delay_step else due

    # What follows is called without it.

    def _report_added(self, count: int, *, is_work_left: bool) -> None:
        if not count:
            return
        if self._observer is not None:
            self._observer.on_add(count)
        # Else the one key was taken by the caller itself.
        if is_work_left and self._on_ready is not None:
            self._on_ready()
