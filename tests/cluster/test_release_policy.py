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
from tests.cluster.queue_world import MERGE
from tests.cluster.rbac_objects import binding, role
from tests.cluster.test_admission_policy import MANAGED, OWNER, PLAIN, WIDGET_CRD, widget
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until

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
ALL: Final = values_with(
    *SWITCHES, *GATED, controllers={"config": CONFIG}, admissionPolicy={"growth": True}
)
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


def refusal(
    plane: ControlPlane, user: str, path: str, patch: Json, content_type: str = MERGE
) -> str:
    """Return why a user may not change an object like this, "" where that is allowed.

    JSON is the whole object, any other type a patch of it.
    """
    method = "PUT" if content_type == "application/json" else "PATCH"
    dry = f"{path}{'&' if '?' in path else '?'}dryRun=All"
    try:
        plane.client_for(user).request(method, dry, patch, content_type=content_type)
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
    if "metadata" in patch:  # of a built-in kind a write of the status may change it as well
        assert refusal(plane, USER, f"{path}/status", {"metadata": patch["metadata"]})
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


# ---------------------------------------------------------------------- the mark of the controllers

MARK, GRANTED = "koord-queue/marked-uid", "koord-queue/granted-count"


def mark(plane: ControlPlane, path: str, granted: str | None = None) -> str:
    """Mark an object as the controllers do; return its uid."""
    client = plane.client_for(CONTROLLERS)
    uid = str(client.request("GET", path)["metadata"]["uid"])
    annotations = {MARK: uid, GRANTED: granted}
    client.request("PATCH", path, {"metadata": {"annotations": annotations}}, content_type=MERGE)
    return uid


@every_kind
def test_a_marked_job_is_guarded_whatever_it_says_itself(plane: ControlPlane, key: str) -> None:
    path = make_job(plane, key)
    assert refusal(plane, USER, path, released(key)) == ""
    mark(plane, path)
    assert "when it is its turn" in refusal(plane, USER, path, released(key))
    for user in (CONTROLLERS, BOSS):
        assert refusal(plane, user, path, released(key)) == ""


def test_a_marked_job_cannot_be_handed_to_another_controller(plane: ControlPlane) -> None:
    path = make_job(plane, "job")
    mark(plane, path)
    assert refusal(plane, USER, path, AROUND["it becomes Kueue's"])
    assert refusal(plane, USER, path, ADOPTED_BY_A_JOB)


def test_a_marked_job_under_an_unknown_owner_is_guarded_too(plane: ControlPlane) -> None:
    owner = [{**OWNER, "kind": "Pipeline", "apiVersion": "example.com/v1"}]
    path = make_job(plane, "job", labels=QUEUE, ownerReferences=owner)
    mark(plane, path)
    assert refusal(plane, USER, path, released("job"))
    assert refusal(plane, USER, path, {"metadata": {"labels": {"app": "x"}}}) == ""


JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"


def annotated(**annotations: Json) -> Json:
    return {"metadata": {"annotations": annotations}}


FORGERIES: Final[dict[str, tuple[str, Json]]] = {
    "it is removed": (MERGE, annotated(**{MARK: None})),
    "all annotations are removed": (MERGE, annotated() | {"metadata": {"annotations": None}}),
    "it becomes another": (MERGE, annotated(**{MARK: "x"})),
    "the grant is raised": (MERGE, annotated(**{GRANTED: "1000"})),
    "the grant is removed": (STRATEGIC, annotated(**{GRANTED: None})),
    "a JSON patch": (
        JSON_PATCH,
        [{"op": "remove", "path": "/metadata/annotations/koord-queue~1marked-uid"}],
    ),
    "a patch that replaces the map": (
        STRATEGIC,
        {"metadata": {"annotations": {"$patch": "replace", "a": "b"}}},
    ),
}


@pytest.mark.parametrize("on", [True, False], ids=["held", "released"])
@pytest.mark.parametrize(("how", "patch"), FORGERIES.values(), ids=FORGERIES.keys())
def test_a_mark_cannot_be_changed(plane: ControlPlane, on: bool, how: str, patch: Json) -> None:
    path = make_job(plane, "job", on=on, labels=QUEUE)
    mark(plane, path, "3")
    assert "leave them as they are" in refusal(plane, USER, path, patch, how)
    assert "leave them as they are" in refusal(plane, USER, f"{path}/status", patch, how)
    assert refusal(plane, CONTROLLERS, path, patch, how) == ""


