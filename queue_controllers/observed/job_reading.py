"""What a job asks for and does, as its extension reads it, in a cluster of other queues. Pure.

Which jobs count: all of a followed kind that are not made by another job. Whether Kueue, another
queue or nothing holds them makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.pod_admission import apply_pod_admission
from queue_controllers.decision.queue_unit_builder import build_unit, choose_unit_name
from queue_controllers.job_families.gated_pods import PodGroup
from queue_controllers.jobframework.generic_job import (
    TRANSPARENT_KINDS,
    ApiJob,
    GenericJob,
    JobFacts,
    NeedsOther,
    OtherObject,
    read_facts,
)
from queue_controllers.jobframework.pod_scheduling import ReadPodStatus
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import PODS
from shared_api.objects.meta import NO_TIME, ObjectMeta, Timestamp, WireStruct
from shared_api.objects.pod import Pod, PodStatus
from shared_api.timestamps import read_time
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import KUEUE_QUEUE_NAME, read_queue_name, read_quota_name

RelatedObject = Callable[[ObjectMeta, OtherObject], Any]
"""Returns what another object says about a job; None if it is not there."""

_ENDS: Final = frozenset({"Complete", "Succeeded", "Failed", "Completed", "Finished"})
"""Conditions by which operators say that a job has ended."""


class Terminated(WireStruct, frozen=True):
    """`state.terminated` of a container's status."""

    finished_at: Timestamp | None = None


class ContainerState(WireStruct, frozen=True):
    """`state` of a container's status."""

    terminated: Terminated | None = None


class ContainerStatus(WireStruct, frozen=True):
    """A container's status, as far as it is read."""

    state: ContainerState = ContainerState()


class EndingStatus(ReadPodStatus, frozen=True):
    """`status` of a pod that may be a job, as it comes from the server."""

    container_statuses: tuple[ContainerStatus, ...] = ()


class EndingPod(ScheduledPod, frozen=True):
    """A pod that may be a job, as it comes from the server."""

    status: EndingStatus = EndingStatus()


ENDING_PODS: Final[ResourceType[EndingPod]] = ResourceType(
    PODS.group, PODS.version, PODS.plural, PODS.kind, namespaced=True, object_type=EndingPod
)
"""Pods, with all that is read of those that are jobs."""


class TimedStatus(PodStatus, frozen=True):
    """`status` of a pod as it is kept.

    Attributes:
        node_since: Since when it has had a node; None if it has none.
        ended: When it ended; None if it lives, or that is not known. Read off `EndingPod` alone.
        stopped: Whether it ended because it was deleted: it did not run to its end.
    """

    node_since: Timestamp | None = None
    ended: Timestamp | None = None
    stopped: bool = False


class ObservedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job at a moment.

    Attributes:
        uid: Its uid.
        key: `namespace/name`.
        kind: The key of its extension.
        submitted: When it was created.
        kueue_queue: The LocalQueue of Kueue that it names; "": none.
        has_object: Whether it has an object; else it lasts from its first pod until none is left.
        unit: The QueueUnit that would be created for it, as JSON values; None: what it asks for is
            not known.
        unknown: Why not; "" if it is known.
        suspended: Whether its spec holds it back.
        node_since: When each of its pods got a node.
        living_pods: How many of its pods have a node and have not ended.
        started: When its status says that it started; None if it does not say.
        outcome: `succeeded` or `failed`; "" if it has not ended.
        ended: When; None if it has not ended, or does not say when.
    """

    uid: str
    key: str
    kind: str
    submitted: datetime
    kueue_queue: str
    has_object: bool = True
    unit: dict[str, Any] | None
    unknown: str = ""
    suspended: bool
    node_since: tuple[datetime, ...]
    living_pods: int
    started: datetime | None
    outcome: str
    ended: datetime | None


def is_made_by_job(job: ApiJob) -> bool:
    """Return whether a job is part of another: its owner counts instead.

    An owner of an unknown kind counts, unless the job names a queue itself.
    """
    owner = job.metadata.controller_owner
    if owner is None or owner.kind in TRANSPARENT_KINDS:
        return False
    return owner.kind in KNOWN_JOB_KINDS or not _names_queue(job.metadata)


def _names_queue(meta: ObjectMeta) -> bool:
    own = read_queue_name(meta.labels, meta.annotations) or read_quota_name(meta.labels)
    return bool(own or meta.labels.get(KUEUE_QUEUE_NAME))


def read_job(
    adapter: GenericJob[Any],
    job: Any,  # noqa: ANN401 - of any kind
    pods: Sequence[Pod],
    context: ClusterContext,
    related: RelatedObject,
) -> ObservedJob | None:
    """Return a job; None if it counts as no job of its own, or another cluster runs it.

    Args:
        adapter: The extension of its kind.
        job: The object.
        pods: Its pods, with `TimedStatus`.
        context: What is known outside of it.
        related: Looks up an object that describes its pods; what it raises is passed on.
    """
    if is_made_by_job(job):
        return None
    facts = apply_pod_admission(
        read_facts(adapter, job, held_by_annotation=False), context.admission
    )
    if facts.unknown_demand and isinstance(adapter, NeedsOther):
        facts = _with_other(adapter, adapter, job, context, related) or facts
    if facts.foreign_manager:
        return None
    meta: ObjectMeta = job.metadata
    outcome = facts.status.outcome
    name, _ = choose_unit_name(facts, is_taken=False)
    return ObservedJob(
        uid=meta.uid,
        key=meta.key,
        kind=adapter.kind.key,
        submitted=read_time(meta.creation_timestamp) or datetime.fromtimestamp(0, UTC),
        kueue_queue=meta.labels.get(KUEUE_QUEUE_NAME, ""),
        has_object=adapter.kind.has_object,
        unit=None if facts.unknown_demand else build_unit(facts, context, name=name),
        unknown=facts.unknown_demand,
        suspended=facts.suspended,
        node_since=tuple(sorted(_nodes_since(pods))),
        living_pods=sum(pod.is_living and _node_since(pod) is not None for pod in pods),
        started=_read_status_time(job, "start_time"),
        outcome="" if outcome is None else "succeeded" if outcome.succeeded else "failed",
        ended=None if outcome is None else _end_of(job),
    )


def _with_other(
    adapter: GenericJob[Any],
    needs: NeedsOther,
    job: Any,  # noqa: ANN401 - of any kind
    context: ClusterContext,
    related: RelatedObject,
) -> JobFacts | None:
    """Return what a job says together with the object that describes its pods; None: without it."""
    wanted = needs.other_of(job)
    other = None if wanted is None else related(job.metadata, wanted)
    if other is None:
        return None
    whole = read_facts(adapter, needs.with_other(job, other), held_by_annotation=False)
    return apply_pod_admission(whole, context.admission)


# --- times ----------------------------------------------------------------------------------------


def timed(pod: Pod, kept: Pod, before: Pod | None = None) -> Pod:
    """Return a pod as it is kept, with its times.

    Args:
        pod: As it came from the server.
        kept: The same, trimmed.
        before: As it was kept before; None if it is new.
    """
    status = TimedStatus(
        phase=pod.status.phase,
        node_since=_read_node_time(pod),
        ended=None if pod.is_living else _read_end_time(pod),
        stopped=not pod.is_living and _is_stopped(pod, before),
    )
    return msgspec.structs.replace(kept, status=status)


def _is_stopped(pod: Pod, before: Pod | None) -> bool:
    """Return whether an ended pod was deleted first: it may have ended, and then been deleted."""
    if before is None or before.metadata.uid != pod.metadata.uid or before.is_living:
        return pod.is_terminating
    return isinstance(before.status, TimedStatus) and before.status.stopped


def _read_node_time(pod: Pod) -> Timestamp | None:
    if not pod.is_bound:
        return None
    if isinstance(pod.status, ReadPodStatus):
        for each in pod.status.conditions:
            if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time:
                return each.last_transition_time
    return pod.metadata.creation_timestamp


def _read_end_time(pod: Pod) -> Timestamp | None:
    """Return when the last container of a pod ended, else when its conditions changed last."""
    status = pod.status
    if not isinstance(status, EndingStatus):
        return None
    ends = [each.state.terminated for each in status.container_statuses]
    times = [each.finished_at for each in ends if each is not None and each.finished_at]
    times = times or [each.last_transition_time or NO_TIME for each in status.conditions]
    return max(times, default=NO_TIME) or None


def _node_since(pod: Pod) -> datetime | None:
    status = pod.status
    return read_time(status.node_since) if isinstance(status, TimedStatus) else None


def _ended(pod: Pod) -> datetime | None:
    status = pod.status
    return read_time(status.ended) if isinstance(status, TimedStatus) else None


def _nodes_since(pods: Iterable[Pod]) -> Iterable[datetime]:
    return (since for pod in pods if (since := _node_since(pod)) is not None)


def _end_of(job: Any) -> datetime | None:  # noqa: ANN401 - of any kind
    """Return when a job ended: as it says itself, else as the condition of its end does.

    One that consists of pods ended with the last of them.
    """
    if isinstance(job, PodGroup):
        return max((end for each in job.pods if (end := _ended(each))), default=None)
    for field in ("completion_time", "end_time", "finished_at"):
        if (found := _read_status_time(job, field)) is not None:
            return found
    conditions = getattr(getattr(job, "status", None), "conditions", ())
    times = (
        read_time(each.last_transition_time)
        for each in conditions
        if each.type in _ENDS and each.status == "True"
    )
    return max((each for each in times if each is not None), default=None)


def _read_status_time(job: Any, field: str) -> datetime | None:  # noqa: ANN401 - of any kind
    found = getattr(getattr(job, "status", None), field, None)
    return read_time(found) if isinstance(found, str) else None
