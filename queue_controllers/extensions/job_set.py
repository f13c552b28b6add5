"""Facts about JobSet (jobset.x-k8s.io/v1alpha2).

It is suspended by `spec.suspend`: the controller creates or keeps all Jobs, suspended, and sets
`Suspended` a moment before they are, and a second before their pods are counted as gone. Jobs that
have succeeded stay so: they need no pods when the others continue. Labels, annotations, node
selectors and tolerations of the templates may change while it is suspended, and in the patch that
resumes it; requests may never change.

Pods belong to Jobs of the JobSet, and have labels that name the Job. Coordinators and groups only
refer to pods that exist anyway.

Source: JobSet's CRD and documentation; the behavior of the real controller (v0.12) is recorded in
tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from queue_controllers.job_families.jobset_replicas import (
    POD_LABELS,
    JobCounts,
    ReplicatedJob,
    job_set_name,
    patch_for_updates,
    pod_set_by_role,
    pod_sets_of,
    pods_of_one,
    read_jobset_status,
)
from queue_controllers.job_families.suspend_field import (
    SPEC_SUSPEND,
    ManagedByField,
    release_by_spec_suspend,
)
from queue_controllers.jobframework.generic_job import (
    Child,
    JobKind,
    JobPodSet,
    StatusFacts,
    priority_of_pod_sets,
)
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import Condition, ObjectMeta, WireStruct

KIND: Final = JobKind(
    key="jobset",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    kind="JobSet",
    plural="jobsets",
    name_suffix="jobset-qu",
    makes_pods_at_once=True,
)


class JobSetSpec(WireStruct, frozen=True):
    """`spec`."""

    suspend: bool | None = None
    managed_by: str | None = None
    replicated_jobs: tuple[ReplicatedJob, ...] = ()


class JobSetStatus(WireStruct, frozen=True):
    """`status`."""

    conditions: tuple[Condition, ...] = ()
    replicated_jobs_status: tuple[JobCounts, ...] = ()


class JobSet(WireStruct, frozen=True):
    """A JobSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()


class JobSetAdapter:
    """The `GenericJob` of JobSet."""

    kind = KIND
    object_type = JobSet
    pod_labels = POD_LABELS
    is_suspended = SPEC_SUSPEND.is_suspended
    why_not_suspendable = SPEC_SUSPEND.why_not_suspendable
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    priority_of = priority_of_pod_sets
    foreign_manager = ManagedByField("jobset.sigs.k8s.io/jobset-controller").foreign_manager
    job_name_of = staticmethod(job_set_name)
    pod_set_of = staticmethod(pod_set_by_role)
    list_keys: Mapping[str, str] = {"spec.replicatedJobs": "name"}

    def status_of(self, job: JobSet) -> StatusFacts:
        """Return what conditions and counts of Jobs say."""
        status = job.status
        counts = status.replicated_jobs_status
        return read_jobset_status(status.conditions, counts, job.spec.replicated_jobs, "Completed")

    def pod_sets(self, job: JobSet) -> tuple[JobPodSet, ...]:
        """Return one set per replicated job, named like it."""
        return pod_sets_of(job.spec.replicated_jobs, job.status.replicated_jobs_status)

    def update_patch(self, job: JobSet, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of templates, which the API accepts while the JobSet is suspended."""
        names = (each.name for each in job.spec.replicated_jobs)
        changes = patch_for_updates(names, updates)
        return {"spec": {"replicatedJobs": changes}} if changes else {}

    makes: ClassVar[str] = "Jobs named JOBSET-REPLICATEDJOB-INDEX"

    def child_of(self, job: JobSet, kind: str, name: str) -> Child | None:
        """Return the Job of a replicated job, by its name."""
        if kind != "batch/Job":
            return None
        for each in job.spec.replicated_jobs:
            begin = f"{job.metadata.name}-{each.name}-"
            index = name.removeprefix(begin)
            if name.startswith(begin) and index in map(str, range(each.wanted)):
                return Child(pod_sets=(pods_of_one(each),))
        return None

    def full_templates(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the pod template of every replicated job."""
        return {
            pod_set_name(each["name"]): each["template"]["spec"]["template"]
            for each in job["spec"]["replicatedJobs"]
        }
