"""Builders and short names for tests of decisions about a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from queue_controllers.decision.actions import (
    Action,
    CreateUnit,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
    ReleaseJob,
    SuspendJob,
)
from queue_controllers.decision.decide import decide
from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import Decision, JobView, Moment
from queue_controllers.decision.queue_unit_builder import build_unit
from queue_controllers.jobframework.generic_job import (
    JobFacts,
    JobKind,
    JobPodSet,
    Outcome,
    StatusFacts,
)
from queue_controllers.jobframework.pod_template import (
    ScheduledContainer,
    ScheduledPodSpec,
    ScheduledPodTemplate,
)
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, Uid
from shared_api.objects.pod import ResourceRequirements, TemplateMeta
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.well_known_labels import QUOTA_NAME, RELEASED_AT

JOB = JobKind(key="job", group="batch", version="v1", kind="Job", plural="jobs")
NOW = Moment(monotonic=1000.0, wall=datetime(2026, 11, 1, 10, 0, tzinfo=UTC))
CONTEXT = ClusterContext(priority_classes={"high": 1000})
TEN = Timestamp("2026-11-01T09:50:00Z")
RELEASED = {RELEASED_AT: "2026-11-01T09:51:00.000000Z"}
HELD = StatusFacts(suspended=True, suspended_since=Timestamp("2026-11-01T09:52:00Z"))
RUNS = StatusFacts(running=True)
SUCCEEDED = Outcome(succeeded=True)
FAILED = Outcome(succeeded=False, message="too late")
TWO_RUNNING = PodCounts(total=2, living=2, running=2, running_of_sets={"main": 2}, bound=2)
TWO_PENDING = PodCounts(total=2, living=2)
TWO_TERMINATING = PodCounts(total=2, living=2, terminating=2)


def pod_set(count: int = 2, *, cpu: str = "1", name: str = "main", quota: str = "") -> JobPodSet:
    container = ScheduledContainer(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    spec = ScheduledPodSpec(containers=(container,))
    labels = {QUOTA_NAME: quota} if quota else {}
    template = ScheduledPodTemplate(metadata=TemplateMeta(labels=labels), spec=spec)
    return JobPodSet(name=name, count=count, template=template)


def facts(*pod_sets: JobPodSet, count: int = 2, cpu: str = "1", **changes: Any) -> JobFacts:
    """Return a suspended Job of quota gold.

    Args:
        *pod_sets: Its pod sets; without any, one of `count` pods of `cpu` each.
        count: The number of pods.
        cpu: The request of each.
        **changes: Other values of fields of its metadata, and of its own.
    """
    meta = ObjectMeta(
        name="main",
        namespace="team",
        uid=Uid("uid-1"),
        resource_version="7",
        creation_timestamp=TEN,
        labels={QUOTA_NAME: "gold"},
    )
    of_meta = {key: changes.pop(key) for key in meta.__struct_fields__ if key in changes}
    basic = JobFacts(
        kind=JOB,
        metadata=msgspec.structs.replace(meta, **of_meta),
        suspended=True,
        status=HELD,
        pod_sets=pod_sets or (pod_set(count, cpu=cpu),),
    )
    return msgspec.structs.replace(basic, **changes)


def made(of: JobFacts, **status: Any) -> QueueUnit:
    """Return the unit that is created for a job, with other values of some fields of its status."""
    unit = msgspec.convert(build_unit(of, CONTEXT, name="main"), QueueUnit)
    return msgspec.structs.replace(unit, status=msgspec.structs.replace(unit.status, **status))


def unit(phase: str = "Enqueued", **changes: Any) -> QueueUnit:
    """Return the unit of `facts()`; `adopted`: its status shows that the job ran before."""
    body = build_unit(facts(), ClusterContext(), name="main")
    if changes.pop("adopted", False):
        changes["conditions"] = (*changes.get("conditions", ()), PROOF)
    body["metadata"]["annotations"] |= changes.pop("annotations", {})
    made = msgspec.convert(body, QueueUnit)
    if "active" in changes:
        made = msgspec.structs.replace(
            made, spec=msgspec.structs.replace(made.spec, active=changes.pop("active"))
        )
    status = msgspec.structs.replace(made.status, phase=phase, **changes)
    meta = msgspec.structs.replace(made.metadata, uid=Uid("qu-1"), resource_version="9")
    return msgspec.structs.replace(made, metadata=meta, status=status)


PROOF = Condition(type="Adopted", status="True", reason="RanBefore", last_transition_time=TEN)


def evicted(reason: str = "Preempted", status: str = "True") -> tuple[Condition, ...]:
    return (Condition(type="Evicted", status=status, reason=reason, last_transition_time=TEN),)


def look(job: JobFacts | None, of: QueueUnit | None = None, **more: Any) -> Decision:
    return decide(JobView(job=job, unit=of, moment=more.pop("moment", NOW), **more))


def action_names(actions: tuple[Action, ...]) -> list[str]:
    """Return short names of actions: "suspend", "move Running", "event Adopted"."""
    names = []
    for action in actions:
        match action:
            case SuspendJob():
                names.append("suspend")
            case ReleaseJob():
                names.append("release")
            case CreateUnit():
                names.append("create")
            case PatchUnit():
                names.append("patch unit")
            case PatchUnitStatus(status=status):
                names.append(f"move {status['phase']}" if "phase" in status else "write status")
                shown = {each["type"]: each["status"] for each in status.get("conditions", ())}
                if shown.get("Adopted") == "True" and status.get("placement"):
                    names[-1] = "adopt"
            case RecordJobEvent(reason=reason):
                names.append(f"event {reason}")
            case _:
                names.append(type(action).__name__)
    return names


ADMITTED = (Admission(name="main", replicas=2),)
EVICTED = unit("Running", admissions=ADMITTED, conditions=evicted())
