"""Facts about TrainJob (trainer.kubeflow.org/v1alpha1), of Kubeflow Trainer.

Held by `spec.suspend`, which Trainer passes on to the JobSet that it creates for the job, of the
same name. That JobSet and its Jobs exist, suspended, from the beginning; `jobsStatus` counts Jobs.

The demand of a TrainJob is read from that JobSet. The runtime that the job names would serve for
many jobs at once, but is only where Trainer begins: numNodes and resourcesPerNode, patches, the
policies of its ML plugins (an MPI launcher that is a node), and JobSet's own defaults are applied
to it, by code that changes with every release. The JobSet is the result. If the runtime is missing
there is no JobSet: such a job is held, and an event says so.

Templates change by `spec.runtimePatches`, an entry per manager, while the job is suspended and in
the patch that resumes it; `spec.trainer` never does.

Source: Trainer's CRDs and documentation; what the real one (v2.3) did is in tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from queue_controllers.job_families.jobset_replicas import (
    POD_LABELS,
    JobCounts,
    ReplicatedJob,
    job_set_name,
    patch_for_updates,
    pod_set_by_role,
    pod_sets_of,
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
    OtherObject,
    StatusFacts,
    priority_of_pod_sets,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import Condition, ObjectMeta, WireStruct
from shared_api.well_known_labels import PREFIX

KIND: Final = JobKind(
    key="trainjob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    kind="TrainJob",
    plural="trainjobs",
    name_suffix="train-qu",
    makes_pods_at_once=True,
)

MANAGER: Final = PREFIX + "manager"
"""The manager of the queue's entry in `spec.runtimePatches`."""


class RuntimeReference(WireStruct, frozen=True):
    """`spec.runtimeRef`."""

    kind: str = "ClusterTrainingRuntime"
    name: str = ""


class TrainJobSpec(WireStruct, frozen=True):
    """`spec`."""

    suspend: bool | None = None
    managed_by: str | None = None
    runtime_ref: RuntimeReference = RuntimeReference()


class TrainJobStatus(WireStruct, frozen=True):
    """`status`."""

    conditions: tuple[Condition, ...] = ()
    jobs_status: tuple[JobCounts, ...] = ()


class ChildSpec(WireStruct, frozen=True):
    """`spec` of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()


class ChildJobSet(WireStruct, frozen=True):
    """The JobSet of a TrainJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ChildSpec = ChildSpec()


class TrainJob(WireStruct, frozen=True):
    """A TrainJob; its JobSet is no field of it, and is put in when it has been read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TrainJobSpec = TrainJobSpec()
    status: TrainJobStatus = TrainJobStatus()
    child: ChildJobSet | None = None

    @property
    def replicated_jobs(self) -> tuple[ReplicatedJob, ...]:
        """The replicated jobs of the JobSet; empty if it is unknown."""
        return () if self.child is None else self.child.spec.replicated_jobs


class TrainJobAdapter:
    """The `GenericJob` of TrainJob."""

    kind = KIND
    object_type = TrainJob
    pod_labels = POD_LABELS
    is_suspended = SPEC_SUSPEND.is_suspended
    why_not_suspendable = SPEC_SUSPEND.why_not_suspendable
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    priority_of = priority_of_pod_sets
    foreign_manager = ManagedByField("trainer.kubeflow.org/trainjob-controller").foreign_manager
    job_name_of = staticmethod(job_set_name)
    pod_set_of = staticmethod(pod_set_by_role)
    list_keys: Mapping[str, str] = {
        "spec.runtimePatches": "manager",
        "spec.runtimePatches.trainingRuntimeSpec.template.spec.replicatedJobs": "name",
    }

    makes: ClassVar[str] = "a JobSet of its own name"

    def child_of(self, job: TrainJob, kind: str, name: str) -> Child | None:
        """Return the JobSet."""
        wanted = self.other_of(job)
        is_it = kind == f"{wanted.group}/{wanted.kind}" and name == wanted.name
        return Child() if is_it else None

    def other_of(self, job: TrainJob) -> OtherObject:
        """Return the JobSet that Trainer creates."""
        return OtherObject(
            group="jobset.x-k8s.io",
            version="v1alpha2",
            plural="jobsets",
            kind="JobSet",
            name=job.metadata.name,
            object_type=ChildJobSet,
        )

    def with_other(self, job: TrainJob, other: ChildJobSet) -> TrainJob:
        """Return the job together with its JobSet."""
        return msgspec.structs.replace(job, child=other)

    def why_unknown(self, job: TrainJob) -> str:
        """Return the JobSet's name, until it is known."""
        if job.child is not None:
            return ""
        runtime = job.spec.runtime_ref
        return (
            f"JobSet {job.metadata.name} cannot be read, which Trainer makes of it"
            f" from {runtime.kind} {runtime.name}"
        )

    def status_of(self, job: TrainJob) -> StatusFacts:
        """Return what conditions and counts of Jobs say."""
        status = job.status
        return read_jobset_status(
            status.conditions, status.jobs_status, job.replicated_jobs, "Complete"
        )

    def pod_sets(self, job: TrainJob) -> tuple[JobPodSet, ...]:
        """Return one set per replicated job of its JobSet: initializers, launcher, nodes."""
        return pod_sets_of(job.replicated_jobs, job.status.jobs_status)

    def update_patch(self, job: TrainJob, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of templates, which Trainer accepts while the job is suspended."""
        changes = patch_for_updates((each.name for each in job.replicated_jobs), updates)
        if not changes:
            return {}
        runtime = {"template": {"spec": {"replicatedJobs": changes}}}
        entry = {"manager": MANAGER, "trainingRuntimeSpec": runtime}
        return {"spec": {"runtimePatches": [entry]}}
