"""Facts about sparkoperator.k8s.io/v1beta2 SparkApplication.

It is suspended by `spec.suspend` (spark-operator 2.4): the operator deletes the driver and sets
SUSPENDED at once; the executors are garbage-collected after it. A suspend just after the creation
does not stop the submission, so an application must be created suspended.

Each resume uses one of the application's retries after failures, and each change of a field other
than `suspend` submits it again: if it runs, it is restarted. While suspended it runs nothing, so a
release may change its templates in the same patch: it passes INVALIDATING and PENDING_RERUN on its
way to SUBMITTED, and has all of its retries again.

Only COMPLETED and FAILED are final.

Source: spark-operator v2.5.2; the behavior of the real operator is recorded in
tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_controllers.job_families.spark import (
    DRIVER,
    EXECUTOR,
    SparkSpec,
    SparkValueError,
    has_template,
    least_executors,
    spark_pod_sets,
)
from queue_controllers.job_families.suspend_field import SPEC_SUSPEND, release_by_spec_suspend
from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    Outcome,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.objects.meta import ObjectMeta, Timestamp, WireStruct
from shared_api.objects.pod import Pod
from shared_api.timestamps import end_of_second

KIND: Final = JobKind(
    key="sparkapp",
    group="sparkoperator.k8s.io",
    version="v1beta2",
    kind="SparkApplication",
    plural="sparkapplications",
    name_suffix="spark-qu",
    held_only_at_creation=True,
)

APP_NAME: Final = "sparkoperator.k8s.io/app-name"
ROLE: Final = "spark-role"
"""Labels on driver and executors: the operator's, and Spark's."""

_UNFINISHED: Final = frozenset({"PENDING", "RUNNING"})
_STARTED: Final = frozenset({"RUNNING", "COMPLETED"})
"""States of executors."""


class ApplicationState(WireStruct, frozen=True):
    """`applicationState`."""

    state: str = ""
    error_message: str = ""


class DriverInfo(WireStruct, frozen=True):
    """`driverInfo`."""

    pod_name: str = ""


class SparkStatus(WireStruct, frozen=True):
    """`status`."""

    application_state: ApplicationState = ApplicationState()
    driver_info: DriverInfo = DriverInfo()
    executor_state: dict[str, str] = msgspec.field(default_factory=dict)
    last_submission_attempt_time: Timestamp | None = None


class SparkApplication(WireStruct, frozen=True):
    """A SparkApplication."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SparkSpec = SparkSpec()
    status: SparkStatus = SparkStatus()


class SparkApplicationAdapter:
    """The `GenericJob` of SparkApplication."""

    kind = KIND
    object_type = SparkApplication
    pod_labels = (APP_NAME, ROLE)
    is_suspended = SPEC_SUSPEND.is_suspended
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend

    def why_not_suspendable(self, job: SparkApplication) -> str:
        """Return a value that cannot be parsed, if any: Spark refuses it, too."""
        try:
            spark_pod_sets(job.spec)
        except SparkValueError as error:
            return str(error)
        return ""

    def status_of(self, job: SparkApplication) -> StatusFacts:
        """Return what the state and the executors' states say.

        `lastSubmissionAttemptTime` is the only time: absent before a run. A suspended run has
        lasted into the second after it, if only because its pods have to go.
        """
        status = job.status
        state = status.application_state.state
        submitted_at = status.last_submission_attempt_time
        executors = status.executor_state.values()
        return StatusFacts(
            is_empty=not state,
            suspended=state == "SUSPENDED",
            suspended_since=end_of_second(submitted_at) if state == "SUSPENDED" else None,
            running=state == "RUNNING"
            and sum(each in _STARTED for each in executors) >= _least(job.spec),
            outcome=_outcome_of(status.application_state),
            pods=sum(each in _UNFINISHED for each in executors) + bool(status.driver_info.pod_name),
        )

    def pod_sets(self, job: SparkApplication) -> tuple[JobPodSet, ...]:
        """Return the driver and the first executors; none if a value cannot be parsed."""
        try:
            return spark_pod_sets(job.spec)
        except SparkValueError:
            return ()

    def priority_of(self, job: SparkApplication) -> PrioritySource:
        """Return the batch scheduler's class, else the driver's, else the executors'."""
        spec = job.spec
        name = spec.batch_scheduler_options.priority_class_name
        return PrioritySource(
            name or spec.driver.priority_class_name or spec.executor.priority_class_name
        )

    def update_patch(
        self, job: SparkApplication, updates: Mapping[str, TemplateUpdate]
    ) -> dict[str, Any]:
        """Return the patch of driver and executors; placement is in their templates, if any."""
        spec: dict[str, Any] = {}
        for role in (DRIVER, EXECUTOR):
            if role not in updates:
                continue
            body = update_body(updates[role])
            where = body.get("spec", {})
            if where and has_template(job.spec, role):
                where = {"template": {"spec": where}}
            spec[role] = {**body.get("metadata", {}), **where}
        return {"spec": spec} if spec else {}

    def pod_set_of(self, pod: Pod) -> str:
        """Return the pod set by Spark's role."""
        role = pod.metadata.labels.get(ROLE, "")
        return role if role in {DRIVER, EXECUTOR} else ""

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the name that the operator writes on each pod."""
        return labels.get(APP_NAME, "")


def _least(spec: SparkSpec) -> int:
    """Return how many executors it needs to run; an unreadable number is never submitted."""
    try:
        return least_executors(spec)
    except SparkValueError:
        return 0


def _outcome_of(state: ApplicationState) -> Outcome | None:
    match state.state:
        case "COMPLETED":
            return Outcome(succeeded=True)
        case "FAILED":
            return Outcome(succeeded=False, message=state.error_message)
        case _:
            return None
