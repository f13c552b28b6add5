r"""Writes an admission: one status patch, then the decision is confirmed or taken back.

    Dequeue --> patch --> written               confirmed by the server's answer
                      \-> conflict, gone        taken back; the fresh object decides, and is read
                                                where no watch brings it; if there is none, the
                                                server refuses it by a 409
                      \-> refused by the server taken back; it stands aside, longer each time, so
                                                that it takes no room and no turn from others
                      \-> unknown (time-out)    stays charged; the object is read, and decides

A write whose answer was lost is not sent again, and not forgotten: the unit is read until the
server says what it holds. So is a unit whose answer could not be reported because a plugin raised;
a decision that could not be handed over is taken back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import structlog

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, WriteFailure
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_writes.admission_patches import build_dequeue_patch
from shared_api.backoff import Backoff
from shared_api.client.errors import ApiError, ApiFailure, Conflict, Invalid, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.write_dispatcher import Dropped, Outcome, Rejected, Unknown, Write, Written
from shared_api.client.writes import WriteSink
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.timestamps import parse_time, rfc3339
from shared_api.work_queue import WorkQueue

REJECTED_PAUSE_SECONDS: Final = 5.0
"""How long a queue rests after the server refused many of its units in a row."""

ASIDE: Final = Backoff(base_seconds=60.0, cap_seconds=900.0)
"""The pauses before an admission that the server refused is retried, unless the unit changes."""

ASIDE_AFTER_CONFLICT: Final = Backoff(base_seconds=1.0, cap_seconds=900.0)
"""The same after a conflict with a unit that has not changed: the next try mostly succeeds."""

MANY_IN_A_ROW: Final = 10
"""Refusals of a queue's units with no admission between: the cause is then not in each unit. With
the queue's rests, two a second are tried. So nearly two thousand that are refused for good, each
every quarter of an hour, leave time for others."""

MAX_REFUSED: Final = 10_000
"""Units whose refusals are counted. The deletion of a unit that waits is not reported here."""

CONFLICT_SECONDS: Final = 2.0
"""The version that a write lost against comes by the watch; if it does not, it is read."""

CONFLICT_WITHOUT_CHANGE: Final = (
    "409 Conflict, and the unit has not changed: an admission webhook may answer so"
)
"""Why a write is refused although the unit has not changed. The queue does not rest for it: that
might last forever."""

DROPPED_PAUSE_SECONDS: Final = 0.5
"""How long a queue rests when the lease left too little time for a write. A busy server may ask for
longer."""

log = structlog.get_logger("dequeue_cycle")

ObjectT_contra = TypeVar("ObjectT_contra", contravariant=True)


class UnitReader(Protocol):
    """Reads one unit from the API server."""

    def __call__(self, namespace: str, name: str) -> QueueUnit:
        """Return the unit.

        Raises:
            ApiFailure: It cannot be read.
        """


class WritersCache(Protocol[ObjectT_contra]):
    """What a writer uses of the cache of the objects that it writes into (`SharedInformer`)."""

    def note_written(self, written: ObjectT_contra, /) -> object:
        """Store the object that the server returned."""

    def is_readable(self, key: str) -> bool:
        """Return whether the newest version of an object can be read."""


class AdmissionObserver(Protocol):
    """Counts admissions."""

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Take an admission that the server has confirmed."""


class Refusals:
    """Counts what the server has refused: how often each unit, and how many of a queue in a row."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields: outcomes come from every writer
        self._times: dict[Uid, int] = {}
        self._aside: dict[Uid, str] = {}  # -> the resourceVersion that was refused
        self._in_a_row: dict[str, int] = {}

    def note(self, decision: Dequeue, pauses: Backoff = ASIDE) -> float:
        """Count a refusal; return the seconds for which the unit is set aside, by these pauses."""
        with self._lock:
            before = self._times.pop(decision.uid, 0)
            self._times[decision.uid] = before + 1
            if len(self._times) > MAX_REFUSED:
                del self._times[next(iter(self._times))]  # the one that was tried longest ago
            self._aside[decision.uid] = decision.resource_version
        return pauses.seconds(before)

    def note_in_a_row(self, queue: str) -> bool:
        """Count a refusal that may be about all units; return whether there were many in a row."""
        with self._lock:
            count = self._in_a_row.pop(queue, 0) + 1
            if count < MANY_IN_A_ROW:
                self._in_a_row[queue] = count
        return count >= MANY_IN_A_ROW

    def end_aside(self, decision: Dequeue) -> bool:
        """End setting a unit aside; return whether it was set aside after this decision."""
        with self._lock:
            stood_aside = self._aside.get(decision.uid) == decision.resource_version
            if stood_aside:
                del self._aside[decision.uid]
        return stood_aside

    def note_admitted(self, decision: Dequeue) -> None:
        """Reset the counts of an admitted unit, and of its queue's refusals in a row."""
        with self._lock:
            self._in_a_row.pop(decision.queue, None)
            self._drop(decision.uid)

    def forget(self, decision: Dequeue) -> None:
        """Forget a unit that changed or is gone, but not refusals of a newer version."""
        with self._lock:
            refused = self._aside.get(decision.uid, decision.resource_version)
            if refused == decision.resource_version:
                self._drop(decision.uid)

    def _drop(self, uid: Uid) -> None:
        self._times.pop(uid, None)
        self._aside.pop(uid, None)


