"""Facts about MPIJob of Kubeflow's mpi-operator (kubeflow.org/v2beta1).

It is suspended by `spec.runPolicy.suspend` (since mpi-operator 0.4). Workers are pods of the
MPIJob. The launcher is a pod of a separate Job, `<name>-launcher`, which exists from the beginning
and is suspended and resumed with the MPIJob: so its pods are identified by labels. `Suspended` may
be true while the status still counts the launcher as active.

Templates may change at any time. An existing launcher takes over labels, annotations, node
selector, tolerations and gates, which is all that a release changes.

The training-operator has a different MPIJob with the same name and another version
(`training_job`); a cluster serves one of them.

Source: the CRD of mpi-operator 0.8; its real behavior is recorded in tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from queue_controllers.job_families.kubeflow_replicas import (
    JOB_NAME_LABEL,
    JOB_ROLE_LABEL,
    OPERATOR_LABEL,
    RUN_POLICY,
    RUN_POLICY_SUSPEND,
    ReplicaSpecs,
    RoleStatus,
    RoleTable,
    RunPolicy,
    count_finished,
    read_role_status,
    release_by_run_policy,
)
from queue_controllers.job_families.suspend_field import ManagedByField
from queue_controllers.jobframework.generic_job import (
    Child,
    JobKind,
    JobPodSet,
    PrioritySource,
    StatusFacts,
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
    makes_pods_at_once=True,
)

LAUNCHER: Final = "launcher"
"""The pod set of the pod that starts the others."""

OPERATOR_NAME: Final = "mpi-operator"
"""Value of the operator's label on its pods: other operators name jobs by the same label."""


class MpiJobSpec(WireStruct, frozen=True):
    """`spec`."""

    run_policy: RunPolicy = RunPolicy()
    mpi_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)


class MpiJob(WireStruct, frozen=True):
    """An MPIJob with the part of its templates that a unit carries."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MpiJobSpec = MpiJobSpec()
    status: RoleStatus = RoleStatus()


TABLE: Final = RoleTable(field="mpiReplicaSpecs", order=("Launcher", "Worker"))


class MpiJobAdapter:
    """The `GenericJob` of this MPIJob: launcher, then workers.

    A launcher that works too (`runLauncherAsWorker`) is no more.
    """

    kind = KIND
    object_type = MpiJob
    pod_labels = (JOB_NAME_LABEL, JOB_ROLE_LABEL, OPERATOR_LABEL)
    is_suspended = RUN_POLICY_SUSPEND.is_suspended
    why_not_suspendable = RUN_POLICY_SUSPEND.why_not_suspendable
    suspend_patch = RUN_POLICY_SUSPEND.suspend_patch
    release_patch = release_by_run_policy
    foreign_manager = ManagedByField("kubeflow.org/mpi-operator", RUN_POLICY).foreign_manager

    def status_of(self, job: MpiJob) -> StatusFacts:
        """Return what conditions and counts of running pods say."""
        return read_role_status(job.status)

    def pod_sets(self, job: MpiJob) -> tuple[JobPodSet, ...]:
        """Return the launcher, then the workers."""
        finished = count_finished(job.spec.run_policy, job.status)
        return TABLE.pod_sets(job.spec.mpi_replica_specs, finished)

    def priority_of(self, job: MpiJob) -> PrioritySource:
        """Return `schedulingPolicy.priorityClass`, else the templates' in order of the pod sets."""
        return TABLE.priority_of(job.spec.run_policy, job.spec.mpi_replica_specs)

    def update_patch(self, job: MpiJob, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of the templates, which may change at any time."""
        return TABLE.updates_patch(job.spec.mpi_replica_specs, updates)

    def full_templates(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the roles' templates."""
        return TABLE.full_templates(job["spec"])

    makes: ClassVar[str] = "one Job, named MPIJOB-launcher"

    def child_of(self, job: MpiJob, kind: str, name: str) -> Child | None:
        """Return the launcher's Job."""
        if kind != "batch/Job" or name != f"{job.metadata.name}-launcher":
            return None
        sets = TABLE.pod_sets(job.spec.mpi_replica_specs, {})
        return Child(pod_sets=tuple(each for each in sets if each.name == LAUNCHER))

    def pod_set_of(self, pod: Pod) -> str:
        """Return the role by the label `job-role`, the only one that this operator has for it."""
        return pod.metadata.labels.get(JOB_ROLE_LABEL, "")

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the job's name: on launchers and workers alike."""
        if labels.get(OPERATOR_LABEL) != OPERATOR_NAME:
            return ""
        return labels.get(JOB_NAME_LABEL, "")
