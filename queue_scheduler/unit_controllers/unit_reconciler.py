r"""Reconciles units whose time or state requires a write by the scheduler, one after another.

This is what the unit controllers share. Each says which units it reconciles, and what follows from
the newest object of a unit (`Result`); the rest is here::

    unit --> reconciled -> nothing to do        forgotten, until news of it come
                      \--> later                reconciled again then
                       \-> patch --> written    the engine hears of it
                                \-> refused     reported, and reconciled again
                                 \> conflict, or no answer: reconciled again, by what is known then;
                                                of a unit that seems unchanged, by what is read

A write that is found in the unit is reported as if its answer had come. A repeated conflict with a
unit that has not changed is a refusal: a webhook may answer so.

A unit at which something raises, such as a plugin, is reconciled again like one whose write failed,
and keeps no other waiting.
The guard makes a second try of a write whose answer was lost harmless. Only the objects decide: a
process that begins to lead asks the engine which units exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog
from msgspec import convert

from queue_scheduler.cache.pod_accounting import has_pods
from queue_scheduler.cycles.dequeue_cycle import CONFLICT_WITHOUT_CHANGE, UnitReader
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from shared_api.client.errors import ApiError, ApiFailure, Conflict, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import (
    Dropped,
    Outcome,
    Rejected,
    Unknown,
    WriteSink,
    Written,
    status_change,
)
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.process.clock import Clock
from shared_api.work_queue import WorkQueue

MAX_IN_FLIGHT: Final = 50
"""Writes of one controller that are in flight: a quarter of what the dispatcher takes, so that a
thousand at once, as after a jump of the clock, leave room for decisions."""

FULL_REST_SECONDS: Final = 0.25

PODS_REST_SECONDS: Final = 1.0
"""The requeue delay of a unit that must give its quota back and still has living pods."""

FEWEST_CONFLICTS: Final = 2
"""In a row, with a unit that has not changed, before they are reported: one is mostly over soon."""

STATUS_REFUSED: Final = "StatusRefused"
"""Reason of the event."""

log = structlog.get_logger("unit_reconciler")


class SendStatus(msgspec.Struct, frozen=True):
    """Merge this into the unit's status.

    Attributes:
        unit: The object that it was decided on; its version is the guard.
        status: What is merged.
        on_written: Called with the server's answer, on a writer's thread.
        known_by: Returns the part of a status that shows that this was written. It is compared
            where the answer was lost, and `on_written` is called if it is the same. None:
            `on_written` need not be called then.
        frees: Whether it gives the unit's quota back. That waits until no pod of the unit lives:
            the job of a unit that is not admitted has no pods, unless a user resumed it.
    """

    unit: QueueUnit
    status: dict[str, Any]
    on_written: Callable[[QueueUnit], None] | None = None
    known_by: Callable[[QueueUnitStatus], object] | None = None
    frees: bool = False


class RequeueAfter(msgspec.Struct, frozen=True):
    """Reconcile again after so many seconds, unless the unit changes before."""

    seconds: float


Result = SendStatus | RequeueAfter | None
"""What a reconcile leads to; None if there is nothing to do until the unit changes."""


def requeue_at(at: datetime | None, now: datetime, longest_seconds: float) -> RequeueAfter:
    """Return the rest until a wall time, at most so long; None if no time is set.

    Rests are measured by the clock that does not jump: the wall clock may be set meanwhile.
    """
    if at is None:
        return RequeueAfter(longest_seconds)
    return RequeueAfter(min((at - now).total_seconds(), longest_seconds))


@dataclass(frozen=True)
class UnitAccess:
    """How a controller reads and writes units.

    Attributes:
        shared: Has the newest object of a unit; receives what was written.
        writes: Takes the patches.
        note_written: Takes what the server answered.
        may_write: False while this process does not lead; what makes it True must wake the step.
        due: Keys of units to reconcile.
        read_unit: Reads a unit of which it is not known what the server holds.
        report: Takes the notices that become events.
    """

    shared: SharedEngine
    writes: WriteSink
    note_written: Callable[[QueueUnit], object]
    may_write: Callable[[], bool]
    due: WorkQueue[str]
    read_unit: UnitReader
    report: Callable[[Notice], None]


class UnitReconciler:
    """The step that reconciles one unit after another.

    Args:
        access: The ways in and out.
        reconcile: Returns what to do about the unit of a key.
        find: Returns the keys of all units that may have to be reconciled; called when this process
            begins to lead, under the engine's lock.
    """

    def __init__(
        self,
        access: UnitAccess,
        reconcile: Callable[[str], Result],
        find: Callable[[Engine], list[str]],
    ) -> None:
        self._access = access
        self._reconcile = reconcile
        self._find = find
        # Added to by the step, taken from by writers.
        self._in_flight: set[str] = set()
        # A key is worked on by one thread at a time, the step's or a writer's.
        self._open: dict[str, _Open] = {}
        self._refused: dict[str, _Refused] = {}
        self._has_begun = False

    def add(self, key: str) -> None:
        """Have a unit reconciled; it must have been reported to the engine before.

        A follower keeps no keys, since these would grow with every unit that ever existed.
        """
        if self._access.may_write():
            self._access.due.add(key)

    def add_all(self) -> None:
        """Have every unit reconciled that may need it."""
        if self._access.may_write():
            for key in self._access.shared.ask(self._find):
                self._access.due.add(key)

    def step(self) -> float | None:
        """Reconcile one unit; return after how many seconds the next is due, None: until woken."""
        if not self._access.may_write():
            return None
        if not self._has_begun:
            self.add_all()
            self._has_begun = True
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            return FULL_REST_SECONDS
        due = self._access.due
        key = due.try_get()
        if key is None:
            return due.seconds_until_ready()
        try:
            send = self._find_write(key)
        except Exception as error:  # noqa: BLE001 - it costs this unit a pause, and not the thread
            due.add_rate_limited(key, error=error)
            due.done(key)
            return 0.0
        if send is None:
            due.done(key)
        else:
            self._send(key, send)
        return 0.0

    def _find_write(self, key: str) -> SendStatus | None:
        """Return the write for a unit; if None, it was noted when to reconcile the unit again."""
        due = self._access.due
        if not self._close(key):
            return None
        match self._reconcile(key):
            case None:
                self._forget(key)
            case RequeueAfter(seconds=seconds):
                due.forget(key)
                due.add_after(key, seconds)
            case SendStatus(frees=True, unit=unit) if self._access.shared.ask(_has_pods, unit):
                due.add_after(key, PODS_REST_SECONDS)
            case SendStatus() as send:
                return send
        return None

    def _send(self, key: str, send: SendStatus) -> None:
        write = status_change(QUEUE_UNITS, send.unit.metadata, send.status)
        self._in_flight.add(key)
        self._access.writes.submit(write, lambda outcome: self._on_outcome(key, send, outcome))

    def _on_outcome(self, key: str, send: SendStatus, outcome: Outcome[Any]) -> None:
        """Take the outcome of a write; until now the unit was not reconciled again."""
        due = self._access.due
        self._in_flight.discard(key)
        try:
            self._settle(key, send, outcome)
        except Exception as error:  # noqa: BLE001 - the writer's thread goes on with other units
            due.add_rate_limited(key, error=error)
        finally:
            due.done(key)

    def _settle(self, key: str, send: SendStatus, outcome: Outcome[Any]) -> None:
        due = self._access.due
        match outcome:
            case Written(object=unit):
                self._access.note_written(unit)
                self._access.shared.apply(Engine.on_queue_unit, unit)
                if send.on_written is not None:
                    send.on_written(unit)
                self._forget(key)
                # The watch may bring the written object before the next step, and then report no
                # change.
                due.add(key)
            case Rejected(error=error) if _is_answer(error):
                if not isinstance(error, NotFound):
                    self._report_refusal(key, send.unit, str(error))
                due.add_rate_limited(key)
            case Rejected(error=Conflict()):
                self._open[key] = _Open(send, is_conflict=True)
                due.add_rate_limited(key)
            case Rejected() | Unknown():
                self._open[key] = _Open(send)
                due.add_rate_limited(key)
            case Dropped(retry_after_seconds=seconds):
                due.add_rate_limited(key, at_least_seconds=seconds)

    def _close(self, key: str) -> bool:
        """Find out the outcome of the last write, if it is unknown; False: not yet possible."""
        opened = self._open.get(key)
        if opened is None:
            return True
        send = opened.send
        meta = send.unit.metadata
        try:
            unit = self._newest(key, meta)
        except NotFound:
            unit = None
        except ApiFailure as failure:
            log.warning("unit cannot be read yet", unit=key, error=str(failure))
            self._access.due.add_rate_limited(key, at_least_seconds=failure.retry_after_seconds)
            return False
        del self._open[key]
        if unit is None or unit.metadata.uid != meta.uid:
            return True  # the watch reports it
        if unit.metadata.resource_version == meta.resource_version:
            if opened.is_conflict:
                self._note_conflict(key, unit)
        elif send.on_written is not None and _has(unit, send):
            send.on_written(unit)
        return True

    def _newest(self, key: str, known: ObjectMeta) -> QueueUnit:
        """Return a unit as it is after a write; it is read if the engine has no later version."""
        access = self._access
        record = access.shared.ask(Engine.record, key)
        if record is not None and record.unit.metadata.resource_version != known.resource_version:
            return record.unit
        unit = access.read_unit(known.namespace, known.name)
        if unit.metadata.resource_version != known.resource_version:
            access.note_written(unit)
            access.shared.apply(Engine.on_queue_unit, unit)
        return unit

    def _note_conflict(self, key: str, unit: QueueUnit) -> None:
        """Count a conflict with a unit that has not changed."""
        refused = self._refused_of(key, unit)
        refused.conflicts += 1
        if refused.conflicts >= FEWEST_CONFLICTS:
            self._report_refusal(key, unit, CONFLICT_WITHOUT_CHANGE)

    def _report_refusal(self, key: str, unit: QueueUnit, why: str) -> None:
        """Report, once for each version of a unit, that the server refuses a write."""
        refused = self._refused_of(key, unit)
        if refused.reported == why:
            return
        refused.reported = why
        self._access.report(
            Notice(
                kind=QUEUE_UNITS.kind,
                key=key,
                uid=unit.metadata.uid,
                reason=STATUS_REFUSED,
                note=f"The API server refuses a change of its status: {why}",
            )
        )

    def _refused_of(self, key: str, unit: QueueUnit) -> _Refused:
        version = unit.metadata.resource_version
        refused = self._refused.get(key)
        if refused is None or refused.version != version:
            refused = self._refused[key] = _Refused(version)
        return refused

    def _forget(self, key: str) -> None:
        self._access.due.forget(key)
        self._refused.pop(key, None)


class UnitSweep:
    """The step of a controller that looks for its units every few seconds.

    Args:
        access: The ways in and out.
        clock: The time.
        reconciler: Reconciles the units.
        seconds: Between two looks.
        look: Adds units to the reconciler; called while this process leads.
    """

    def __init__(
        self,
        access: UnitAccess,
        clock: Clock,
        reconciler: UnitReconciler,
        seconds: float,
        look: Callable[[], None],
    ) -> None:
        self._may_write = access.may_write
        self._clock = clock
        self._reconciler = reconciler
        self._seconds = seconds
        self._look = look
        self._look_at = 0.0

    def step(self) -> float:
        """Reconcile one unit; return after how many seconds to be called again."""
        if not self._may_write():
            return self._seconds
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._seconds
            self._look()
        rest = self._reconciler.step()
        until_look = self._look_at - now
        return until_look if rest is None else min(rest, until_look)


@dataclass(frozen=True)
class _Open:
    """A write whose outcome is unknown."""

    send: SendStatus
    is_conflict: bool = False


@dataclass
class _Refused:
    """What the server has refused about one version of a unit.

    Attributes:
        version: That version.
        conflicts: How often it answered with a conflict.
        reported: The message that was reported last.
    """

    version: str
    conflicts: int = 0
    reported: str = ""


def _is_answer(error: ApiError) -> bool:
    """Return whether an error is about the write itself, and not about its guard."""
    return not isinstance(error, Conflict) and not error.after_retry


def _has(unit: QueueUnit, send: SendStatus) -> bool:
    """Return whether a unit's status shows that a write was carried out."""
    if send.known_by is None:
        return False
    return send.known_by(unit.status) == send.known_by(convert(send.status, QueueUnitStatus))


def _has_pods(engine: Engine, unit: QueueUnit) -> bool:
    return has_pods(engine.living_pods, unit.metadata.uid)
