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
from functools import partial
from typing import Any, Final, Protocol

from queue_scheduler.cache.admission_check_rules import (
    AddEntries,
    AskBack,
    GoOn,
    PutBack,
    Shortfall,
    WaitForChecks,
    Withdraw,
    entries_of,
)
from queue_scheduler.cycles.dequeue_cycle import waited_seconds
from queue_scheduler.decision import Notice
from queue_scheduler.engine.check_facts import has_checks, is_with_checks, read_check_facts
from queue_scheduler.engine.deadlines import activity_reported_at, checks_end_at, is_due
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import (
    RequeueAfter,
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    requeue_at,
)
from queue_scheduler.unit_writes.admission_patches import build_admission
from queue_scheduler.unit_writes.eviction_patches import (
    admission_of,
    backoff_of,
    build_put_back,
    build_request,
    build_withdrawal,
    eviction_of,
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
    condition_body,
    with_condition,
)
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ADMISSION_CHECK_TIMEOUT, STOP_POLICY, read_annotation

LONGEST_REST_SECONDS: Final = 60.0
"""Times end by the wall clock, which may be set; rests are measured by the monotonic clock."""

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

    def on_check_failed(self, check: str, why: Shortfall) -> None:
        """Count a check by which a unit lost its reservation or admission."""


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
        self._report = access.report
        self._observer = observer
        # Since when a unit's condition names other inactive checks than there are; by the step.
        self._outdated_since: dict[str, float] = {}
        self._reconciler = UnitReconciler(access, self._reconcile, _find_with_checks)
        self.step = self._reconciler.step

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that was added or changed; the engine must have it already."""
        if new is not None and has_checks(new):
            self._reconciler.add(new.metadata.key)

    def on_queue(self, old: Queue | None, new: Queue | None) -> None:
        """Reconcile all units when a queue lists other checks; the engine must know already."""
        if _check_settings(old) != _check_settings(new):
            self._reconciler.add_all()

    def on_admission_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        """Reconcile all units when a check changes; the engine must know already."""
        if old is None or new is None or old.status != new.status:
            self._reconciler.add_all()

    def _reconcile(self, key: str) -> Result:
        since = self._outdated_since.pop(key, self._clock.monotonic())
        facts = self._shared.ask(read_check_facts, key)
        if facts is None:
            return None
        now = self._clock.now()
        unit = facts.unit
        timeout = facts.timeout_seconds(self._timeout)
        until = checks_end_at(unit, timeout, now)
        verdict = facts.judge(is_late=is_due(until, now), timeout_seconds=timeout)
        match verdict:
            case None:
                return None
            case WaitForChecks():
                rest = requeue_at(until, now, LONGEST_REST_SECONDS)
                return self._wait(unit, verdict, rest.seconds, since)
            case GoOn():
                on_written = partial(self._on_admitted, facts.queue_name)
                status = build_admission(facts, verdict, now)
                return SendStatus(unit, status, on_written, known_by=admission_of)
            case AddEntries(checks=checks):
                entries = entries_of(unit, checks, rfc3339(now))
                return SendStatus(unit, {"admissionChecks": entries})
            case Withdraw():
                return SendStatus(unit, build_withdrawal(unit, facts.queue_name, now), frees=True)
            case PutBack():
                status = build_put_back(unit, verdict.message, now, self._rng)
                on_written = partial(self._on_failed, verdict)
                return SendStatus(unit, status, on_written, known_by=backoff_of, frees=True)
            case AskBack():
                status = build_request(unit, ADMISSION_CHECK, verdict.message, now)
                on_written = partial(self._on_failed, verdict)
                return SendStatus(unit, status, on_written, known_by=eviction_of)

    def _wait(self, unit: QueueUnit, verdict: WaitForChecks, rest: float, since: float) -> Result:
        """Wait, and write which inactive checks hold the unit once that has lasted a while."""
        status = build_inactivity(unit, verdict.inactive, rfc3339(self._clock.now()))
        if status is not None:
            until_told = activity_reported_at(since) - self._clock.monotonic()
            if until_told <= 0:
                return SendStatus(unit, status)
            self._outdated_since[unit.metadata.key] = since
            rest = min(rest, until_told)
        return RequeueAfter(rest)

    def _on_admitted(self, queue: str, unit: QueueUnit) -> None:
        self._observer.on_admitted(queue, waited_seconds(unit, self._clock))

    def _on_failed(self, verdict: PutBack | AskBack, unit: QueueUnit) -> None:
        for check in verdict.checks:
            self._observer.on_check_failed(check, verdict.why)
        self._report(
            Notice(
                kind=QUEUE_UNITS.kind,
                key=unit.metadata.key,
                uid=unit.metadata.uid,
                reason=EVENTS[verdict.why],
                note=verdict.message,
            )
        )


def _find_with_checks(engine: Engine) -> list[str]:
    return [record.key for record in engine.units if is_with_checks(record)]


def _check_settings(queue: Queue | None) -> tuple[object, ...]:
    """Return the settings of a queue that are about checks, to be compared."""
    if queue is None:
        return ((), None, None)
    annotations = queue.metadata.annotations
    keys = (ADMISSION_CHECK_TIMEOUT, STOP_POLICY)
    return (queue.spec.admission_checks, *(read_annotation(annotations, key) for key in keys))


def build_inactivity(
    unit: QueueUnit, inactive: Sequence[str], now: Timestamp
) -> dict[str, Any] | None:
    """Return the status of a reserved unit that names what holds it; None if it says so already.

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
