"""Jobs that list their pods by role, as all kinds of the group kubeflow.org do. Pure.

Two operators share this shape: `spec.<kind>ReplicaSpecs` has a count and a pod template for each
role, `spec.runPolicy` the suspend field, and `status.conditions` the job's state. What differs from
kind to kind is data (`RoleTable`).

Pod sets are named after their roles in lower case, as the operators label pods. They stand in the
order of the kind's table: the leading role first (chief, master, launcher), then parameter servers,
workers and evaluators; a role that the table does not have comes last, by name.

Finished pods count while their run goes on: a suspension discards them, since operators delete
finished pods too and create all of them anew.

Source: the CRDs' own words; what real operators did is in tests/data/recordings.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from queue_controllers.job_families.job_conditions import read_outcome, read_suspended
from queue_controllers.job_families.suspend_field import SuspendField
from queue_controllers.jobframework.generic_job import (
    ApiJob,
    JobPodSet,
    PodStamp,
    PrioritySource,
    StatusFacts,
    TakesTemplateUpdates,
    priority_of_templates,
)
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.pod_template import ScheduledContainer, ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.field_path import parse_path
from shared_api.objects.meta import Condition, Timestamp, WireStruct, is_condition_true

JOB_NAME_LABEL: Final = "training.kubeflow.org/job-name"
OPERATOR_LABEL: Final = "training.kubeflow.org/operator-name"
REPLICA_TYPE_LABEL: Final = "training.kubeflow.org/replica-type"
JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"

MAX_ROLE_LISTS: Final = 256
"""Lists of roles of which the order is remembered: jobs of a kind have one of a few."""

MAX_ROLES_CHARS: Final = 1024
"""Longest such list, many times the real ones: users may write any roles, and some 500 one-letter
ones take 100 kB."""


class ReplicaSpec(WireStruct, frozen=True):
    """The pods of one role; absent `replicas` are 1."""

    replicas: int | None = None
    template: ScheduledPodTemplate = ScheduledPodTemplate()

    @property
    def count(self) -> int:
        """How many pods the role has."""
        return 1 if self.replicas is None else self.replicas


ReplicaSpecs = dict[str, ReplicaSpec]
"""The replica specs by role, as the object has them."""


class SchedulingPolicy(WireStruct, frozen=True):
    """`spec.runPolicy.schedulingPolicy`."""

    priority_class: str = ""


class RunPolicy(WireStruct, frozen=True):
    """`spec.runPolicy`."""

    suspend: bool | None = None
    managed_by: str | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class ReplicaStatus(WireStruct, frozen=True):
    """The pods of one role, counted by the operator: `active` are those that run."""

    active: int = 0
    succeeded: int = 0


class RoleStatus(WireStruct, frozen=True):
    """`status` of such a job."""

    conditions: tuple[Condition, ...] = ()
    start_time: Timestamp | None = None
    replica_statuses: dict[str, ReplicaStatus] = msgspec.field(default_factory=dict)


class AddedContainer(msgspec.Struct, frozen=True, kw_only=True):
    """An init container that the operator puts before the pods of a role."""

    role: str
    beside: str = ""
    """Only if the job has this role as well; "" for always."""
    container: ScheduledContainer


_NO_STATUS: Final = RoleStatus()

RUN_POLICY: Final = attrgetter("spec.run_policy")
"""Returns the part of a job that has `suspend` and `managedBy`."""

RUN_POLICY_SUSPEND: Final = SuspendField(parse_path(".spec.runPolicy.suspend"), RUN_POLICY)


def release_by_run_policy(
    adapter: TakesTemplateUpdates, job: ApiJob, stamps: Mapping[str, PodStamp]
) -> dict[str, Any]:
    """Return the patch that releases a job with `RUN_POLICY_SUSPEND`; the method of its adapter."""
    return RUN_POLICY_SUSPEND.release_patch(adapter, job, stamps)


def read_role_status(status: RoleStatus) -> StatusFacts:
    """Return what the conditions say.

    While `Restarting` is true there is no `Running`: the remaining pods wait for the others.
    `Suspended` comes up to two seconds before the pods are gone.
    """
    suspended, since = read_suspended(status.conditions)
    return StatusFacts(
        is_empty=status == _NO_STATUS,
        suspended=suspended,
        suspended_since=since,
        running=is_condition_true(status.conditions, "Running"),
        outcome=read_outcome(status.conditions, "Succeeded"),
        pods=sum(each.active for each in status.replica_statuses.values()),
    )


def count_finished(policy: RunPolicy, status: RoleStatus) -> dict[str, int]:
    """Return by pod set how many pods have finished in the current run.

    The counts of an earlier run stand in the status until the operator has seen the resume; then
    `Suspended` is no longer true.
    """
    if policy.suspend or is_condition_true(status.conditions, "Suspended"):
        return {}
    return {
        pod_set_name(role): each.succeeded
        for role, each in status.replica_statuses.items()
        if each.succeeded
    }


class RoleTable(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind lists its roles, and what its operator adds to them."""

    field: str
    """In `spec`."""
    order: tuple[str, ...]
    added: tuple[AddedContainer, ...] = ()

    def roles_of(self, specs: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the roles as the object spells them, by pod set, in order.

        Operators take a role in any case. Of two spellings of one they take either; here it is the
        one that sorts last.
        """
        is_long = sum(map(len, specs)) > MAX_ROLES_CHARS
        return (_in_order.__wrapped__ if is_long else _in_order)(self.order, tuple(specs))

    def pod_sets(self, specs: ReplicaSpecs, finished: Mapping[str, int]) -> tuple[JobPodSet, ...]:
        """Return the pod sets, less the pods that have finished, by pod set."""
        names = self.roles_of(specs)
        sets = []
        for name, role in names.items():
            wanted, done = specs[role].count, finished.get(name, 0)
            sets.append(
                JobPodSet(
                    name=name,
                    count=max(wanted - done, 0),
                    template=_begun_by(specs[role].template, self._containers_for(name, names)),
                    is_done=0 < wanted <= done,
                )
            )
        return tuple(sets)

    def priority_of(self, policy: RunPolicy, specs: ReplicaSpecs) -> PrioritySource:
        """Return the scheduling policy's class, else the first template's priority."""
        if policy.scheduling_policy.priority_class:
            return PrioritySource(policy.scheduling_policy.priority_class)
        return priority_of_templates(specs[each].template for each in self.roles_of(specs).values())

    def updates_patch(
        self, specs: ReplicaSpecs, updates: Mapping[str, TemplateUpdate]
    ) -> dict[str, Any]:
        """Return the merge patch that changes the templates, by pod set."""
        bodies = {name: {"template": update_body(update)} for name, update in updates.items()}
        return self._roles_patch(specs, bodies)

    def replicas_patch(self, specs: ReplicaSpecs, counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the merge patch that sets the counts, by pod set."""
        return self._roles_patch(specs, {name: {"replicas": n} for name, n in counts.items()})

    def full_templates(self, spec: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the whole pod templates in a `spec` as it came from the server, by pod set."""
        specs: Mapping[str, Any] = spec.get(self.field) or {}
        names = self.roles_of(specs)
        templates = {name: dict(specs[role].get("template") or {}) for name, role in names.items()}
        for name, template in templates.items():
            if added := self._containers_for(name, names):
                pod = dict(template.get("spec") or {})
                before = pod.get("initContainers") or []
                pod["initContainers"] = [*before, *map(msgspec.to_builtins, added)]
                template["spec"] = pod
        return templates

    def _containers_for(
        self, name: str, names: Mapping[str, str]
    ) -> tuple[ScheduledContainer, ...]:
        """Return what the operator adds to a pod set of a job with these."""
        return tuple(
            each.container
            for each in self.added
            if pod_set_name(each.role) == name
            and (not each.beside or pod_set_name(each.beside) in names)
        )

    def _roles_patch(
        self, specs: ReplicaSpecs, bodies: Mapping[str, dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the patch of roles, spelled as in the object; unknown pod sets are left out."""
        patch = {
            role: bodies[name] for name, role in self.roles_of(specs).items() if name in bodies
        }
        return {"spec": {self.field: patch}} if patch else {}


@functools.lru_cache(maxsize=MAX_ROLE_LISTS)
def _in_order(order: tuple[str, ...], roles: tuple[str, ...]) -> Mapping[str, str]:
    ranks = {role.lower(): rank for rank, role in enumerate(order)}
    ordered = sorted(roles, key=lambda each: (ranks.get(each.lower(), len(ranks)), each))
    return {pod_set_name(role): role for role in ordered}


def _begun_by(
    template: ScheduledPodTemplate, containers: tuple[ScheduledContainer, ...]
) -> ScheduledPodTemplate:
    """Return a template with further init containers, after its own."""
    if not containers:
        return template
    own = template.spec.init_containers
    spec = msgspec.structs.replace(template.spec, init_containers=(*own, *containers))
    return msgspec.structs.replace(template, spec=spec)
