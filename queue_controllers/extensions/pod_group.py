"""Pods that start together: Kueue's pod groups, Koordinator's gangs, and PodGroups of two kinds.

A group waits until all of its pods exist, so that its demand is known, and is released as a whole.
It has ended when all of its pods have. A failed pod is still missing: its place is kept for a
replacement that its controller may create.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from queue_controllers.job_families.gated_pods import (
    GatedPods,
    PodGroup,
    Sizer,
    SizingKind,
    gather_pods,
    is_candidate,
    is_held,
    read_group_status,
    shape_of,
    template_of_pod,
)
from queue_controllers.jobframework.generic_job import JobKind, JobPodSet, Outcome, StatusFacts
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.held_jobs import POD_GROUP, uid_of_name
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import Pod
from shared_api.pod_group_labels import KOORDINATOR_API, PLUGINS_API, GroupMark, read_group_mark

KIND: Final = JobKind(
    key=POD_GROUP,
    group=KOORDINATOR_API,
    version="v1alpha1",
    kind="PodGroup",
    plural="podgroups",
    name_suffix="pg-qu",
    has_suspend_field=False,
    held_by_gates=True,
    has_object=False,
)


class PodGroupSpec(WireStruct, frozen=True):
    """`spec` of a PodGroup, as far as it is read."""

    min_member: int = 0


class PodGroupObject(WireStruct, frozen=True):
    """A PodGroup of Koordinator or of the scheduler-plugins."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()


GROUPS: Final = {
    group: SizingKind(group, KIND.version, KIND.plural, KIND.kind, PodGroupObject)
    for group in (KOORDINATOR_API, PLUGINS_API)
}
"""The two kinds called PodGroup, by API group; most clusters have one of them."""


class PodGroupAdapter(GatedPods):
    """Facts about pods that name a group."""

    kind = KIND
    sizing_kinds = tuple(GROUPS.values())

    def group_of(self, pod: Pod) -> str:
        """Return the name of the group that the pod names."""
        mark = read_group_mark(pod)
        return mark.name if mark is not None and is_candidate(pod) else ""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the name that pods of its shape have in common."""
        assert isinstance(pod, ScheduledPod), "read whole where pods are queued"
        return shape_of(pod)

    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the group of its pods: it has no object, so its name gives the uid."""
        return gather_pods(name, pods, uid_of_name(KIND.key, pods[0].metadata.namespace, name))

    # --- how many -------------------------------------------------------------------------------

    def why_unknown(self, job: PodGroup) -> str:
        """Return that the number of pods is not known, or that they do not all exist yet."""
        wanted = count_of(job)
        if wanted is None:
            mark = _mark_of(job)
            if mark.api_group:
                return f"there is no PodGroup {mark.name} ({mark.api_group})"
            return "its pods do not say how many they are, or not in a number that can be read"
        # A group of which some pods ran is known: missing ones are created again, or never.
        if len(job.pods) < wanted and all(is_held(pod) for pod in job.pods):
            return f"{len(job.pods)} of its {wanted} pods are there"
        return ""

    def sizer_of(self, pod: Pod) -> Sizer | None:
        """Return the PodGroup that says how many pods the group has, None if the pods say it."""
        mark = read_group_mark(pod)
        if mark is None or not mark.api_group or mark.pods is not None:
            return None
        return Sizer(GROUPS[mark.api_group], mark.name)

    # --- facts ----------------------------------------------------------------------------------

    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pods say; it has ended when all of them have."""
        return read_group_status(job, _outcome_of(job))

    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return a set per shape: pods that may run, and missing ones."""
        if self.why_unknown(job):
            return ()
        wanted = count_of(job) or 0
        needed: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        examples: dict[str, ScheduledPod] = {}
        for pod in job.pods:
            name = self.pod_set_of(pod)
            examples.setdefault(name, pod)
            needed[name] += pod.is_living
            lost[name] += pod.status.phase == "Failed"
        succeeded = sum(pod.status.phase == "Succeeded" for pod in job.pods)
        missed = max(wanted - succeeded - needed.total(), 0)
        for name, count in lost.items():
            replaced = min(count, missed)
            needed[name] += replaced
            missed -= replaced
        needed[next(iter(examples))] += missed
        return tuple(
            JobPodSet(
                name=name,
                count=needed[name],
                template=template_of_pod(pod),
                is_done=needed[name] == 0,
            )
            for name, pod in sorted(examples.items())
        )


def _outcome_of(job: PodGroup) -> Outcome | None:
    """Return how a group has ended: all of its pods have, and none is missing."""
    wanted = count_of(job)
    if wanted is None or any(pod.is_living for pod in job.pods) or len(job.pods) < wanted:
        return None
    failed = sum(pod.status.phase == "Failed" for pod in job.pods)
    succeeded = len(job.pods) - failed
    if succeeded >= wanted:
        return Outcome(succeeded=True)
    return Outcome(succeeded=False, message=f"{failed} of its pods failed")


def _mark_of(job: PodGroup) -> GroupMark:
    mark = read_group_mark(job.first)
    assert mark is not None, "a group of pods that name it"
    return mark


def count_of(job: PodGroup) -> int | None:
    """Return how many pods the group has at least, None if that is not known yet."""
    if job.other is not None:
        return max(int(job.other.spec.min_member), 1)
    return _mark_of(job).pods
