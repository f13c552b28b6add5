"""Facts about the kinds of Kubeflow's training-operator (kubeflow.org/v1), one row for each.

They are suspended by `spec.runPolicy.suspend` (since training-operator 1.7): the operator deletes
all pods and sets `Suspended` before they are gone. If such a job is resumed while one of them still
exists, it fails: the operator treats a pod that is being deleted as failed. Templates may change at
any time, and affect only new pods.

The operator itself creates every pod, including the launcher of an MPIJob. It adds init containers
to some, which count: `init-pytorch` waits in workers for their master, `kubectl-delivery` provides
the launcher with what it starts workers with.

A PyTorchJob with `elasticPolicy.minReplicas` can run with that many workers. A PaddleJob has that
field as well, but its operator gives each pod the total number of pods at the time of its creation,
which pods that are created later would contradict.

Source: the CRDs of training-operator 1.9; its real behavior is recorded in tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from queue_controllers.job_families.kubeflow_replicas import (
    REPLICA_TYPE_LABEL,
    RUN_POLICY,
    RUN_POLICY_SUSPEND,
    AddedContainer,
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
    JobKind,
    JobPodSet,
    PodOwner,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.partial_parallelism import read_parallelism
from queue_controllers.jobframework.pod_template import ScheduledContainer
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import Pod, ResourceRequirements

ELASTIC_SET: Final = "worker"
"""The pod set whose size an elastic policy is about."""

INIT_PYTORCH: Final = ScheduledContainer(
    name="init-pytorch",
    image="alpine:3.10",
    resources=ResourceRequirements(requests={"cpu": "50m", "memory": "10Mi"}),
)
"""The container that the operator adds unless its configuration says otherwise."""

KUBECTL_DELIVERY: Final = ScheduledContainer(
    name="kubectl-delivery",
    image="kubeflow/kubectl-delivery:latest",
    resources=ResourceRequirements(
        requests={"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
    ),
)


class ElasticPolicy(WireStruct, frozen=True):
    """`spec.elasticPolicy`: how few workers are enough; how many there are, `replicas` says."""

    min_replicas: int | None = None


class TrainingJobSpec(WireStruct, frozen=True):
    """`spec` of all kinds: each has one of the maps."""

    run_policy: RunPolicy = RunPolicy()
    elastic_policy: ElasticPolicy | None = None
    tf_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)
    pytorch_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)
    xgb_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)
    paddle_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)
    jax_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)
    mpi_replica_specs: ReplicaSpecs = msgspec.field(default_factory=dict)


class TrainingJob(WireStruct, frozen=True):
    """A job of any of these kinds."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TrainingJobSpec = TrainingJobSpec()
    status: RoleStatus = RoleStatus()