def test_a_mark_cannot_be_taken_by_apply_or_put(plane: ControlPlane) -> None:
    path = make_job(plane, "job", on=False)
    uid = mark(plane, path, "3")
    kind = {"apiVersion": "batch/v1", "kind": "Job"}
    forced = f"{path}?fieldManager=me&force=true"
    for values in ({MARK: "x"}, {MARK: uid, GRANTED: "9"}):
        assert refusal(plane, USER, forced, {**kind, **annotated(**values)}, APPLY)
    whole = plane.client_for().request("GET", path)
    whole["metadata"]["annotations"] = {}
    assert refusal(plane, USER, path, whole, "application/json")


def test_a_mark_cannot_be_forged(plane: ControlPlane) -> None:
    path = make_job(plane, "job", on=False, labels=QUEUE)
    uid = plane.client_for().request("GET", path)["metadata"]["uid"]
    for values in ({MARK: uid}, {MARK: uid, GRANTED: "1000"}):
        assert "leave them as they are" in refusal(plane, USER, path, annotated(**values))
    assert refusal(plane, USER, path, annotated(**{GRANTED: "1000"})) == "", "it says nothing alone"


def test_what_is_written_into_a_job_before_it_is_created_is_no_mark(plane: ControlPlane) -> None:
    """Operators copy annotations to what they create; a user may know the uid of an earlier job."""
    client, jobs = plane.client_for(USER), path_of(ADAPTERS["job"].kind, PLAIN)
    old = make_job(plane, "job")
    uid = mark(plane, old, "1000")
    copied = {MARK: uid, GRANTED: "1000"}
    body = body_of("job", name="again", uid=uid, annotations=copied)
    set_at(body, switch_of("job"), value=True)
    paths = [f"{jobs}/{client.request('POST', jobs, body)['metadata']['name']}"]
    del body["metadata"]["uid"], body["metadata"]["generateName"]
    body["metadata"]["name"] = "applied"
    client.request("PATCH", f"{jobs}/applied?fieldManager=me", body, content_type=APPLY)
    body["metadata"] = {"generateName": "made-", "annotations": copied}
    paths += [f"{jobs}/applied", f"{jobs}/{client.request('POST', jobs, body)['metadata']['name']}"]
    for path in paths:
        assert client.request("GET", path)["metadata"]["uid"] != uid
        assert refusal(plane, USER, path, released("job")) == ""
        assert refusal(plane, USER, path, annotated(**{MARK: None, GRANTED: None})) == ""


# ----------------------------------------------------------------- more pods than a job was granted


def sized(plane: ControlPlane, granted: str | None, *, on: bool = False, **spec: Json) -> str:
    """Create a Job, released with so many pods; None: it is not marked."""
    body = body_of("job", labels=QUEUE if granted is None else {})
    body["spec"] |= {"suspend": on, **spec}
    path = make(plane, body, path_of(ADAPTERS["job"].kind, PLAIN))
    if granted is not None:
        mark(plane, path, granted)
    return path


INDEXED: Final = {"completionMode": "Indexed"}
SIZES: Final[dict[str, tuple[str | None, Json, Json, bool]]] = {
    "beyond the grant": ("3", {"parallelism": 3}, {"parallelism": 4}, False),
    "below it": ("3", {"parallelism": 3}, {"parallelism": 1}, True),
    "back to it": ("3", {"parallelism": 1}, {"parallelism": 3}, True),
    "beyond it, from below": ("3", {"parallelism": 1}, {"parallelism": 4}, False),
    "less, and still beyond": ("3", {"parallelism": 9}, {"parallelism": 8}, True),
    "more than its completions": (
        "3",
        {"parallelism": 2, "completions": 3},
        {"parallelism": 9},
        True,
    ),
    "more completions": (
        "3",
        {"parallelism": 9, "completions": 3, **INDEXED},
        {"completions": 9},
        False,
    ),
    "suspended with it": ("3", {"parallelism": 3}, {"parallelism": 9, "suspend": True}, True),
    "no grant in its mark": ("", {"parallelism": 3}, {"parallelism": 4}, False),
    "a grant that is no number": ("many", {"parallelism": 3}, {"parallelism": 4}, False),
    "a job without a mark": (None, {"parallelism": 3}, {"parallelism": 4}, False),
    "a held job": ("3", {"parallelism": 3, "suspend": True}, {"parallelism": 9}, True),
}


