"""The chart's policies that let only the queue release what it holds, on a real API server.

Each user has exactly the rights of its role: `edit` in two namespaces, the chart's role of the
controllers, cluster-admin. All writes are dry runs against jobs that stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import NAMESPACE, as_manifest, render, rights
from tests.charts.values_table import GATED, SWITCHES, WIDGET, values_with
from tests.cluster.kind_kit import ADAPTERS, SERVED, body_of, install, path_of, switch_of
from tests.cluster.kind_table import set_at
from tests.cluster.queue_world import MERGE, until
from tests.cluster.rbac_objects import binding, role
from tests.cluster.test_admission_policy import MANAGED, OWNER, PLAIN, WIDGET_CRD, widget
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane

Json = Any

USER, CONTROLLERS, BOSS = "ann", "jobs-account", "boss"
QUEUE: Final = {"koord-queue/queue-name": "q"}
SUSPEND: Final = "scheduling.x-k8s.io/suspend"
HELD_BY_ANNOTATION: Final = {"annotations": {SUSPEND: "true"}}
GATE: Final = "koord-queue/admission"
FORBIDDEN: Final = 403

EDIT: Final = ("system:aggregate-to-edit", "system:aggregate-to-view")
"""The parts of `edit`; here no controller aggregates them."""

CONFIG: Final = {"kinds": [WIDGET], "leaveToKueue": True}
ALL: Final = values_with(*SWITCHES, *GATED, controllers={"config": CONFIG})
ADOPTED_BY_A_JOB: Final = {"metadata": {"ownerReferences": [{**OWNER, "kind": "JobSet"}]}}

every_kind = pytest.mark.parametrize("key", SERVED)


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    """All kinds are served and enabled; the release policies apply, the admission policies not."""
    users: dict[str, list[str]] = {USER: [], CONTROLLERS: [], BOSS: []}
    with ControlPlane(controlplane_binaries, users=users) as running:
        labelled = {"name": MANAGED, "labels": {"koord-queue/managed": "true"}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}
        running.kubectl("apply", "--filename", "-", input=as_manifest([namespace]))
        for name in (NAMESPACE, PLAIN):
            running.kubectl("create", "namespace", name)
        install(running, *SERVED)
        policies = [each for each in render(ALL) if each["kind"].startswith("ValidatingAdmission")]
        given = [WIDGET_CRD, *rights("controllers", user=CONTROLLERS, values=ALL), *roles()]
        manifest = as_manifest([*given, *policies])
        running.kubectl("apply", "--server-side", "--filename", "-", input=manifest)
        until(lambda: is_in_force(running))
        yield running


def roles() -> list[Json]:
    """`edit` as in Kubernetes, and the same on the other kinds; cluster-admin."""
    groups = sorted({each.kind.group for each in ADAPTERS.values()} | {"example.com"})
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": ["create", "get", "patch", "update"]}
    given = [role("kinds", rule), binding("cluster-admin", BOSS)]
    for namespace in (PLAIN, MANAGED, NAMESPACE):
        given += [binding(each, USER, namespace) for each in (*EDIT, "kinds")]
    return given


def make(plane: ControlPlane, body: Json, path: str) -> str:
    """Create an object as the admin; return its path."""
    return f"{path}/{plane.client_for().request('POST', path, body)['metadata']['name']}"


def make_job(
    plane: ControlPlane, key: str, *, namespace: str = PLAIN, on: bool = True, **metadata: Json
) -> str:
    body = body_of(key, **metadata)
    set_at(body, switch_of(key), value=on)
    return make(plane, body, path_of(ADAPTERS[key].kind, namespace))


def make_pod(plane: ControlPlane, *gates: str) -> str:
    spec: Json = {"containers": [{"name": "c", "image": "i"}]}
    spec["schedulingGates"] = [{"name": each} for each in gates]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}, "spec": spec}
    return make(plane, pod, f"/api/v1/namespaces/{PLAIN}/pods")


def refusal(plane: ControlPlane, user: str, path: str, patch: Json) -> str:
    """Return why a user may not change an object like this, "" where that is allowed."""
    try:
        client = plane.client_for(user)
        client.request("PATCH", f"{path}?dryRun=All", patch, content_type=MERGE)
    except ApiError as error:
        if error.status != FORBIDDEN or "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return ""


def released(key: str) -> Json:
    """Return the patch that turns off a kind's switch."""
    patch: Json = {}
    set_at(patch, switch_of(key), value=False)
    return patch


def is_in_force(plane: ControlPlane) -> bool:
    pod, job = make_pod(plane, GATE), make_job(plane, "job", labels=QUEUE)
    gates = refusal(plane, USER, pod, {"spec": {"schedulingGates": None}})
    return bool(gates and refusal(plane, USER, job, released("job")))