class TrainingJobAdapter:
    """The `GenericJob` of one kind."""

    object_type = TrainingJob
    pod_labels = (REPLICA_TYPE_LABEL,)
    is_suspended = RUN_POLICY_SUSPEND.is_suspended
    why_not_suspendable = RUN_POLICY_SUSPEND.why_not_suspendable
    suspend_patch = RUN_POLICY_SUSPEND.suspend_patch
    release_patch = release_by_run_policy
    foreign_manager = ManagedByField("kubeflow.org/training-operator", RUN_POLICY).foreign_manager

    def __init__(
        self,
        kind: JobKind,
        table: RoleTable,
        specs_of: Callable[[TrainingJobSpec], ReplicaSpecs],
        *,
        is_elastic: bool = False,
    ) -> None:
        self.kind = kind
        self.table = table
        self._specs_of = specs_of
        self._is_elastic = is_elastic
        self._has_one_role = len(table.order) == 1

    def status_of(self, job: TrainingJob) -> StatusFacts:
        """Return what conditions and counts of running pods say."""
        return read_role_status(job.status)

    def pod_sets(self, job: TrainingJob) -> tuple[JobPodSet, ...]:
        """Return one set for each role, in the order of the kind's row."""
        pod_sets = self.table.pod_sets(self._specs_of(job.spec), self._finished(job))
        if self._has_one_role and len(pod_sets) == 1:
            return (msgspec.structs.replace(pod_sets[0], is_sized=True),)
        if not self._is_elastic:
            return pod_sets
        return tuple(
            self._with_least(job, each) if each.name == ELASTIC_SET else each for each in pod_sets
        )

    def priority_of(self, job: TrainingJob) -> PrioritySource:
        """Return `schedulingPolicy.priorityClass`, else the templates' in order of the pod sets."""
        return self.table.priority_of(job.spec.run_policy, self._specs_of(job.spec))

    def update_patch(
        self, job: TrainingJob, updates: Mapping[str, TemplateUpdate]
    ) -> dict[str, Any]:
        """Return the patch of the templates, which may change at any time."""
        return self.table.updates_patch(self._specs_of(job.spec), updates)

    def full_templates(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the roles' templates, with the init containers that the operator adds."""
        return self.table.full_templates(job["spec"])

    def resize_patch(self, job: TrainingJob, counts: Mapping[str, int]) -> dict[str, Any]:
        """Set `replicas` of the roles."""
        return self.table.replicas_patch(self._specs_of(job.spec), counts)

    def pod_owner(self, job: TrainingJob, pod_set: str) -> PodOwner:
        """Return the job, and the label that tells its roles apart."""
        return PodOwner(
            controller=self.kind.as_controller(job.metadata), labels={REPLICA_TYPE_LABEL: pod_set}
        )

    def pod_set_of(self, pod: Pod) -> str:
        """Return the role by its label; `job-role` says only who leads."""
        return pod.metadata.labels.get(REPLICA_TYPE_LABEL, "")

    def _finished(self, job: TrainingJob) -> Mapping[str, int]:
        """Return by pod set how many pods have done their work."""
        return count_finished(job.spec.run_policy, job.status)

    def _with_least(self, job: TrainingJob, pod_set: JobPodSet) -> JobPodSet:
        """Return the set with what its job can do with, and what a release has let run of it."""
        specs = self._specs_of(job.spec)
        stated_count = specs[self.table.roles_of(specs)[pod_set.name]].count
        wanted, released_parallelism = read_parallelism(job.metadata.annotations, stated_count)
        done = self._finished(job).get(pod_set.name, 0)
        count = max(wanted - done, 0)
        policy = job.spec.elastic_policy
        least = policy.min_replicas if policy is not None else None
        if least is not None and not 1 <= least <= wanted:
            least = None
        # What a release has lowered is given back also where the policy has gone since.
        may_be_fewer = least is not None or released_parallelism is not None
        return msgspec.structs.replace(
            pod_set,
            count=count,
            min_count=min(least, count) if least is not None and count else None,
            wanted_parallelism=wanted if may_be_fewer else None,
            released_parallelism=released_parallelism,
            is_done=0 < wanted <= done,
        )


def _kind(key: str, kind: str, plural: str, name_suffix: str) -> JobKind:
    return JobKind(
        key=key,
        group="kubeflow.org",
        version="v1",
        kind=kind,
        plural=plural,
        name_suffix=name_suffix,
        owns_pods=True,
        makes_pods_at_once=True,
    )


_LED: Final = ("Master", "Worker")

TRAINING_JOBS: Final = (
    TrainingJobAdapter(
        _kind("tfjob", "TFJob", "tfjobs", "tf-qu"),
        RoleTable(field="tfReplicaSpecs", order=("Chief", "Master", "PS", "Worker", "Evaluator")),
        attrgetter("tf_replica_specs"),
    ),
    TrainingJobAdapter(
        _kind("pytorchjob", "PyTorchJob", "pytorchjobs", "py-qu"),
        RoleTable(
            field="pytorchReplicaSpecs",
            order=_LED,
            added=(AddedContainer(role="Worker", beside="Master", container=INIT_PYTORCH),),
        ),
        attrgetter("pytorch_replica_specs"),
        is_elastic=True,
    ),
    TrainingJobAdapter(
        _kind("xgboostjob", "XGBoostJob", "xgboostjobs", "xgb-qu"),
        RoleTable(field="xgbReplicaSpecs", order=_LED),
        attrgetter("xgb_replica_specs"),
    ),
    TrainingJobAdapter(
        _kind("paddlejob", "PaddleJob", "paddlejobs", "paddle-qu"),
        RoleTable(field="paddleReplicaSpecs", order=_LED),
        attrgetter("paddle_replica_specs"),
    ),
    TrainingJobAdapter(
        _kind("jaxjob", "JAXJob", "jaxjobs", "jax-qu"),
        RoleTable(field="jaxReplicaSpecs", order=("Worker",)),
        attrgetter("jax_replica_specs"),
    ),
    TrainingJobAdapter(
        _kind("mpijobv1", "MPIJob", "mpijobs", "mpi-qu"),
        RoleTable(
            field="mpiReplicaSpecs",
            order=("Launcher", "Worker"),
            added=(AddedContainer(role="Launcher", container=KUBECTL_DELIVERY),),
        ),
        attrgetter("mpi_replica_specs"),
    ),
)
