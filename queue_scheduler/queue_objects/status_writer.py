"""Keeps the status of all objects of a kind current.

A status is written only when it changed, in the low lane, since writes are the main cost of an
object for the API server. The first change after a pause is written at once.

The status that the object has is compared, not the one that was written last: so a status that was
cleared or overwritten is restored, at the same rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from queue_scheduler.cycles.dequeue_cycle import WritersCache
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.backoff import Backoff
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.client.writes import Outcome, Rejected, WriteSink, Written, status_report
from shared_api.informer.indexed_store import ApiObject
from shared_api.objects.meta import Timestamp
from shared_api.process.clock import Clock
from shared_api.timestamps import rfc3339
from shared_api.work_queue import log_failure

MIN_INTERVAL_SECONDS: Final = 1.0
"""At most one write a second and object, whatever the kind says."""

OBJECTS_PER_STEP: Final = 50
"""How many are looked at at a time, some 5 ms: with 500 queues, a look at all of them would hold up
for 50 ms what else the program does."""

RETRY_BACKOFF: Final = Backoff(base_seconds=1.0, cap_seconds=60.0)
"""The pauses after failed writes; one that keeps failing (no right) needs an administrator."""

log = structlog.get_logger("status_writer")

ObjectT = TypeVar("ObjectT", bound=ApiObject)
FiguresT = TypeVar("FiguresT")


class StatusKind(Protocol[ObjectT, FiguresT]):
    """A kind whose statuses are kept current, by its objects' names.

    Figures are what a status is to show; equal ones are not written twice. `names`, `find` and
    `read` are called under the engine's lock.
    """

    @property
    def resource_type(self) -> ResourceType[ObjectT]:
        """The kind."""

    def names(self, engine: Engine) -> list[str]:
        """Return the names of all objects."""

    def find(self, engine: Engine, name: str) -> tuple[ObjectT, float] | None:
        """Return an object, and the fewest seconds between two writes; None: it is gone."""

    def read(self, engine: Engine, name: str) -> FiguresT | None:
        """Return what the status of an object is to show; None: it is gone."""

    def is_shown(self, thing: ObjectT, figures: FiguresT, /) -> bool:
        """Return whether the status shows this already, so that a restart writes nothing."""

    def build_patch(self, thing: ObjectT, figures: FiguresT, now: Timestamp, /) -> dict[str, Any]:
        """Return the merge patch of the status."""


class _Writing(Generic[FiguresT]):
    """The state of writing one object's status.

    What is written is the object's resourceVersion, and the figures.
    """

    __slots__ = ("failures", "in_flight", "name", "not_before", "settled", "trouble")

    def __init__(self, name: str) -> None:
        self.name = name
        self.not_before = 0.0
        self.in_flight: tuple[str, FiguresT] | None = None
        """What is in flight."""
        self.settled: tuple[str, FiguresT] | None = None
        """What is shown, or was written and not kept by the server: it is not written again."""
        self.failures = 0
        self.trouble = ""
        """The message that was logged for these failures."""


class StatusWriter(Generic[ObjectT, FiguresT]):
    """The step that keeps the statuses of a kind current: it goes round them once a second.

    Args:
        kind: The kind.
        shared: What the statuses show.
        writes: Takes the patches.
        cache: The objects as last seen.
        may_write: Returns whether this replica leads.
        clock: The time.
        on_error: Counts exceptions about single objects.
    """

    def __init__(
        self,
        kind: StatusKind[ObjectT, FiguresT],
        shared: SharedEngine,
        writes: WriteSink,
        cache: WritersCache[ObjectT],
        may_write: Callable[[], bool],
        clock: Clock,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_error = on_error
        self._kind = kind
        self._shared = shared
        self._writes = writes
        self._cache = cache
        self._may_write = may_write
        self._clock = clock
        # Their fields are also changed by writers, on the outcome of what is in flight.
        self._writings: dict[str, _Writing[FiguresT]] = {}
        # The engine's changes up to which all are shown as they are; None: not all are.
        self._shown_until: int | None = None
        # The round: what is left of it, the engine's changes at its start, whether all so far
        # are shown as they are, and the pause between its steps.
        self._left: deque[str] = deque()
        self._changes = 0
        self._are_shown = True
        self._pause = MIN_INTERVAL_SECONDS

    def step(self) -> float:
        """Write the next statuses that differ; return how many seconds to rest."""
        if not self._may_write():
            self._left.clear()
            return MIN_INTERVAL_SECONDS
        if not self._left:
            changes = self._shared.changes  # before the figures: what changes later is looked at
            if changes == self._shown_until:
                return MIN_INTERVAL_SECONDS
            self._begin_round(changes)
        for _ in range(min(OBJECTS_PER_STEP, len(self._left))):
            self._are_shown &= self._try(self._left.popleft())
        if not self._left:
            self._shown_until = self._changes if self._are_shown else None
        return self._pause

    def _begin_round(self, changes: int) -> None:
        names = self._shared.ask(self._kind.names)
        for name in self._writings.keys() - set(names):
            del self._writings[name]
        self._left.extend(names)
        self._changes, self._are_shown = changes, True
        self._pause = MIN_INTERVAL_SECONDS / max(-(-len(names) // OBJECTS_PER_STEP), 1)

    def _try(self, name: str) -> bool:
        try:
            return self._update(name)
        except Exception as error:  # noqa: BLE001 - it costs this object a pause, and no other
            log_failure(name, error)
            self._on_error()
            writing = self._writings[name]
            writing.in_flight = None
            writing.not_before = self._clock.monotonic() + RETRY_BACKOFF.seconds(writing.failures)
            writing.failures += 1
            return False

    def _update(self, name: str) -> bool:
        """Write an object's status unless it is shown; return whether it is."""
        kind = self._kind
        writing = self._writings.get(name)
        if writing is None:
            writing = self._writings[name] = _Writing(name)
        now = self._clock.monotonic()
        if now < writing.not_before:
            return False
        known = self._shared.ask(kind.find, name)
        if known is None or not self._cache.is_readable(known[0].metadata.key):
            return False  # the cached object is old: a write would only meet a conflict
        thing, interval = known
        figures = self._shared.ask(kind.read, name)
        if figures is None:
            return False
        meta = thing.metadata
        wanted = (meta.resource_version, figures)
        if wanted in (writing.settled, writing.in_flight):
            return wanted == writing.settled
        if kind.is_shown(thing, figures):
            writing.settled = wanted
            return True
        body = kind.build_patch(thing, figures, rfc3339(self._clock.now()))
        writing.in_flight = wanted
        writing.not_before = now + max(MIN_INTERVAL_SECONDS, interval)
        write = status_report(kind.resource_type, meta.namespace, name, body)
        self._writes.submit(write, lambda outcome: self._on_outcome(writing, wanted, outcome))
        return False

    def _on_outcome(
        self,
        writing: _Writing[FiguresT],
        wanted: tuple[str, FiguresT],
        outcome: Outcome[ObjectT],
    ) -> None:
        is_latest = writing.in_flight is wanted
        if is_latest:
            writing.in_flight = None
        now = self._clock.monotonic()
        if isinstance(outcome, Written):
            written = outcome.object
            self._cache.note_written(written)
            writing.settled = (written.metadata.resource_version, wanted[1])
            writing.failures, writing.trouble = 0, ""
            # The engine gets it by the watch.
            writing.not_before = max(writing.not_before, now + MIN_INTERVAL_SECONDS)
        elif is_latest:
            writing.not_before = now + RETRY_BACKOFF.seconds(writing.failures)
            writing.failures += 1
            self._log_once(writing, outcome)

    def _log_once(self, writing: _Writing[FiguresT], outcome: Outcome[ObjectT]) -> None:
        """Log a failure unless the same was logged last."""
        match outcome:
            case Rejected(error=NotFound() | Conflict()):
                return  # the watch will report what exists
            case Rejected(error=error):
                trouble = str(error.status)
            case _:
                trouble = type(outcome).__name__
        if trouble != writing.trouble:
            writing.trouble = trouble
            kind = self._kind.resource_type.kind
            log.warning("status is not written", kind=kind, name=writing.name, outcome=str(outcome))
