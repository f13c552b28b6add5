"""Events and metrics of a check controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from shared_api.admission_check_kit.judging import Activity
from shared_api.admission_check_kit.verdicts import CheckState
from shared_api.client.event_recorder import Event, EventRecorder, EventType, ObjectReference
from shared_api.client.resource_types import ADMISSION_CHECK_VERSIONS, QUEUE_UNITS
from shared_api.metrics import CounterOfObjects
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit

MAX_CHECK_NAMES: Final = 100
"""Most admission checks that metrics show by name."""

MAX_MESSAGE_CHARS: Final = 500
"""Longest part of a verdict's message that an event quotes."""

_REASONS: Final = {
    CheckState.RETRY.value: "AdmissionCheckRetry",
    CheckState.REJECTED.value: "AdmissionCheckRejected",
}
"""Reasons of events by state. Pending and Ready have none: nothing has changed, or the unit's
admission shows it."""


class CheckNotices:
    """Counts and reports verdicts and activities (`VerdictObserver`, `ActivityObserver`).

    Args:
        registry: Receives the metrics.
        events: Records what an administrator may have to act on; None if no events are written.
        has_check: Returns whether there is an admission check of this name.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        events: EventRecorder,
        has_check: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._events = events
        self.verdicts = CounterOfObjects(
            "koord_queue_admission_check_verdicts",
            "Changes of the state of units' admission checks, by check and state",
            ("check", "state"),
            is_there=has_check,
            most=MAX_CHECK_NAMES,
        )
        registry.register(self.verdicts)
        self.errors = Counter(
            "koord_queue_admission_check_errors",
            "Looks at a unit or a check that failed and are repeated; conflicts do not count",
            registry=registry,
        )
        self.served = Gauge(
            "koord_queue_admission_check_kind_served",
            "1 while a kind that the check controller reads is served, 0 while its CRD is missing",
            ("kind",),
            registry=registry,
        )

    def show_kind(self, kind: str, is_served: Callable[[], bool]) -> None:
        """Add a metric that shows at each scrape whether a kind is served."""
        self.served.labels(kind).set_function(lambda: float(is_served()))

    def on_verdict(self, unit: QueueUnit, state: AdmissionCheckState) -> None:
        """Count a change; write an event on the unit for one that takes its quota back."""
        self.verdicts.inc(state.name, state.state)
        reason = _REASONS.get(state.state)
        if reason is None:
            return
        meta = unit.metadata
        unit_reference = ObjectReference(
            QUEUE_UNITS.api_version, QUEUE_UNITS.kind, meta.name, meta.namespace, meta.uid
        )
        self._record_warning(
            unit_reference, reason, f"Admission check {state.name}: {state.message}"
        )

    def on_activity(self, check: AdmissionCheck, activity: Activity) -> None:
        """Write an event on a check that is not active, with the reason."""
        if activity.is_active:
            return
        meta, kind = check.metadata, ADMISSION_CHECK_VERSIONS[0]
        check_reference = ObjectReference(kind.api_version, kind.kind, meta.name, "", meta.uid)
        self._record_warning(check_reference, activity.reason, activity.message)

    def on_error(self) -> None:
        """Count a reconcile that failed."""
        self.errors.inc()

    def _record_warning(self, regarding: ObjectReference, reason: str, note: str) -> None:
        self._events.record(
            Event(
                regarding=regarding,
                type=EventType.WARNING,
                reason=reason,
                action=reason,
                note=note[:MAX_MESSAGE_CHARS],
            )
        )
