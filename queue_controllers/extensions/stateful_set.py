"""StatefulSets: all pods of a set are one job, which never ends by itself.

By its default policy a set creates its second pod when the first one runs, so only the set says how
many there will be. It is still released as a whole: the gates of later pods are removed as they
come, within its admission.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from queue_controllers.job_families.gated_pods import (
    GatedPods,
    PodGroup,
    Sizer,
    SizingKind,
    controller_of,
    gather_pods,
    is_candidate,
    pod_to_admit,
    read_group_status,
    template_of_pod,
)
from queue_controllers.jobframework.generic_job import JobKind, JobPodSet, StatusFacts
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.objects.meta import NO_UID, ObjectMeta, Uid, WireStruct
from shared_api.objects.pod import Pod
from shared_api.pod_group_labels import read_group_mark
from shared_api.well_known_labels import LWS_NAME

KIND: Final = JobKind(
    key="statefulset",
    group="apps",
    version="v1",
    kind="StatefulSet",
    plural="statefulsets",
    name_suffix="sts-qu",
    has_suspend_field=False,
    held_by_gates=True,
    made_by=frozenset({"StatefulSet"}),
)

POD_SET: Final = "main"


class StatefulSetSpec(WireStruct, frozen=True):
    """`spec` of a StatefulSet, as far as it is read."""

    replicas: int = 1


class StatefulSetObject(WireStruct, frozen=True):
    """A StatefulSet (apps/v1)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


SETS: Final = SizingKind("apps", "v1", "statefulsets", "StatefulSet", StatefulSetObject)


class StatefulSetAdapter(GatedPods):
    """Facts about the pods of a StatefulSet."""

    kind = KIND
    sizing_kinds = (SETS,)

    def group_of(self, pod: Pod) -> str:
        """Return the name of the pod's StatefulSet, unless that is a part of something else."""
        owner = controller_of(pod, "apps", "StatefulSet")
        if owner is None or LWS_NAME in pod.metadata.labels or not is_candidate(pod):
            return ""
        return "" if read_group_mark(pod) is not None else owner.name

    def pod_set_of(self, pod: Pod) -> str:
        """Return the name of the one set there is."""
        return POD_SET

    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the set's pods without those of an earlier set of its name."""
        newest = max(pods, key=lambda pod: pod.metadata.creation_timestamp)
        uid = _owner(newest)
        return gather_pods(name, [pod for pod in pods if _owner(pod) == uid], uid)

    def why_unknown(self, job: PodGroup) -> str:
        """Return that the set could not be read, if so."""
        return "" if job.other is not None else f"StatefulSet {job.metadata.name} cannot be read"

    def sizer_of(self, pod: Pod) -> Sizer | None:
        """Return the set."""
        owner = controller_of(pod, "apps", "StatefulSet")
        return None if owner is None else Sizer(SETS, owner.name)

    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pods say; it never ends."""
        return read_group_status(job)

    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return as many pods as the set has, like the largest that is held, or the first one."""
        if job.other is None:
            return ()
        replicas, template = job.other.spec.replicas, template_of_pod(pod_to_admit(job.pods))
        return (JobPodSet(name=POD_SET, count=replicas, template=template),)


def _owner(pod: ScheduledPod) -> Uid:
    owner = pod.metadata.controller_owner
    return NO_UID if owner is None else owner.uid