# ------------------------------------------------------------------------------------ each kind


@every_kind
def test_only_the_queue_and_administrators_release_a_job(plane: ControlPlane, key: str) -> None:
    path = make_job(plane, key, labels=QUEUE)
    assert "resumes it when it is its turn" in refusal(plane, USER, path, released(key))
    for user in (CONTROLLERS, BOSS, "admin"):
        assert refusal(plane, user, path, released(key)) == ""


@every_kind
def test_the_annotation_is_a_switch_too(plane: ControlPlane, key: str) -> None:
    path = make_job(plane, key, on=False, labels=QUEUE, **held_by_annotation(key))
    for said in (None, "false"):
        off = {"metadata": {"annotations": {SUSPEND: said}}}
        assert "suspend as they are" in refusal(plane, USER, path, off)
        assert refusal(plane, CONTROLLERS, path, off) == ""


def held_by_annotation(key: str) -> Json:
    said = body_of(key)["metadata"].get("annotations", {})
    return {"annotations": {**said, SUSPEND: "true"}}


@every_kind
def test_an_unmanaged_job_may_be_released_by_its_user(plane: ControlPlane, key: str) -> None:
    kueue = {**QUEUE, "kueue.x-k8s.io/queue-name": "k"}
    nested = [{**OWNER, "kind": "JobSet"}]
    for metadata in ({}, {"labels": kueue}, {"labels": QUEUE, "ownerReferences": nested}):
        assert refusal(plane, USER, make_job(plane, key, **metadata), released(key)) == ""
    runs = make_job(plane, key, on=False, labels=QUEUE)
    set_on: Json = {}
    set_at(set_on, switch_of(key), value=True)
    assert refusal(plane, USER, runs, set_on) == "", "a user may suspend a running job"


@every_kind
def test_a_labeled_namespace_guards_all_its_jobs(plane: ControlPlane, key: str) -> None:
    path = make_job(plane, key, namespace=MANAGED)
    assert refusal(plane, USER, path, released(key))
    assert refusal(plane, CONTROLLERS, path, released(key)) == ""


# -------------------------------------------------------------------------------------- workarounds

AROUND: Final = {
    "the queue's label is removed": {"metadata": {"labels": {"koord-queue/queue-name": None}}},
    "it is emptied": {"metadata": {"labels": {"koord-queue/queue-name": ""}}},
    "it becomes Kueue's": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "k"}}},
    "a job comes to own it": ADOPTED_BY_A_JOB,
    "both in one write": {
        "metadata": {"labels": {"koord-queue/queue-name": None}},
        "spec": {"suspend": False},
    },
}


@pytest.mark.parametrize("patch", AROUND.values(), ids=AROUND.keys())
def test_a_suspended_job_stays_managed(plane: ControlPlane, patch: Json) -> None:
    path = make_job(plane, "job", labels=QUEUE)
    assert refusal(plane, USER, path, patch)
    for user in (CONTROLLERS, BOSS):
        assert refusal(plane, user, path, patch) == ""


def test_a_suspended_job_cannot_be_made_one_that_cannot_be_held(plane: ControlPlane) -> None:
    path = make_job(plane, "rayjob", labels=QUEUE)
    stays = {"spec": {"shutdownAfterJobFinishes": False}}
    assert "change it so that the queue cannot hold it" in refusal(plane, USER, path, stays)


def test_in_a_labeled_namespace_another_job_may_not_own_it(plane: ControlPlane) -> None:
    path = make_job(plane, "job", namespace=MANAGED)
    assert refusal(plane, USER, path, ADOPTED_BY_A_JOB)


PASSES: Final = {
    "another queue": {"metadata": {"labels": {"koord-queue/queue-name": "r"}}},
    "a quota in its place": {
        "metadata": {
            "labels": {"koord-queue/queue-name": None, "quota.scheduling.koordinator.sh/name": "a"}
        }
    },
    "other labels": {"metadata": {"labels": {"app": "x"}}},
    "it is deactivated": {"metadata": {"annotations": {"scheduling.x-k8s.io/active": "false"}}},
    "its demand": {"spec": {"parallelism": 3}},
    "an owner that does not control it": {
        "metadata": {"ownerReferences": [{**OWNER, "kind": "JobSet", "controller": False}]}
    },
}


@pytest.mark.parametrize("patch", PASSES.values(), ids=PASSES.keys())
def test_its_user_may_change_a_suspended_job_otherwise(plane: ControlPlane, patch: Json) -> None:
    assert refusal(plane, USER, make_job(plane, "job", labels=QUEUE), patch) == ""


