"""Admits, requeues or evicts units by the states of their admission checks.

Units in phase Reserved, and those that were admitted with checks, are reconciled when they change,
when their queue or an AdmissionCheck changes, and when their time is over. The job of a reserved
unit is suspended, so nothing has to be stopped: the unit is requeued by one write, once none of its
pods lives (a user may have resumed the job by hand). An admitted unit gets a request for its
eviction, which the job's side carries out.

What a check has said about a unit can be read until the unit is reserved again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from queue_scheduler.cache.admission_check_rules import (
    AddEntries,
    AskBack,
    GoOn,
    PutBack,
    Shortfall,
    WaitForChecks,
    Withdraw,
    entries_of,
    judge_checks,
)
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.cycles.dequeue_cycle import note_awaited, waited_seconds
from queue_scheduler.cycles.eviction_patches import (
    admission_of,
    backoff_of,
    build_put_back,
    build_request,
    build_withdrawal,
    eviction_of,
    granted_at,
)
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_options import DEFAULT_OPTIONS, QueueOptions
from queue_scheduler.queueing.strict_mode import request_nodes
from queue_scheduler.unit_controllers.unit_reconciler import (
    Look,
    RequeueAfter,
    SendStatus,
    UnitAccess,
    UnitReconciler,
)
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.evictions import ADMISSION_CHECK
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import (
    ADMITTED,
    CHECKS_AWAITED,
    CHECKS_OPEN,
    Phase,
    Writer,
    condition_body,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ADMISSION_CHECK_TIMEOUT, STOP_POLICY, read_annotation

ALL_READY: Final = "all admission checks success"
"""Upstream's message."""

LONGEST_REST_SECONDS: Final = 60.0
"""Times end by the wall clock, which may be set; rests are measured by the monotonic clock."""

ACTIVITY_SECONDS: Final = 30.0
"""For how long the set of inactive checks must stay the same before units name it: so a check that
flaps costs no writes to the units that it holds."""

EVENTS: Final[Mapping[Shortfall, str]] = {
    Shortfall.RETRY: "AdmissionCheckRetry",
    Shortfall.REJECTED: "AdmissionCheckRejected",
    Shortfall.TIMEOUT: "AdmissionCheckTimeout",
}
"""Reasons of the events on units."""


class CheckObserver(Protocol):
    """Counts the outcomes for units with checks."""

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Count an admission that the server has confirmed."""
        ...

    def on_check_failed(self, check: str, why: Shortfall) -> None:
        """Count a check by which a unit lost its reservation or admission."""
        ...


class _Facts(msgspec.Struct, frozen=True):
    """What is known of a booked unit and its checks."""

    unit: QueueUnit
    queue_name: str
    queue: Queue | None
    inactive: Mapping[str, str]
    when_admitted: Phase | None
    """None: the queue is stopped."""
    options: QueueOptions
    """Whether the queue waits for pods now: it may have begun to after the decision."""


class AdmissionCheckCycle:
    """Reconciles units that have admission checks.

    Args:
        access: How units are read and written.
        clock: The time.
        rng: Spreads the ends of backoffs.
        timeout_seconds: How long checks may take if the queue does not say; 0: without limit.
        observer: Counts the outcomes.
    """

    def __init__(
        self,
        access: UnitAccess,
        clock: Clock,
        rng: random.Random,
        timeout_seconds: float,
        observer: CheckObserver,
    ) -> None:
        self._shared = access.shared
        self._clock = clock
        self._rng = rng
        self._timeout = timeout_seconds
        self._tell = access.tell
        self._observer = observer
        # Since when a unit's condition names other inactive checks than there are; by the step.
        self._outdated_since: dict[str, float] = {}
        self._looks = UnitReconciler(access, self._look_at, _find_with_checks)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that was added or changed; the engine must have it already."""
        if new is not None and has_checks(new):
            self._looks.add(new.metadata.key)

    def on_queue(self, old: Queue | None, new: Queue | None) -> None:
        """Reconcile all units when a queue lists other checks; the engine must know already."""
        if _asked_of(old) != _asked_of(new):
            self._looks.add_all()

    def on_admission_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        """Reconcile all units when a check changes; the engine must know already."""
        if old is None or new is None or old.status != new.status:
            self._looks.add_all()

    def step(self) -> float | None:
        """Reconcile one unit; return after how many seconds the next is due, None: until woken."""
        return self._looks.step()

    def _look_at(self, key: str) -> Look:
        since = self._outdated_since.pop(key, self._clock.monotonic())
        facts = self._shared.ask(_read_facts, key)
        if facts is None:
            return None
        now = self._clock.now()
        unit = facts.unit
        timeout = facts.options.check_timeout_seconds
        verdict = judge_checks(
            unit,
            facts.queue,
            facts.inactive,
            waited_seconds=(now - granted_at(unit, now)).total_seconds(),
            timeout_seconds=self._timeout if timeout is None else timeout,
            when_admitted=facts.when_admitted,
        )
        match verdict:
            case None:
                return None
            case WaitForChecks():
                return self._wait(unit, verdict, since)
            case GoOn():
                told = partial(self._on_admitted, facts.queue_name)
                status = _build_admission(facts, verdict, now)
                return SendStatus(unit, status, told, known_by=admission_of)
            case AddEntries(checks=checks):
                entries = entries_of(unit, checks, rfc3339(now))
                return SendStatus(unit, {"admissionChecks": entries})
            case Withdraw():
                return SendStatus(unit, build_withdrawal(unit, facts.queue_name, now), frees=True)
            case PutBack():
                status = build_put_back(unit, verdict.message, now, self._rng)
                told = partial(self._on_failed, verdict)
                return SendStatus(unit, status, told, known_by=backoff_of, frees=True)
            case AskBack():
                status = build_request(unit, ADMISSION_CHECK, verdict.message, now)
                told = partial(self._on_failed, verdict)
                return SendStatus(unit, status, told, known_by=eviction_of)

    def _wait(self, unit: QueueUnit, verdict: WaitForChecks, since: float) -> Look:
        """Wait, and write which inactive checks hold the unit once that has lasted a while."""
        rest = LONGEST_REST_SECONDS if verdict.seconds is None else verdict.seconds
        status = build_inactivity(unit, verdict.inactive, rfc3339(self._clock.now()))
        if status is not None:
            until_told = since + ACTIVITY_SECONDS - self._clock.monotonic()
            if until_told <= 0:
                return SendStatus(unit, status)
            self._outdated_since[unit.metadata.key] = since
            rest = min(rest, until_told)
        return RequeueAfter(min(rest, LONGEST_REST_SECONDS))

    def _on_admitted(self, queue: str, unit: QueueUnit) -> None:
        self._observer.on_admitted(queue, waited_seconds(unit, self._clock))

    def _on_failed(self, verdict: PutBack | AskBack, unit: QueueUnit) -> None:
        for check in verdict.checks:
            self._observer.on_check_failed(check, verdict.why)
        self._tell(
            Notice(
                kind=QUEUE_UNITS.kind,
                key=unit.metadata.key,
                uid=unit.metadata.uid,
                reason=EVENTS[verdict.why],
                note=verdict.message,
            )
        )


