"""Jobs of given pod sets, and the units that are created for them."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.queue_unit_builder import (
    build_unit,
)
from queue_controllers.jobframework.generic_job import (
    JobFacts,
    JobKind,
    JobPodSet,
    PrioritySource,
)
from queue_controllers.jobframework.pod_template import (
    ScheduledContainer,
    ScheduledPodSpec,
    ScheduledPodTemplate,
)
from shared_api.objects.meta import ObjectMeta, Timestamp, Uid
from shared_api.objects.pod import ResourceRequirements, TemplateMeta
from shared_api.objects.queue_unit import QueueUnit

QUOTA = "quota.scheduling.koordinator.sh/name"
PRIORITY = "scheduling.x-k8s.io/priority"
CONTEXT = ClusterContext(priority_classes={"high": 1000})


def pod_set(count: int = 2, *, cpu: str = "1", name: str = "main", quota: str = "") -> JobPodSet:
    container = ScheduledContainer(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    spec = ScheduledPodSpec(containers=(container,))
    labels = {QUOTA: quota} if quota else {}
    template = ScheduledPodTemplate(metadata=TemplateMeta(labels=labels), spec=spec)
    return JobPodSet(name=name, count=count, template=template)


def job(
    *pod_sets: JobPodSet,
    name: str = "main",
    suffix: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    priority: PrioritySource | None = None,
) -> JobFacts:
    kind = JobKind(
        key="job", group="batch", version="v1", kind="Job", plural="jobs", name_suffix=suffix
    )
    meta = ObjectMeta(
        name=name,
        namespace="team",
        uid=Uid("0a1b2c3d-4e5f"),
        creation_timestamp=Timestamp("2026-11-01T10:00:00Z"),
        labels={QUOTA: "gold"} if labels is None else labels,
        annotations=annotations or {},
    )
    return JobFacts(
        kind=kind,
        metadata=meta,
        suspended=True,
        pod_sets=pod_sets or (pod_set(),),
        priority=priority or PrioritySource(),
    )


def made(of: JobFacts, **status: Any) -> QueueUnit:
    body = build_unit(of, CONTEXT, name="main")
    unit = msgspec.convert(body, QueueUnit)
    return msgspec.structs.replace(unit, status=msgspec.structs.replace(unit.status, **status))
