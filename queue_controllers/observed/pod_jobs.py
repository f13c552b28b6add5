"""Pods that are jobs, in a cluster where no gate and no mark of this queue tells them. Pure.

A pod that has no controller is a job; pods without controllers that name the same group are one.
Whether Kueue, another queue or nothing holds them makes no difference, as for jobs of other kinds.
Pods with a controller count with it: with a job if its kind is followed, else not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.extensions.pod import PodAdapter
from queue_controllers.extensions.pod_group import PodGroupAdapter, count_of
from queue_controllers.job_families.gated_pods import (
    GatedPods,
    PodGroup,
    Sizer,
    gather_pods,
    read_group_status,
    shape_of,
    template_of_pod,
)
from queue_controllers.jobframework.generic_job import JobPodSet, LabelsPods, Outcome, StatusFacts
from queue_controllers.jobframework.pod_template import ScheduledPod, ScheduledPodSpec
from queue_controllers.observed.job_reading import TimedStatus
from shared_api.held_jobs import uid_of_name
from shared_api.objects.pod import Pod
from shared_api.pod_group_labels import read_group_mark

_MADE: Final = frozenset(
    {
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "controller-revision-hash",
        "pod-template-hash",
    }
)
"""Labels that Kubernetes' controllers put on the pods that they make. They stay when a controller
lets a pod go: a Job that is deleted without another word leaves its pods behind."""

_CLAIMS: Final = tuple(each.job_name_of for each in EXTENSIONS if isinstance(each, LabelsPods))
"""Functions that return which job labels name: such pods may be counted with that."""


def is_alone(pod: Pod) -> bool:
    """Return whether a pod is no part of what a controller makes, or has made.

    A pod that is kept without its spec was found not to be a job when it still had its labels.
    """
    if pod.metadata.controller_owner is not None or not isinstance(pod, ScheduledPod):
        return False
    labels = pod.metadata.labels
    return _MADE.isdisjoint(labels) and not any(claims(labels) for claims in _CLAIMS)


class SinglePods(GatedPods):
    """Pods that are alone and name no group: each is a job."""

    kind = PodAdapter.kind

    def group_of(self, pod: Pod) -> str:
        """Return the pod's own name, "" if it is a part of something else."""
        return pod.metadata.name if is_alone(pod) and read_group_mark(pod) is None else ""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the name of the one set there is."""
        return _PODS.pod_set_of(pod)

    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the pod as a job."""
        return _PODS.gather(name, pods)

    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pod says."""
        return read_group_status(job, _outcome_of(job, 1))

    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return the pod, also when it has ended: it may have been seen too late."""
        template = template_of_pod(job.first)
        return (JobPodSet(name=self.pod_set_of(job.first), count=1, template=template),)


class PodGroups(GatedPods):
    """Pods that are alone and name their group: each group is a job.

    It is submitted when its last pod is created, since no queue could let it start before.
    """

    kind = PodGroupAdapter.kind

    def group_of(self, pod: Pod) -> str:
        """Return the name of the group that the pod names."""
        mark = read_group_mark(pod)
        return mark.name if mark is not None and is_alone(pod) else ""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the name that pods have in common that ask for the same.

        Other queues add node selectors and tolerations to pods as they release them, one by one.
        """
        assert isinstance(pod, ScheduledPod), "read whole where pods are jobs"
        spec = pod.spec
        requested_spec = ScheduledPodSpec(
            containers=spec.containers,
            init_containers=spec.init_containers,
            overhead=spec.overhead,
            resources=spec.resources,
        )
        return shape_of(msgspec.structs.replace(pod, spec=requested_spec))

    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the group of its pods; another one of its name has another uid."""
        oldest = min(pods, key=lambda each: (each.metadata.creation_timestamp, each.metadata.uid))
        meta = oldest.metadata
        group = gather_pods(
            name, pods, uid_of_name(self.kind.key, meta.namespace, f"{name}/{meta.uid}")
        )
        submitted = max(each.metadata.creation_timestamp for each in pods)
        meta = msgspec.structs.replace(group.metadata, creation_timestamp=submitted)
        return msgspec.structs.replace(group, metadata=meta)

    def why_unknown(self, job: PodGroup) -> str:
        """Return that the number of pods is not known, or that they do not all exist yet."""
        wanted = count_of(job)
        if wanted is None:
            return _GROUPS.why_unknown(job)
        # Of a group of which a pod has had a node, missing ones are gone, or created later.
        waits = all(each.is_living and not each.is_bound for each in job.pods)
        if waits and len(job.pods) < wanted:
            return f"{len(job.pods)} of its {wanted} pods are there"
        return ""

    def sizer_of(self, pod: Pod) -> Sizer | None:
        """Return the PodGroup that says how many pods it has, None if the pods say it."""
        return _GROUPS.sizer_of(pod)

    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pods say."""
        return read_group_status(job, _outcome_of(job, count_of(job) or 1))

    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return a set for pods that ask for the same; of an ended group, those that have ended."""
        if self.why_unknown(job):
            return ()
        pods = [each for each in job.pods if each.is_living] or job.pods
        counts = Counter(map(self.pod_set_of, pods))
        counts[self.pod_set_of(pods[0])] += max((count_of(job) or 0) - len(job.pods), 0)
        examples = {self.pod_set_of(each): each for each in pods}
        return tuple(
            JobPodSet(name=name, count=counts[name], template=template_of_pod(each))
            for name, each in sorted(examples.items())
        )


def _outcome_of(job: PodGroup, wanted: int) -> Outcome | None:
    """Return how pods have ended; None: one lives, or was stopped, and the job is soon gone."""
    for each in job.pods:
        if each.is_living or (isinstance(each.status, TimedStatus) and each.status.stopped):
            return None
    succeeded = sum(each.status.phase == "Succeeded" for each in job.pods)
    return Outcome(succeeded=succeeded >= min(wanted, len(job.pods)))


_PODS: Final = PodAdapter()
_GROUPS: Final = PodGroupAdapter()

POD_JOBS: Final[dict[str, GatedPods]] = {
    each.kind.key: each for each in (SinglePods(), PodGroups())
}
"""The adapters, in place of the extensions of these keys."""
