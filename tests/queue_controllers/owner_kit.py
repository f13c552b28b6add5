"""Owners of jobs, as `classify_ownership` looks them up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from queue_controllers.decision.owners import Above, ChildName, Refusal
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import OwnerReference
from shared_api.testing.object_builders import pod_spec
from tests.sample_jobs import crd


class KnownOwners(msgspec.Struct, frozen=True, kw_only=True):
    """Owners whose kinds are jobs (`refusals`), and the owners of other kinds, by kind."""

    refusals: Mapping[str, Refusal | None] = {}
    chain: Mapping[str, Above] = {}
    asked: list[str] = msgspec.field(default_factory=list)
    """The pairs that were looked up, as "child <- owner"."""

    def above(self, owner: OwnerReference) -> Above:
        """Return the owner above."""
        self.asked.append(owner.kind)
        return self.chain.get(owner.kind, Above())

    def is_job(self, owner: OwnerReference) -> bool:
        """Return whether the kind is known."""
        return owner.kind in self.refusals

    def why_not_made(
        self, job: JobFacts, child: ChildName, owner: OwnerReference
    ) -> Refusal | None:
        """Return the refusal of the kind."""
        self.asked.append(f"{child.kind} <- {owner.kind}")
        return self.refusals[owner.kind]


class NobodyAbove(KnownOwners, frozen=True):
    """No owner is known."""


Json = dict[str, Any]


FILES = {"mpijobs": "mpijobs-v2beta1"}
"""Plurals of CRDs that are not named after the kind."""


def template(cpu: str = "1") -> Json:
    """Return a pod template."""
    return {"spec": pod_spec({"cpu": cpu}, restartPolicy="Never")}


def make_owner(
    direct: Any, api: str, name: str, plural: str, spec: Json, *, status: Json | None = None
) -> Json:
    """Create an object, with its kind's CRD; return the owner reference of its children."""
    version, _, kind = api.rpartition("/")
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "team"}}
    if not any(each["spec"]["names"]["plural"] == plural for each in crds(direct)):
        direct.create(crd(FILES.get(plural, plural)))
    made = direct.create({**body, "spec": spec})
    if status:
        said = {"status": status}
        direct.patch(plural, name, said, namespace="team", subresource="status")
    owner = {"apiVersion": version, "kind": kind, "name": name, "controller": True}
    return {**owner, "uid": made["metadata"]["uid"]}


def crds(direct: Any) -> list[Json]:
    """Return the existing CRDs."""
    found: list[Json] = direct.list("customresourcedefinitions")
    return found


def wrap_job(direct: Any, name: str, *, pods: int, kind: str = "Job") -> Json:
    """Create an AppWrapper of a Job, or of a CronJob; return the owner reference of that."""
    path = ["template", "spec", "template"]
    spec: Json = {"parallelism": pods, "completions": pods, "template": template()}
    if kind == "CronJob":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": spec}}
        path = ["template", "spec", "jobTemplate", "spec", "template"]
    wrapped = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    component = {"template": wrapped, "podSets": [{"path": ".".join(path), "replicas": pods}]}
    return make_owner(
        direct,
        "workload.codeflare.dev/v1beta2/AppWrapper",
        f"{name}-wrapper",
        "appwrappers",
        {"suspend": False, "components": [component]},
    )
