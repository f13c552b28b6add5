"""A queue of keys: no key is queued twice, and no two threads process the same key.

Two sets ensure it. A key is *dirty* from ``add`` until a worker takes it, and *processing* from
then until ``done``. A key that is added while it is processed becomes dirty again, and is queued
again at ``done``, so that changes in the meantime are processed, once.

    add ──► dirty, queued ──► try_get ──► processing ──► done ──► (dirty again? queued again)
                 ▲                             │
    add_after ───┘ when due                    └─ add: dirty, but not queued yet

A key that is taken loses its delay: its worker sees the newest state, and adds the key with a new
delay if needed.

An exception while a key is processed is that key's alone: it is logged and counted, the key is
added again after a growing pause, and the worker takes the next key. Otherwise a few objects at
which the code fails would keep all workers in the pauses of `LoopThread`.

Model: client-go ``util/workqueue``. Different here: no thread blocks in the queue, since workers
rest in their own loops; and delays are a heap that ``try_get`` checks, not a thread. So tests in
virtual time use the same queue.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Hashable
from math import ceil
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import structlog

from shared_api.process.clock import Clock

KeyT = TypeVar("KeyT", bound=Hashable)

_Delay: TypeAlias = tuple[float, int, KeyT]
"""When a delay ends, the order of adding, and the key."""

FAILING_RETRIES: Final = 8
"""Failures in a row from which on a key fails again and again. By the backoffs of the programs that
takes 10 to 60 seconds: conflicts and a restart of the API server are over by then."""

SPARE_DELAYS: Final = 64
"""Delays that count no more and may stay beside as many as there are that count, and the same
again. So a queue with few delays, which is most queues, never sorts them out."""

MAX_ERROR_CHARS: Final = 500
"""What is logged of an exception's text: it may quote what a user wrote."""

log = structlog.get_logger("work_queue")


def log_failure(key: object, error: Exception, failures: int = 1) -> None:
    """Log that a key, or an object, could not be processed; the first time with the traceback.

    Args:
        key: What could not be processed.
        error: What was raised.
        failures: How many there were in a row. Only each that doubles their number is logged, so
            that keys that always fail do not fill the log.
    """
    if failures & (failures - 1):
        return
    log.error(
        "processing a key failed",
        key=str(key)[:MAX_ERROR_CHARS],
        failures=failures,
        error=f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS],
        exc_info=error if failures == 1 else None,
    )


class WorkQueueObserver(Protocol):
    """Counts keys for metrics. Called without the lock, on any thread."""

    def show(self, *, depth: Callable[[], float], failing: Callable[[], float]) -> None:
        """Take the functions that return how many keys are ready, and how many fail; called once.

        A key fails if it was added after a failure `FAILING_RETRIES` times in a row.
        """

    def on_add(self, count: int) -> None:
        """Count keys that became dirty."""

    def on_get(self, waited_seconds: float) -> None:
        """Count a key that a worker took, with the seconds for which it had been dirty (>= 0)."""

    def on_done(self, worked_seconds: float) -> None:
        """Count a key that a worker finished, with the seconds for which it was processed."""

    def on_retry(self) -> None:
        """Count a key that was added after a failure."""

    def on_exception(self) -> None:
        """Count an exception while a key was processed."""