def has_checks(unit: QueueUnit) -> bool:
    """Return whether checks may affect a unit now, as far as its object says."""
    return unit.status.phase == Phase.RESERVED or bool(unit.status.admission_checks)


def _find_with_checks(engine: Engine) -> list[str]:
    return [key for key, record in engine.units.records.items() if _is_concerned(record)]


def _is_concerned(record: CachedUnit) -> bool:
    return record.state is UnitState.ADMITTED and has_checks(record.unit)


def _asked_of(queue: Queue | None) -> tuple[object, ...]:
    """Return the settings of a queue that are about checks, to be compared."""
    if queue is None:
        return ((), None, None)
    annotations = queue.metadata.annotations
    keys = (ADMISSION_CHECK_TIMEOUT, STOP_POLICY)
    return (queue.spec.admission_checks, *(read_annotation(annotations, key) for key in keys))


def _read_facts(engine: Engine, key: str) -> _Facts | None:
    record = engine.record(key)
    if record is None or record.info is None or not _is_concerned(record):
        return None
    queue = record.info.queue
    inactive = dict(engine.units.checks.inactive)
    to = engine.phase_when_admitted(record.info) if engine.queues.may_start(queue) else None
    line = engine.queues.line(queue)
    options = DEFAULT_OPTIONS if line is None else line.options
    return _Facts(record.unit, queue, engine.queues.queue(queue), inactive, to, options)


def build_inactivity(
    unit: QueueUnit, inactive: Sequence[str], now: Timestamp
) -> dict[str, Any] | None:
    """Return the status of a reserved unit that names what holds it; None: it says so already.

    Only the names: messages may change often, and each change would be a write to every unit.
    """
    message = f"{CHECKS_OPEN}; not active: {', '.join(inactive)}" if inactive else CHECKS_OPEN
    before = find_condition(unit.status.conditions, ADMITTED)
    said = before.message if before is not None else ""
    if said == message or not (inactive or said.startswith(CHECKS_OPEN)):
        return None
    waits = Condition(type=ADMITTED, status="False", reason=CHECKS_AWAITED, message=message)
    conditions = with_condition(unit.status.conditions, waits, now=now)
    return {"conditions": [condition_body(each) for each in conditions]}


def _build_admission(facts: _Facts, verdict: GoOn, now: datetime) -> dict[str, Any]:
    unit = facts.unit
    if facts.options.waits_for_pods:
        unit = note_awaited(unit, facts.queue_name, rfc3339(now))
    return build_admission(unit, verdict, now)


def build_admission(unit: QueueUnit, verdict: GoOn, now: datetime) -> dict[str, Any]:
    """Return the status of a unit whose checks are all Ready, to be merged.

    The time within which its pods must run counts from here on. Entries of checks that the queue no
    longer lists are removed: they would be taken for checks that have not answered.
    """
    stamp = rfc3339(now)
    status = status_of_move(unit, verdict.to, writer=Writer.SCHEDULER, now=stamp, message=ALL_READY)
    status["lastAllocateTime"] = stamp
    if verdict.to is Phase.SCHED_READY:
        status |= request_nodes(unit)
    if len(unit.status.admission_checks) != len(verdict.checks):
        status["admissionChecks"] = entries_of(unit, verdict.checks, stamp)
    return status