@pytest.mark.parametrize("subresource", ["status", "scale"])
def test_an_operators_status_is_accepted(plane: ControlPlane, subresource: str) -> None:
    """A status is no switch, and the operator of a held job must be able to report that."""
    path = make_job(plane, "rayjob", labels=QUEUE)
    if subresource == "status":
        assert refusal(plane, USER, f"{path}/status", {"status": {"message": "x"}}) == ""
    else:
        path = make_job(plane, "job", labels=QUEUE)
        finalizers = {"metadata": {"finalizers": ["example.com/x"]}}
        assert refusal(plane, USER, path, finalizers) == ""


def test_the_installations_own_namespace_is_left_alone(plane: ControlPlane) -> None:
    path = make_job(plane, "job", namespace=NAMESPACE, labels=QUEUE)
    assert refusal(plane, USER, path, released("job")) == ""


def test_the_verb_may_be_given_for_one_namespace(plane: ControlPlane) -> None:
    rule = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["queueunits"]}
    releases = role("releaser", {**rule, "verbs": ["release"]})
    given = [releases, binding("releaser", USER, MANAGED)]
    plane.kubectl("apply", "--filename", "-", input=as_manifest(given))
    there, here = make_job(plane, "job", namespace=MANAGED), make_job(plane, "job", labels=QUEUE)
    until(lambda: refusal(plane, USER, there, released("job")) == "")
    assert refusal(plane, USER, here, released("job"))
    plane.kubectl("delete", "rolebinding", f"releaser-{USER}", "--namespace", MANAGED)
    until(partial(refusal, plane, USER, there, released("job")))


# ------------------------------------------------------------------------- kinds that are declared


def test_a_declared_kind_is_guarded_by_its_field(plane: ControlPlane) -> None:
    where = f"/apis/example.com/v1/namespaces/{PLAIN}/widgets"
    until(lambda: is_served(plane, where))
    off = {"spec": {"policy": {"suspend": False}}}
    path = make(plane, widget(policy={"suspend": True}), where)
    assert refusal(plane, USER, path, off)
    assert refusal(plane, CONTROLLERS, path, off) == ""
    for body in (widget(policy="none"), widget(policy={"suspend": True}, workers="none")):
        path = make(plane, body, where)
        assert refusal(plane, USER, path, {"metadata": {"labels": {"app": "x"}}}) == ""


def is_served(plane: ControlPlane, where: str) -> bool:
    try:
        plane.client_for().request("GET", where)
    except ApiError:
        return False
    return True


# ------------------------------------------------------------------------------------------ pods


def test_only_the_queue_and_administrators_remove_the_gate_of_a_pod(plane: ControlPlane) -> None:
    path = make_pod(plane, GATE, "example.com/other")
    others = {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}
    for patch in ({"spec": {"schedulingGates": None}}, others):
        assert "when it is its turn" in refusal(plane, USER, path, patch)
        for user in (CONTROLLERS, BOSS):
            assert refusal(plane, user, path, patch) == ""


def test_a_user_may_change_other_gates_and_fields_of_a_pod(plane: ControlPlane) -> None:
    path = make_pod(plane, GATE, "example.com/other")
    assert refusal(plane, USER, path, {"spec": {"schedulingGates": [{"name": GATE}]}}) == ""
    assert refusal(plane, USER, path, {"metadata": {"labels": {"app": "x"}}}) == ""
    foreign = make_pod(plane, "example.com/other")
    assert refusal(plane, USER, foreign, {"spec": {"schedulingGates": None}}) == ""


def test_the_label_of_kueue_is_no_way_around_the_gate(plane: ControlPlane) -> None:
    path = make_pod(plane, GATE)
    label = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "k"}}}
    plane.client_for(USER).request("PATCH", path, label, content_type=MERGE)
    assert refusal(plane, USER, path, {"spec": {"schedulingGates": None}})


# -------------------------------------------------------------------------- where there is no Kueue


def test_without_kueue_its_label_is_no_way_around_the_queue(plane: ControlPlane) -> None:
    """The last test of this module: it changes the policies."""
    label = {"kueue.x-k8s.io/queue-name": "k"}
    theirs = make_job(plane, "job", labels={**QUEUE, **label})
    assert refusal(plane, USER, theirs, released("job")) == ""
    values = values_with(*SWITCHES, *GATED, controllers={"config": {"kinds": [WIDGET]}})
    policies = [each for each in render(values) if each["kind"].startswith("ValidatingAdmission")]
    plane.kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(policies))
    until(lambda: "when it is its turn" in refusal(plane, USER, theirs, released("job")))
    assert refusal(plane, CONTROLLERS, theirs, released("job")) == ""
    ours = make_job(plane, "job", labels=QUEUE)
    relabeled = {"metadata": {"labels": label}}
    assert "when it is its turn" in refusal(plane, USER, ours, {**relabeled, **released("job")})
