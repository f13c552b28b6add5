"""LeaderWorkerSets: each group of a set, a leader and its workers, is a job, which never ends.

A set has no suspend field, and its groups come and go one by one, so each is queued by itself.
Workers may be created when the leader runs: then their demand is read from the set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from queue_controllers.job_families.gated_pods import (
    GatedPods,
    PodGroup,
    Sizer,
    SizingKind,
    gather_pods,
    is_candidate,
    is_held,
    pod_to_admit,
    read_group_status,
    template_of_pod,
)
from queue_controllers.jobframework.generic_job import JobKind, JobPodSet, StatusFacts
from queue_controllers.jobframework.pod_template import ScheduledPod, ScheduledPodTemplate
from shared_api.held_jobs import LEADER_WORKER_SET, uid_of_name
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import Pod
from shared_api.well_known_labels import LWS_GROUP, LWS_NAME, LWS_SIZE, LWS_WORKER

KIND: Final = JobKind(
    key=LEADER_WORKER_SET,
    group="leaderworkerset.x-k8s.io",
    version="v1",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
    name_suffix="lws-qu",
    has_suspend_field=False,
    held_by_gates=True,
    has_object=False,
    made_by=frozenset({"StatefulSet", "Pod", "LeaderWorkerSet"}),
)

LEADER: Final = "leader"
WORKERS: Final = "workers"


class LeaderWorkerTemplate(WireStruct, frozen=True):
    """`spec.leaderWorkerTemplate`, as far as it is read."""

    size: int = 1
    worker_template: ScheduledPodTemplate = ScheduledPodTemplate()


class LeaderWorkerSetSpec(WireStruct, frozen=True):
    """`spec` of a LeaderWorkerSet, as far as it is read."""

    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()


class LeaderWorkerSetObject(WireStruct, frozen=True):
    """A LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class SizeTemplate(WireStruct, frozen=True):
    """`spec.leaderWorkerTemplate`, of which only the size is read."""

    size: int = 1


class SizeSpec(WireStruct, frozen=True):
    """`spec` of a LeaderWorkerSet, of which only the size is read."""

    leader_worker_template: SizeTemplate = SizeTemplate()


class SizedLeaderWorkerSet(WireStruct, frozen=True):
    """A LeaderWorkerSet as it is watched: there may be many, with large templates."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SizeSpec = SizeSpec()


SETS: Final = SizingKind(KIND.group, KIND.version, KIND.plural, KIND.kind, SizedLeaderWorkerSet)


class LeaderWorkerSetAdapter(GatedPods):
    """Facts about a group of a LeaderWorkerSet."""

    kind = KIND
    sizing_kinds = (SETS,)

    def group_of(self, pod: Pod) -> str:
        """Return the name of the pod's group, which is its leader's."""
        labels = pod.metadata.labels
        name, index = labels.get(LWS_NAME), labels.get(LWS_GROUP)
        return f"{name}-{index}" if name and index and is_candidate(pod) else ""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the set of leaders or that of workers."""
        return LEADER if pod.metadata.labels.get(LWS_WORKER) == "0" else WORKERS

    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the group of its pods: it has no object, so its name gives the uid."""
        return gather_pods(name, pods, uid_of_name(KIND.key, pods[0].metadata.namespace, name))

    def why_unknown(self, job: PodGroup) -> str:
        """Return that the group's pods are not known, if so."""
        size = _size_of(job)
        if size is None:
            return f"LeaderWorkerSet {_set_of(job)} cannot be read"
        sets = {self.pod_set_of(pod) for pod in job.pods}
        if LEADER not in sets and all(is_held(pod) for pod in job.pods):
            return "its leader is not there"
        if size > 1 and WORKERS not in sets and _whole_set(job) is None:
            return f"it has no worker yet, and LeaderWorkerSet {_set_of(job)} cannot be read"
        return ""

    def sizer_of(self, pod: Pod) -> Sizer | None:
        """Return the set."""
        name = pod.metadata.labels.get(LWS_NAME)
        return Sizer(SETS, name) if name else None

    def whole_type(self, sizer: Sizer) -> type[Any]:
        """Return the set with the template of its workers, as long as there are none."""
        return LeaderWorkerSetObject

    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pods say; it never ends."""
        return read_group_status(job)

    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return the leader, and the workers if there are any."""
        if self.why_unknown(job):
            return ()
        pods: dict[str, list[ScheduledPod]] = {}
        for pod in job.pods:
            pods.setdefault(self.pod_set_of(pod), []).append(pod)
        found = {name: template_of_pod(pod_to_admit(alike)) for name, alike in pods.items()}
        whole = _whole_set(job)
        is_to_come = WORKERS not in found and whole is not None
        if whole is not None:
            found.setdefault(WORKERS, whole.spec.leader_worker_template.worker_template)
        some = next(iter(found.values()))  # while a group is created again, one may be missing
        leader = JobPodSet(name=LEADER, count=1, template=found.get(LEADER, some))
        workers = (_size_of(job) or 1) - 1
        if not workers:
            return (leader,)
        template = found.get(WORKERS, some)
        others = JobPodSet(name=WORKERS, count=workers, template=template, is_to_come=is_to_come)
        return (leader, others)


def _set_of(job: PodGroup) -> str:
    return job.first.metadata.labels.get(LWS_NAME, "")


def _whole_set(job: PodGroup) -> LeaderWorkerSetObject | None:
    """Return the set with its template, if it was read."""
    return job.other if isinstance(job.other, LeaderWorkerSetObject) else None


def _size_of(job: PodGroup) -> int | None:
    """Return how many pods the group has, None if that is not known.

    A group that waits has the present size of its set. One that was released has the size that it
    was created with, until it is created again.
    """
    text = job.first.metadata.annotations.get(LWS_SIZE, "")
    created = max(int(text), 1) if text.isascii() and text.isdecimal() else None
    if job.other is None:
        return created
    present = max(int(job.other.spec.leader_worker_template.size), 1)
    is_waiting = all(is_held(pod) for pod in job.pods)
    return present if is_waiting or created is None else created
