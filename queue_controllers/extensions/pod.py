"""Pods, each queued by itself: of users and unknown controllers, of Deployments, of Workflows.

A pod that is evicted is deleted. A Deployment creates another one, which waits anew; a pod without
a controller is gone. Argo creates a step's pod again if the step has retries.

A Workflow that is queued as a whole marks its pods as its own. If its pods come without that mark,
and with the gate (`podSpecPatch`), its steps are queued one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from queue_controllers.job_families.gated_pods import (
    GatedPods,
    PodGroup,
    controller_of,
    gather_pods,
    in_order,
    is_candidate,
    is_held,
    read_group_status,
    template_of_pod,
)
from queue_controllers.jobframework.generic_job import JobKind, JobPodSet, Outcome, StatusFacts
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.objects.pod import Pod
from shared_api.pod_group_labels import read_group_mark
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import LWS_NAME, RELATED_QUEUE_UNIT, RELEASED_AT, read_annotation

KIND: Final = JobKind(
    key="pod",
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    name_suffix="pod-qu",
    has_suspend_field=False,
    held_by_gates=True,
    made_by=frozenset({"ReplicaSet", "Deployment", "Workflow"}),
)

POD_SET: Final = "main"


class PodAdapter(GatedPods):
    """Facts about a pod that is a job by itself."""

    kind = KIND

    def group_of(self, pod: Pod) -> str:
        """Return the pod's own name, unless it is a part of something else."""
        is_part = LWS_NAME in pod.metadata.labels or read_group_mark(pod) is not None
        if is_part or not is_candidate(pod):
            return ""
        owner = pod.metadata.controller_owner
        if owner is None or controller_of(pod, "apps", "ReplicaSet") is not None:
            return pod.metadata.name
        if controller_of(pod, "argoproj.io", "Workflow") is not None:
            return pod.metadata.name if _is_step(pod) else ""
        # Declared kinds, and those of other packages, put the queue's name on what they create.
        is_ours = is_held(pod) or RELEASED_AT in pod.metadata.annotations
        return pod.metadata.name if is_ours and owner.kind not in KNOWN_JOB_KINDS else ""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the name of the one set there is."""
        return POD_SET

    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the pod as a job, which is deleted with it: there will be no other."""
        meta = in_order(pods)[0].metadata
        return gather_pods(name, pods, meta.uid, meta.deletion_timestamp)

    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pod says."""
        return read_group_status(job, _outcome_of(job))

    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return the pod."""
        count = 0 if _outcome_of(job) else 1
        return (JobPodSet(name=POD_SET, count=count, template=template_of_pod(job.first)),)


def _outcome_of(job: PodGroup) -> Outcome | None:
    """Return how the pod has ended, None while it lives."""
    phase = job.first.status.phase
    return None if job.first.is_living else Outcome(phase == "Succeeded")


def _is_step(pod: Pod) -> bool:
    """Return whether a Workflow's pod is queued by itself, with the marks of a whole one."""
    annotations = pod.metadata.annotations
    if RELEASED_AT in annotations:
        return True
    return is_held(pod) and not read_annotation(annotations, RELATED_QUEUE_UNIT)