class DequeueCycle:
    """Writes decisions, and reports the outcomes to the engine."""

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        read_unit: UnitReader,
        note_written: Callable[[QueueUnit], object],
        clock: Clock,
        unsettled: WorkQueue[Dequeue],
        observer: AdmissionObserver,
    ) -> None:
        self._shared = shared
        self._writes = writes
        self._read_unit = read_unit
        self._note_written = note_written
        self._clock = clock
        self._unsettled = unsettled
        self._observer = observer
        self._refusals = Refusals()

    def carry_out(self, decision: Dequeue) -> None:
        """Send the patch of a decision; returns at once."""
        record = self._shared.ask(Engine.open_record, decision)
        if record is None:
            return  # a change that came just now ended it
        namespace, _, name = decision.unit.partition("/")
        try:
            body = build_dequeue_patch(record.unit, decision, rfc3339(self._clock.now()))
        except BaseException:
            self._pause(decision, 0.0)  # the caller sets the unit aside
            raise
        write = Write(
            resource_type=QUEUE_UNITS,
            namespace=namespace,
            name=name,
            body=body,
            subresource="status",
        )
        self._writes.submit(write, lambda outcome: self._on_outcome(decision, outcome))

    def step(self) -> float | None:
        """Read one unit whose write has an unknown outcome.

        Returns:
            The seconds to rest; None to rest until woken, since there is no such unit.
        """
        return self._unsettled.work(self._find_outcome)

    def _find_outcome(self, decision: Dequeue) -> None:
        is_open = self._shared.ask(Engine.open_record, decision) is not None
        if not is_open:
            self._refusals.forget(decision)
        again = self._settle(decision) if is_open else None
        if again is None:
            self._unsettled.forget(decision)
        else:
            self._unsettled.add_rate_limited(decision, at_least_seconds=again)

    def _settle(self, decision: Dequeue) -> float | None:
        """Read a unit and report it to the engine.

        Returns:
            None if that is settled; otherwise the least seconds until it is read again.
        """
        namespace, _, name = decision.unit.partition("/")
        try:
            unit = self._read_unit(namespace, name)
        except NotFound:
            self._refusals.forget(decision)
            self._shared.apply(Engine.on_write_failed, decision, WriteFailure.GONE)
            return None
        except ApiFailure as failure:
            log.warning("unit cannot be read yet", unit=decision.unit, error=str(failure))
            return failure.retry_after_seconds
        record = self._shared.ask(Engine.record, decision.unit)
        if unit.metadata.resource_version != decision.resource_version:
            self._refusals.forget(decision)
        elif record is not None and record.state is UnitState.CONFLICT:
            if self._refusals.end_aside(decision):
                self._pause(decision, 0.0)
            else:
                self._refuse(decision, CONFLICT_WITHOUT_CHANGE, pauses=ASIDE_AFTER_CONFLICT)
            return None
        self._note_written(unit)
        self._shared.apply(Engine.on_written, decision, unit)
        return None

    def _on_outcome(self, decision: Dequeue, outcome: Outcome[Any]) -> None:
        try:
            self._report(decision, outcome)
        except Exception as error:  # noqa: BLE001 - the writer's thread goes on with other units
            self._unsettled.add_rate_limited(decision, error=error)

    def _report(self, decision: Dequeue, outcome: Outcome[Any]) -> None:
        """Report the server's answer to the engine."""
        match outcome:
            case Written(object=unit):
                self._refusals.note_admitted(decision)
                self._note_written(unit)
                self._shared.apply(Engine.on_written, decision, unit)
                if not decision.checks:
                    self._observer.on_admitted(decision.queue, waited_seconds(unit, self._clock))
            case Rejected(error=error) if not error.after_retry:
                self._take_back(decision, error)
            case Rejected() | Unknown():
                self._unsettled.add(decision)
            case Dropped(retry_after_seconds=pause_seconds):
                self._pause(decision, max(pause_seconds, DROPPED_PAUSE_SECONDS))

    def _take_back(self, decision: Dequeue, error: ApiError) -> None:
        if isinstance(error, Conflict):
            self._shared.apply(Engine.on_write_failed, decision, WriteFailure.CONFLICT)
            self._unsettled.add_after(decision, CONFLICT_SECONDS)
        elif isinstance(error, NotFound):
            self._shared.apply(Engine.on_write_failed, decision, WriteFailure.GONE)
        else:
            # Invalid is about this unit; any other error may be about every unit.
            self._refuse(decision, str(error), may_be_about_all=not isinstance(error, Invalid))

    def _refuse(
        self,
        decision: Dequeue,
        why: str,
        *,
        may_be_about_all: bool = True,
        pauses: Backoff = ASIDE,
    ) -> None:
        """Undo a decision, and set its unit aside."""
        is_about_all = may_be_about_all and self._refusals.note_in_a_row(decision.queue)
        aside = self._refusals.note(decision, pauses)
        self._pause(decision, REJECTED_PAUSE_SECONDS if is_about_all else 0.0, why=why)
        self._unsettled.add_after(decision, aside)

    def _pause(self, decision: Dequeue, seconds: float, *, why: str = "") -> None:
        """Undo a decision, and pause its queue; `why` is the server's message."""
        retry_at = self._clock.monotonic() + seconds if seconds else 0.0
        failure = WriteFailure.REFUSED if why else WriteFailure.REJECTED
        self._shared.apply(Engine.on_write_failed, decision, failure, retry_at=retry_at, why=why)


def waited_seconds(unit: QueueUnit, clock: Clock) -> float:
    """Return how many seconds ago a unit was created, by the wall clock; not below 0."""
    created = parse_time(unit.metadata.creation_timestamp)
    return max(0.0, (clock.now() - created).total_seconds())
