"""Facts about MPIJob of Kubeflow's mpi-operator (kubeflow.org/v2beta1).

Held by `spec.runPolicy.suspend` (since mpi-operator 0.4). Workers are pods of the MPIJob. The
launcher is a pod of a Job of its own, `<name>-launcher`, which is there from the beginning and is
suspended and resumed with the MPIJob: so its pods are told by labels. `Suspended` may be true
while the status still counts the launcher as active.

Templates may change at any time. A launcher that is there already takes over labels, annotations,
node selector, tolerations and gates, which is all that a release changes.

The training-operator has an MPIJob of its own under the same name and another version
(`training_job`); a cluster serves one of them.

Source: the CRD of mpi-operator 0.8; what it really did is in tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.replica_roles import (
    JOB_NAME_LABEL,
    JOB_ROLE_LABEL,
    OPERATOR_LABEL,
    ReplicaSpecs,
    RoleStatus,
    RoleTable,
    RunPolicy,
    count_finished,
    foreign_manager_of,
    read_status,
    switch_patch,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import Pod

KIND: Final = JobKind(
    key="mpijob",
    group="kubeflow.org",
    version="v2beta1",
    kind="MPIJob",
    plural="mpijobs",
    name_suffix="mpi-qu",
)

OPERATOR: Final = "kubeflow.org/mpi-operator"
"""What `managedBy` says when the usual operator owns the job."""

OPERATOR_NAME: Final = "mpi-operator"
"""Value of the operator's label on its pods: other operators name jobs by the same label."""

ROLES: Final = RoleTable(field="mpiReplicaSpecs", order=("Launcher", "Worker"))


class MpiJobSpec(WireStruct, frozen=True):
    """`spec`."""

    run_policy: RunPolicy = RunPolicy()
    mpi_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)


class MpiJob(WireStruct, frozen=True):
    """An MPIJob with the part of its templates that a unit carries."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MpiJobSpec = MpiJobSpec()
    status: RoleStatus = RoleStatus()


class MpiJobAdapter:
    """The `GenericJob` of this MPIJob."""

    kind = KIND
    object_type = MpiJob
    pod_labels = (JOB_NAME_LABEL, JOB_ROLE_LABEL, OPERATOR_LABEL)

    def is_suspended(self, job: MpiJob) -> bool:
        """Say whether `spec.runPolicy.suspend` is on."""
        return job.spec.run_policy.suspend is True

    def why_not_hold(self, job: MpiJob) -> str:
        """Every MPIJob survives being suspended."""
        return ""

    def foreign_manager(self, job: MpiJob) -> str:
        """Return `spec.runPolicy.managedBy` unless it is the mpi-operator."""
        return foreign_manager_of(job.spec.run_policy, OPERATOR)

    def status_of(self, job: MpiJob) -> StatusFacts:
        """Read conditions, and counts of pods that run."""
        return read_status(job.status)

    def pod_sets(self, job: MpiJob) -> tuple[JobPodSet, ...]:
        """Launcher, then workers; a launcher that works too (`runLauncherAsWorker`) is no more."""
        finished = count_finished(job.spec.run_policy, job.status)
        return ROLES.pod_sets(job.spec.mpi_replica_specs, finished)

    def priority_of(self, job: MpiJob) -> PrioritySource:
        """`schedulingPolicy.priorityClass`, else the launcher's template, else the workers'."""
        return ROLES.priority_of(job.spec.run_policy, job.spec.mpi_replica_specs)

    def suspend_patch(self, job: MpiJob) -> dict[str, Any]:
        """Turn `spec.runPolicy.suspend` on."""
        return switch_patch(suspend=True)

    def release_patch(self, job: MpiJob, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        """Turn it off and stamp the templates, which may change at any time."""
        stamped = ROLES.stamps_patch(job.spec.mpi_replica_specs, stamps)
        return {"spec": {**switch_patch(suspend=False)["spec"], **stamped.get("spec", {})}}

    def update_patch(self, job: MpiJob, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Change the templates."""
        return ROLES.updates_patch(job.spec.mpi_replica_specs, updates)

    def full_templates(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the templates of both roles."""
        return ROLES.full_templates(job["spec"])

    def pod_set_of(self, pod: Pod) -> str:
        """Return the role by the label `job-role`, the only one that this operator has for it."""
        return pod.metadata.labels.get(JOB_ROLE_LABEL, "")

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the job's name: on launchers and workers alike."""
        if labels.get(OPERATOR_LABEL) != OPERATOR_NAME:
            return ""
        return labels.get(JOB_NAME_LABEL, "")