@pytest.mark.parametrize(("granted", "spec", "change", "want"), SIZES.values(), ids=SIZES.keys())
def test_a_job_that_runs_keeps_to_its_grant(
    plane: ControlPlane, granted: str | None, spec: Json, change: Json, *, want: bool
) -> None:
    path = sized(plane, granted, **spec)
    reported = refusal(plane, USER, path, {"spec": change})
    assert reported == "" if want else "The queue has granted this job" in reported
    for user in (CONTROLLERS, BOSS):
        assert refusal(plane, user, path, {"spec": change}) == ""


def test_the_grant_cannot_be_evaded(plane: ControlPlane) -> None:
    path, more = sized(plane, "3", parallelism=3), {"spec": {"parallelism": 9}}
    annotation = {"annotations": {SUSPEND: "true"}}
    assert refusal(plane, USER, path, more, STRATEGIC)
    assert refusal(plane, USER, path, {**more, "metadata": annotation})
    applied = {"apiVersion": "batch/v1", "kind": "Job", **more}
    assert refusal(plane, USER, f"{path}?fieldManager=me&force=true", applied, APPLY)
    whole = plane.client_for().request("GET", path)
    whole["spec"]["parallelism"] = 9
    assert refusal(plane, USER, path, whole, "application/json")
    replaced = [{"op": "replace", "path": "/spec/parallelism", "value": 9}]
    assert refusal(plane, USER, path, replaced, JSON_PATCH)
    held = sized(plane, "3", on=True, parallelism=3)
    assert refusal(plane, USER, held, {"spec": {"suspend": False, "parallelism": 9}})


def test_a_job_without_a_mark_cannot_leave_the_queue_to_grow(plane: ControlPlane) -> None:
    path = sized(plane, None, parallelism=3)
    for patch in (AROUND["the queue's label is removed"], AROUND["it becomes Kueue's"]):
        assert "This job runs in the queue" in refusal(plane, USER, path, patch)
        assert refusal(plane, CONTROLLERS, path, patch) == ""
    assert refusal(plane, USER, path, {"metadata": {"labels": {"app": "x"}}}) == ""


@pytest.mark.parametrize("key", ["job", "jaxjob"])
def test_an_unmanaged_job_may_grow(plane: ControlPlane, key: str) -> None:
    more = {"parallelism": 9} if key == "job" else jax(9)
    assert refusal(plane, USER, make_job(plane, key, on=False), {"spec": more}) == ""


def jax(replicas: int) -> Json:
    return {"jaxReplicaSpecs": {"Worker": {"replicas": replicas}}}


def test_other_kinds_of_one_count_keep_to_it_too(plane: ControlPlane) -> None:
    path = make_job(plane, "jaxjob", on=False, labels=QUEUE)
    mark(plane, path, "4")
    assert refusal(plane, USER, path, {"spec": jax(4)}) == ""
    assert "granted this job 4 pods" in refusal(plane, USER, path, {"spec": jax(5)})
    other = {"jaxReplicaSpecs": {"worker": jax(5)["jaxReplicaSpecs"]["Worker"]}}
    assert refusal(plane, USER, path, {"spec": other}), "another spelling of the role"
    assert "made smaller" in refusal(plane, USER, f"{path}/scale", {"spec": {"replicas": 9}})
    assert refusal(plane, USER, f"{path}/scale", {"spec": {"replicas": 1}}) == ""
    assert refusal(plane, CONTROLLERS, path, {"spec": jax(5)}) == ""


# ------------------------------------------------------------------------- kinds that are declared


def test_a_declared_kind_of_one_count_keeps_to_it(plane: ControlPlane) -> None:
    where = f"/apis/example.com/v1/namespaces/{PLAIN}/widgets"
    until(lambda: is_served(plane, where))
    path = make(plane, widget(), where)
    mark(plane, path, "3")
    for count, want in ((3, False), (4, True), ("none", True), (None, False)):
        got = refusal(plane, USER, path, {"spec": {"workers": {"count": count}}})
        assert bool(got) == want, count
    assert refusal(plane, BOSS, path, {"spec": {"workers": {"count": 4}}}) == ""


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
    values = {**ALL, "controllers": {"config": {"kinds": [WIDGET]}}}
    policies = [each for each in render(values) if each["kind"].startswith("ValidatingAdmission")]
    plane.kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(policies))
    until(lambda: "when it is its turn" in refusal(plane, USER, theirs, released("job")))
    assert refusal(plane, CONTROLLERS, theirs, released("job")) == ""
    ours = make_job(plane, "job", labels=QUEUE)
    relabeled = {"metadata": {"labels": label}}
    assert "when it is its turn" in refusal(plane, USER, ours, {**relabeled, **released("job")})