class WorkQueue(Generic[KeyT]):
    """Keys to process; safe for many producers and many workers.

    Args:
        clock: The time, for delays and durations.
        backoff: Attempt number (0 for the first retry) -> seconds, for `add_rate_limited`.
        observer: Counts keys; None if they are not counted.
        on_ready: Called without the lock when a key becomes ready or a delay becomes the nearest;
            wakes a worker (`LoopThread.wake`).
        on_delay: Called instead of `on_ready` when a delay becomes the nearest, to wake the one
            thread that calls `start_due`; without such a thread every resting worker would wake for
            each delay. None: `on_ready` is called.
        delay_step_seconds: Delays end at multiples of this time, so that a worker that wakes for
            one key finds others as well; 0: each ends at its own time.
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
        self._ready: deque[KeyT] = deque()
        self._dirty: dict[KeyT, float] = {}  # -> since when
        self._processing: dict[KeyT, float] = {}  # -> since when
        self._delayed: list[_Delay[KeyT]] = []  # heap
        self._due: dict[KeyT, _Delay[KeyT]] = {}  # the entry of the heap that counts for a key
        self._order = 0
        self._retries: dict[KeyT, int] = {}
        self._failing: set[KeyT] = set()  # those with `FAILING_RETRIES` or more
        self._shut_down = False
        if observer is not None:
            observer.show(depth=self.depth, failing=lambda: len(self._failing))

    def add(self, key: KeyT) -> None:
        """Add a key; do nothing if it is dirty already, or after `shut_down`."""
        with self._lock:
            became_dirty = self._mark_dirty(key, self._clock.monotonic())
            is_work_left = bool(self._ready)
        self._report_added(int(became_dirty), is_work_left=is_work_left)

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Add a key after a delay; of several delays of a key, the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        with self._lock:
            due = self._round_up_to_step(self._clock.monotonic() + seconds)
            known = self._due.get(key)
            if self._shut_down or (known is not None and known[0] <= due):
                return
            self._order += 1
            delay = self._due[key] = (due, self._order, key)
            heapq.heappush(self._delayed, delay)
            is_nearest = self._delayed[0][2] == key
            if len(self._delayed) > 2 * len(self._due) + SPARE_DELAYS:
                self._drop_old_delays()
        if is_nearest and self._on_delay is not None:
            self._on_delay()

    def add_rate_limited(
        self, key: KeyT, *, at_least_seconds: float = 0.0, error: Exception | None = None
    ) -> None:
        """Add a key after a failure, with a pause by its retries; `forget` resets these.

        `error`: an exception that nobody expected, which is logged and counted.
        """
        with self._lock:
            attempt = self._retries.get(key, 0)
            self._retries[key] = attempt + 1
            if attempt + 1 >= FAILING_RETRIES:
                self._failing.add(key)
        if self._observer is not None:
            self._observer.on_retry()
        if error is not None:
            log_failure(key, error, attempt + 1)
            if self._observer is not None:
                self._observer.on_exception()
        self.add_after(key, max(self._backoff(attempt), at_least_seconds))

    def forget(self, key: KeyT) -> None:
        """Forget the key's retries, because processing it has succeeded."""
        with self._lock:
            self._retries.pop(key, None)
            self._failing.discard(key)

    def retries(self, key: KeyT) -> int:
        """Return how often the key was added after a failure since it was last forgotten."""
        with self._lock:
            return self._retries.get(key, 0)

    def try_get(self) -> KeyT | None:
        """Take and return the next key; None if none is ready. Call `done` for each key taken."""
        with self._lock:
            now = self._clock.monotonic()
            became_dirty = self._move_due(now) if self._delayed else 0
            key = self._ready.popleft() if self._ready else None
            is_work_left = bool(self._ready)
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
        """Finish processing a key; it is queued again if it was added meanwhile."""
        with self._lock:
            now = self._clock.monotonic()
            worked = now - self._processing.pop(key)
            again = key in self._dirty
            if again:
                self._ready.append(key)
        if self._observer is not None:
            self._observer.on_done(worked)
        if again and self._on_ready is not None:
            self._on_ready()

    def work(
        self,
        process: Callable[[KeyT], None],
        on_exception: Callable[[KeyT, Exception], None] | None = None,
    ) -> float | None:
        """Process the next key; return the seconds until one is ready (None: until one is added).

        If `process` raises, the key is added again after a growing pause, and 0 is returned as
        ever.

        Args:
            process: Called with the key.
            on_exception: Called with the key and what `process` has raised; the key is added again
                after that. What this raises is treated in the same way.
        """
        key = self.try_get()
        if key is None:
            return self.seconds_until_ready()
        try:
            self._process(key, process, on_exception)
        except Exception as error:  # noqa: BLE001 - it costs this key a pause, and not the worker
            self.add_rate_limited(key, error=error)
        finally:
            self.done(key)
        return 0.0

    def _process(
        self,
        key: KeyT,
        process: Callable[[KeyT], None],
        on_exception: Callable[[KeyT, Exception], None] | None,
    ) -> None:
        try:
            process(key)
        except Exception as error:
            if on_exception is not None:
                on_exception(key, error)
            raise

    def seconds_until_ready(self) -> float | None:
        """Return the seconds that a worker may rest; 0 if a key is ready, None if there is none."""
        with self._lock:
            return 0.0 if self._ready else self._seconds_until_due()

    def start_due(self) -> float | None:
        """Make keys ready whose delay is over; return the seconds until the next one, or None.

        One thread calls this after `on_delay` and when a delay ends, so that workers need not watch
        delays.
        """
        with self._lock:
            became_dirty = self._move_due(self._clock.monotonic())
            is_work_left = bool(self._ready)
            rest = self._seconds_until_due()
        self._report_added(became_dirty, is_work_left=is_work_left)
        return rest

    def hand_over(self) -> None:
        """Wake another worker for the keys that are ready, because this worker may block now."""
        if self._ready and self._on_ready is not None:
            self._on_ready()

    def shut_down(self) -> None:
        """Accept no more keys. Those that are ready can still be taken."""
        with self._lock:
            self._shut_down = True
            self._delayed.clear()
            self._due.clear()
        if self._on_ready is not None:
            self._on_ready()

    def depth(self) -> int:
        """Return how many keys are ready."""
        with self._lock:
            return len(self._ready)

    def longest_processing_seconds(self) -> float:
        """Return the seconds for which the oldest key has been processed; 0 if none is."""
        with self._lock:
            oldest = min(self._processing.values(), default=None)
            return 0.0 if oldest is None else self._clock.monotonic() - oldest

    def validate(self) -> None:
        """Check the invariants; for tests."""
        with self._lock:
            ready = set(self._ready)
            assert len(ready) == len(self._ready), "a key is queued twice"
            assert ready == self._dirty.keys() - self._processing.keys(), (
                "ready is not dirty - busy"
            )
            want = {key for key, count in self._retries.items() if count >= FAILING_RETRIES}
            assert self._failing == want, "the keys that fail differ from their retries"
            assert set(self._due.values()) <= set(self._delayed), "a delay was lost"

    # The following methods are called with the lock held.

    def _mark_dirty(self, key: KeyT, now: float) -> bool:
        """Make a key dirty since `now`; return whether it was not.

        The caller has read `now` with the lock held, so no key is dirty since a time after the one
        at which a worker takes it. A wait below 0 would let a counter of waits fall.
        """
        if self._shut_down or key in self._dirty:
            return False
        self._dirty[key] = now
        if key not in self._processing:
            self._ready.append(key)
        return True

    def _move_due(self, now: float) -> int:
        """Make the keys ready whose delay is over; return how many became dirty.

        A key is dirty since it became ready, as in client-go, not since its delay was over: until
        then no worker could have taken it.
        """
        became_dirty = 0
        while self._delayed and self._delayed[0][0] <= now:
            delay = heapq.heappop(self._delayed)
            if self._counts(delay):
                del self._due[delay[2]]
                became_dirty += self._mark_dirty(delay[2], now)
        return became_dirty

    def _drop_old_delays(self) -> None:
        """Drop the delays that count no more: a job would leave one of days at each of its changes.

        At least half of them and `SPARE_DELAYS` go, so a delay that is added costs the same on
        average, however many there are.
        """
        self._delayed = list(self._due.values())
        heapq.heapify(self._delayed)

    def _counts(self, delay: _Delay[KeyT]) -> bool:
        """Return whether a delay counts: no earlier one does, and its key was not taken since.

        Not one that ends at the same time: were a delay that counts no more taken for it, the order
        of keys would depend on whether it was dropped before.
        """
        return self._due.get(delay[2]) is delay

    def _seconds_until_due(self) -> float | None:
        while self._delayed:
            if self._counts(self._delayed[0]):
                return max(self._delayed[0][0] - self._clock.monotonic(), 0.0)
            heapq.heappop(self._delayed)
        return None

    def _round_up_to_step(self, due: float) -> float:
        return ceil(due / self._delay_step) * self._delay_step if self._delay_step else due

    # The following method is called without the lock.

    def _report_added(self, count: int, *, is_work_left: bool) -> None:
        if not count:
            return
        if self._observer is not None:
            self._observer.on_add(count)
        # If nothing is left, the caller itself has taken the only ready key: no worker is needed.
        if is_work_left and self._on_ready is not None:
            self._on_ready()
