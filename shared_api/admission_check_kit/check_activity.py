"""Writes the condition Active on the AdmissionChecks of this controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import structlog

from shared_api.admission_check_kit.judging import ACTIVE as IS_ACTIVE
from shared_api.admission_check_kit.judging import Activity, Judge, JudgesChecks
from shared_api.admission_check_kit.unit_checks import NOT_LEADING_SECONDS, Gate
from shared_api.client.errors import ApiFailure, Conflict, NotFound
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.admission_check import ACTIVE, AdmissionCheck
from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import condition_body, with_condition
from shared_api.timestamps import rfc3339
from shared_api.work_queue import WorkQueue

log = structlog.get_logger("check_activity")


class ActivityObserver(Protocol):
    """Called on the thread of the step after writes; must be quick."""

    def on_activity(self, check: AdmissionCheck, activity: Activity) -> None:
        """Count that a check became active or inactive, or inactive for another reason."""

    def on_error(self) -> None:
        """Count a reconcile of a check that failed for a reason other than a conflict."""


class CheckActivity:
    """Reconciles AdmissionChecks, one at a time.

    Args:
        judge: Decides whether a check is active, if it is a `JudgesChecks`; otherwise all are.
        checks: The cache of AdmissionChecks.
        own_check: Returns the check of a name if it belongs to this controller, else None.
        served: Returns the version in which AdmissionChecks are served now; None if they are not.
        queue: Names of the checks to reconcile.
        client: Sends the patches.
        gate: Decides whether this process reconciles and may write.
        clock: The time, for conditions.
        observer: Called for changes and errors.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of a reconcile, each named by the caller
        self,
        judge: Judge,
        *,
        checks: IndexedStore[AdmissionCheck],
        own_check: Callable[[str], AdmissionCheck | None],
        served: Callable[[], ResourceType[AdmissionCheck] | None],
        queue: WorkQueue[str],
        client: ResourceClient,
        gate: Gate,
        clock: Clock,
        observer: ActivityObserver,
    ) -> None:
        self._judge = judge
        self._checks = checks
        self._own_check = own_check
        self._served = served
        self._queue = queue
        self._client = client
        self._gate = gate
        self._clock = clock
        self._observer = observer

    def step(self) -> float | None:
        """Reconcile one check; return the seconds until there is another (None: until woken)."""
        return self._queue.work(self._reconcile)

    def _reconcile(self, name: str) -> None:
        check, version = self._own_check(name), self._served()
        if check is None or version is None or not self._gate.is_open():
            self._queue.forget(name)
            return
        activity = self._ask(check)
        body = activity_patch(check, activity, rfc3339(self._clock.now()))
        if body is None:
            self._queue.forget(name)
        elif not self._gate.may_write():
            self._queue.add_after(name, NOT_LEADING_SECONDS)
        else:
            self._write(version, check, activity, body)

    def _ask(self, check: AdmissionCheck) -> Activity:
        return (
            self._judge.judge_check(check) if isinstance(self._judge, JudgesChecks) else IS_ACTIVE
        )

    def _write(
        self,
        version: ResourceType[AdmissionCheck],
        check: AdmissionCheck,
        activity: Activity,
        body: dict[str, Any],
    ) -> None:
        name = check.metadata.name
        try:
            written = self._client.patch(version, "", name, body, subresource="status")
        except (Conflict, NotFound) as news:
            log.debug("the check has changed", check=name, error=str(news))
            self._queue.add_rate_limited(name)  # the watch will deliver the new version
            return
        except ApiFailure as failure:
            log.warning("could not write to a check", check=name, error=str(failure))
            self._observer.on_error()
            self._queue.add_rate_limited(name, at_least_seconds=failure.retry_after_seconds)
            return
        self._checks.note_written(written)
        self._queue.forget(name)
        self._observer.on_activity(check, activity)


def activity_patch(
    check: AdmissionCheck, activity: Activity, now: Timestamp
) -> dict[str, Any] | None:
    """Return the merge patch that writes the activity to a check's status; None if it is there.

    It repeats the conditions of other writers, guarded by the version at which they were read.
    """
    meta = check.metadata
    condition = Condition(
        type=ACTIVE,
        status="True" if activity.is_active else "False",
        reason=activity.reason,
        message=activity.message[:MESSAGE_LENGTH],
        observed_generation=meta.generation,
    )
    before = find_condition(check.status.conditions, ACTIVE)
    after = with_condition(check.status.conditions, condition, now=now)
    if before is not None and before == find_condition(after, ACTIVE):
        return None
    return {
        "metadata": {"resourceVersion": meta.resource_version},
        "status": {"conditions": [condition_body(each) for each in after]},
    }
