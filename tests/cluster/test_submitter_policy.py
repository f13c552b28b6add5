"""The chart's policies that prove who submits jobs, on a real API server.

Each user has exactly the rights of its role: `edit` in one namespace, and on units what the chart
gives where users may write them. Writes are dry runs, except of what a test changes afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.submitters import Submitter, read_submitter
from tests.charts.render import as_manifest, render, rights
from tests.charts.values_table import GATED, SWITCHES, WIDGET, values_with
from tests.cluster.kind_kit import ADAPTERS, SERVED, body_of, install, path_of
from tests.cluster.queue_world import MERGE, UNITS, QueueWorld
from tests.cluster.rbac_objects import binding, role
from tests.cluster.test_admission_policy import PLAIN, WIDGET_CRD
from tests.cluster.test_release_policy import EDIT, JSON_PATCH
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane, KubectlFailed
from tests.sample_jobs import open_crd
from tests.waiting import until

Json = Any

FORBIDDEN: Final = 403
UNAVAILABLE: Final = 503
OTHER: Final = "team-b"
ANN, BOB, CONTROLLERS, BOSS = "ann", "bob", "jobs-account", "boss"
FALSE_NAMESPACE: Final = f"namespace:{OTHER}"
RUNNER: Final = f"system:serviceaccount:{PLAIN}:runner"
OPERATOR: Final = "system:serviceaccount:ray-system:operator"
TRUSTED: Final = "system:serviceaccount:argo:controller"
CRON: Final = "system:serviceaccount:kube-system:cronjob-controller"
SETS: Final = "system:serviceaccount:kube-system:replicaset-controller"
TENANT: Final = "system:serviceaccount:kube-system:of-a-tenant"
USERS: Final[dict[str, Sequence[str]]] = {
    **{name: [] for name in (BOB, CONTROLLERS, BOSS, FALSE_NAMESPACE, RUNNER, OPERATOR, TRUSTED)},
    **{name: [] for name in (CRON, SETS, TENANT)},
    ANN: ["vision", "oidc:speech"],
}
BY, LABEL, GROUP = "koord-queue/submitted-by", "koord-queue/user", "koord-queue/group"
QUEUE: Final = {"koord-queue/queue-name": "q"}
VALUES: Final = values_with(
    *SWITCHES,
    *GATED,
    controllers={"config": {"kinds": [WIDGET]}},
    admissionPolicy={"users": True},
)
SCHEDULES: Final = {
    "raycronjobs": open_crd("RayCronJob", "raycronjobs", "ray.io"),
    "scheduledsparkapplications": open_crd(
        "ScheduledSparkApplication", "scheduledsparkapplications", "sparkoperator.k8s.io"
    ),
    "cronworkflows": open_crd("CronWorkflow", "cronworkflows", "argoproj.io"),
}
JOBS: Final = f"/apis/batch/v1/namespaces/{PLAIN}/jobs"
CRON_JOBS: Final = f"/apis/batch/v1/namespaces/{PLAIN}/cronjobs"
PODS: Final = f"/api/v1/namespaces/{PLAIN}/pods"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{PLAIN}/deployments"
POD: Final = {"containers": [{"name": "c", "image": "i"}]}

every_kind = pytest.mark.parametrize("key", SERVED)


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """All kinds are served and enabled, and the policies for users in force."""
    with QueueWorld(controlplane_binaries, jobs=True, users=USERS) as running:
        plane = running.plane
        for name in (PLAIN, OTHER):
            plane.kubectl("create", "namespace", name)
        install(plane, *SERVED)
        policies = [each for each in render(VALUES) if is_about_users(each)]
        crds = [WIDGET_CRD, *SCHEDULES.values()]
        given = [*crds, *rights("controllers", user=CONTROLLERS, values=VALUES), *roles()]
        manifest = as_manifest([*given, *policies])
        plane.kubectl("apply", "--server-side", "--filename", "-", input=manifest)
        for key in SERVED:
            until(partial(is_in_force, plane, path_of(ADAPTERS[key].kind, PLAIN), body_of(key)))
        until(partial(is_in_force, plane, UNITS.format(PLAIN), unit()))
        until(lambda: are_templates_judged(plane))
        yield running


@pytest.fixture
def plane(world: QueueWorld) -> ControlPlane:
    return world.plane


def is_about_users(policy: Json) -> bool:
    name = policy["metadata"]["name"]
    return "AdmissionPolicy" in policy["kind"] and name.endswith(("submitters", "template-authors"))


def roles() -> list[Json]:
    """`edit` as in Kubernetes, and the same on the other kinds and on units."""
    groups = sorted({each.kind.group for each in ADAPTERS.values()} | {"example.com"})
    groups += ["scheduling.x-k8s.io", "sparkoperator.k8s.io", "apps", "batch", ""]
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": ["create", "get", "patch", "update"]}
    passes = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["queueunits"]}
    given = [role("kinds", rule), binding("cluster-admin", BOSS)]
    given += [role("submits-for", {**passes, "verbs": ["submit-for"]})]
    given += [binding("submits-for", TRUSTED, PLAIN)]
    for user in (*EDITORS, OPERATOR, TRUSTED, CRON, SETS, TENANT):
        given += [binding(each, user, PLAIN) for each in (*EDIT, "kinds")]
    given += [binding(each, TRUSTED, OTHER) for each in (*EDIT, "kinds")]
    return given


EDITORS: Final = (ANN, BOB, RUNNER, FALSE_NAMESPACE)


def is_in_force(plane: ControlPlane, path: str, body: Json) -> bool:
    try:
        is_named = name_of(send(plane, ANN, path, body)) == ANN
    except ApiError as error:
        if error.status != UNAVAILABLE:
            raise
        # What the policies match waits for the server to know its kind.
        return False
    return is_named and bool(refusal(plane, ANN, path, named(body, by=BOB)))


def are_templates_judged(plane: ControlPlane) -> bool:
    try:
        made = send(plane, ANN, CRON_JOBS, cron_job())
    except ApiError as error:
        if error.status != UNAVAILABLE:
            raise
        return False
    is_named = name_of(made["spec"]["jobTemplate"]) == ANN
    return is_named and bool(refusal(plane, ANN, CRON_JOBS, cron_job(by=BOB)))


# ---------------------------------------------------------------------------------- what is written


def named(body: Json, *, by: str = "", user: str = "", group: str = "") -> Json:
    """Return an object that says who submitted it; its other metadata stays."""
    meta = dict(body.get("metadata", {}))
    meta["annotations"] = {**meta.get("annotations", {}), **({BY: by} if by else {})}
    labels = {key: each for key, each in ((LABEL, user), (GROUP, group)) if each}
    meta["labels"] = {**meta.get("labels", {}), **labels}
    return {**body, "metadata": meta}


def cron_job(**names: str) -> Json:
    template = named({"metadata": {}, "spec": body_of("job")["spec"]}, **names)
    spec = {"schedule": "0 0 * * *", "jobTemplate": template}
    return object_of("batch/v1", "CronJob", spec)


def pod(**names: str) -> Json:
    gates = [{"name": "koord-queue/admission"}]
    return named(object_of("v1", "Pod", {**POD, "schedulingGates": gates}), **names)


def deployment(*, queue: bool = True, **names: str) -> Json:
    labels = {"app": "x", **(QUEUE if queue else {})}
    template = named({"metadata": {"labels": labels}, "spec": POD}, **names)
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": template, "replicas": 1}
    return object_of("apps/v1", "Deployment", spec)


def unit(**names: str) -> Json:
    body = object_of("scheduling.x-k8s.io/v1alpha1", "QueueUnit", {"request": {"cpu": "1"}})
    return named(body, **names)


def object_of(version: str, kind: str, spec: Json) -> Json:
    meta = {"generateName": "x-"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def send(plane: ControlPlane, user: str, path: str, body: Json, *, dry: bool = True) -> Json:
    """Return what is, or would be, created."""
    return plane.client_for(user).request("POST", f"{path}{'?dryRun=All' if dry else ''}", body)


def make(plane: ControlPlane, user: str, path: str, body: Json) -> str:
    """Create an object; return its path."""
    return f"{path}/{send(plane, user, path, body, dry=False)['metadata']['name']}"


def refusal(plane: ControlPlane, user: str, path: str, body: Json) -> str:
    """Return why a user may not create this, "" where that is allowed."""
    return why_refused(lambda: send(plane, user, path, body))


def change_refused(
    plane: ControlPlane, user: str, path: str, patch: Json, content_type: str = MERGE
) -> str:
    """Return why a user may not change an object like this, "" where that is allowed."""
    method = "PUT" if content_type == "application/json" else "PATCH"
    dry = f"{path}{'&' if '?' in path else '?'}dryRun=All"
    client = plane.client_for(user)
    return why_refused(lambda: client.request(method, dry, patch, content_type=content_type))


def why_refused(write: Any) -> str:
    try:
        write()
    except ApiError as error:
        if error.status != FORBIDDEN or "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return ""


def name_of(body: Json) -> str:
    return str(body["metadata"].get("annotations", {}).get(BY, ""))


def submitter_of(body: Json) -> Submitter:
    """Return whom the scheduler counts it for."""
    meta = body["metadata"]
    labels, annotations = meta.get("labels", {}), meta.get("annotations", {})
    return read_submitter(PLAIN, labels, annotations, are_proved=True)


NAMESPACE_COUNTS: Final = Submitter(f"namespace:{PLAIN}", "")


def annotated(value: str | None) -> Json:
    return {"metadata": {"annotations": {BY: value}}}


def labeled(**labels: str | None) -> Json:
    keys = {"user": LABEL, "group": GROUP}
    return {"metadata": {"labels": {keys[name]: value for name, value in labels.items()}}}


# ------------------------------------------------------------------------------------ who is named


@every_kind
def test_who_creates_a_job_is_named_in_it(plane: ControlPlane, key: str) -> None:
    path = path_of(ADAPTERS[key].kind, PLAIN)
    made = send(plane, ANN, path, body_of(key))
    assert submitter_of(made).user == ANN
    assert made["metadata"]["labels"][LABEL] == ANN


@every_kind
def test_nobody_is_another_by_a_job(plane: ControlPlane, key: str) -> None:
    path = path_of(ADAPTERS[key].kind, PLAIN)
    for names in ({"by": BOB}, {"user": BOB}, {"by": ANN, "user": BOB}, {"by": BOB, "user": ANN}):
        false = named(body_of(key), **names)
        assert "You are ann: name yourself" in refusal(plane, ANN, path, false)
    others = named(body_of(key), group="speech")
    assert "a group that you are in" in refusal(plane, ANN, path, others)
    own = named(body_of(key), by=ANN, user=ANN, group="vision")
    assert submitter_of(send(plane, ANN, path, own)) == Submitter(ANN, "vision")


def test_a_service_account_is_named_without_a_label(plane: ControlPlane) -> None:
    made = send(plane, RUNNER, JOBS, body_of("job"))
    assert submitter_of(made).user == RUNNER
    assert LABEL not in made["metadata"].get("labels", {})


def test_units_and_pods_are_named_too(plane: ControlPlane) -> None:
    for path, body, other in (
        (UNITS.format(PLAIN), unit(), unit(by=BOB)),
        (PODS, pod(), pod(by=BOB)),
    ):
        assert submitter_of(send(plane, ANN, path, body)).user == ANN
        assert refusal(plane, ANN, path, other)


def test_administrators_submit_for_themselves_and_for_others(plane: ControlPlane) -> None:
    assert name_of(send(plane, BOSS, JOBS, body_of("job"))) == BOSS
    made = send(plane, BOSS, JOBS, named(body_of("job"), by=BOB, group="speech"))
    assert submitter_of(made) == Submitter(BOB, "speech")


@pytest.mark.parametrize("user", [ANN, BOSS, TRUSTED, CONTROLLERS])
def test_nobody_is_another_namespace(plane: ControlPlane, user: str) -> None:
    path = JOBS if user != CONTROLLERS else UNITS.format(PLAIN)
    body = body_of("job") if user != CONTROLLERS else unit()
    assert refusal(plane, user, path, named(body, by=FALSE_NAMESPACE))


def test_a_user_with_the_name_of_a_namespace_submits_nothing(plane: ControlPlane) -> None:
    assert "begins with namespace:" in refusal(plane, FALSE_NAMESPACE, JOBS, body_of("job"))
    assert "begins with namespace:" in refusal(plane, FALSE_NAMESPACE, CRON_JOBS, cron_job())


def test_the_controllers_pass_the_name_on_to_the_unit(plane: ControlPlane) -> None:
    path = UNITS.format(PLAIN)
    made = send(plane, CONTROLLERS, path, unit(by=ANN, user=ANN, group="vision"))
    assert submitter_of(made) == Submitter(ANN, "vision")
    assert submitter_of(send(plane, CONTROLLERS, path, unit())) == NAMESPACE_COUNTS


# ---------------------------------------------------------------------------------- ways around it

PATH_OF_NAME: Final = "/metadata/annotations/koord-queue~1submitted-by"
CHANGES: Final[dict[str, tuple[str, Json]]] = {
    "another name": (MERGE, annotated(BOB)),
    "no name": (MERGE, annotated(None)),
    "no annotations": (MERGE, {"metadata": {"annotations": None}}),
    "another label": (MERGE, labeled(user=BOB)),
    "no label": (MERGE, labeled(user=None)),
    "another group": (MERGE, labeled(group="speech")),
    "another of its groups": (MERGE, labeled(group="oidc")),
    "no group": (MERGE, labeled(group=None)),
    "by a JSON patch": (JSON_PATCH, [{"op": "replace", "path": PATH_OF_NAME, "value": BOB}]),
}


@pytest.mark.parametrize("how", CHANGES.values(), ids=CHANGES.keys())
def test_nobody_is_another_by_an_update(plane: ControlPlane, how: tuple[str, Json]) -> None:
    content_type, patch = how
    for path, body in (
        (JOBS, body_of("job")),
        (path_of(ADAPTERS["rayjob"].kind, PLAIN), body_of("rayjob")),
        (PODS, pod()),
        (UNITS.format(PLAIN), unit()),
    ):
        there = make(plane, ANN, path, named(body, group="vision"))
        passes = () if path == UNITS.format(PLAIN) else (BOSS, TRUSTED, CONTROLLERS)
        for user in (ANN, BOB, RUNNER, OPERATOR, *passes):
            why = change_refused(plane, user, there, patch, content_type)
            assert "stays as it was" in why, (path, user)
        other = {"metadata": {"labels": {"app": "x"}}}
        assert change_refused(plane, BOB, there, other) == ""


def test_nobody_is_another_by_a_whole_object_or_by_force(plane: ControlPlane) -> None:
    there = make(plane, ANN, JOBS, body_of("job"))
    whole = plane.client_for(ANN).request("GET", there)
    whole["metadata"]["annotations"][BY] = BOB
    del whole["metadata"]["resourceVersion"]  # the Job controller writes it as well
    assert change_refused(plane, ANN, there, whole, "application/json")
    applied = {"apiVersion": "batch/v1", "kind": "Job", **annotated(BOB)}
    forced = f"{there}?fieldManager=me&force=true"
    assert change_refused(plane, ANN, forced, applied, "application/apply-patch+yaml")
    created = f"{JOBS}/by-apply?fieldManager=me&force=true"
    body = {**body_of("job"), **annotated(BOB)}
    body["metadata"]["name"] = "by-apply"
    assert change_refused(plane, ANN, created, body, "application/apply-patch+yaml")


def test_nobody_is_another_by_a_subresource(plane: ControlPlane) -> None:
    for path, body in ((JOBS, body_of("job")), (PODS, pod())):
        there = make(plane, ANN, path, body)
        assert change_refused(plane, ANN, f"{there}/status", annotated(BOB))
    for key in ("rayjob", "jobset"):
        there = make(plane, ANN, path_of(ADAPTERS[key].kind, PLAIN), body_of(key))
        client = plane.client_for(ANN)
        client.request("PATCH", f"{there}/status", annotated(BOB), content_type=MERGE)
        assert name_of(client.request("GET", there)) == ANN, "metadata is no part of its status"


def test_nobody_is_another_by_an_owner(plane: ControlPlane) -> None:
    """A reference says nothing about who has created the object."""
    bobs = plane.client_for(BOB)
    owner = bobs.request("GET", make(plane, BOB, CRON_JOBS, cron_job()))
    for is_controller in (True, False):
        reference = {"apiVersion": "batch/v1", "kind": "CronJob", "controller": is_controller}
        meta = {key: owner["metadata"][key] for key in ("name", "uid")}
        body = body_of("job", ownerReferences=[{**reference, **meta}])
        assert submitter_of(send(plane, ANN, JOBS, body)).user == ANN
        assert refusal(plane, ANN, JOBS, named(body, by=BOB))


def test_nobody_is_another_by_impersonation(plane: ControlPlane) -> None:
    for other in (BOB, OPERATOR, CRON, f"system:serviceaccount:{OTHER}:runner"):
        with pytest.raises(KubectlFailed, match="cannot impersonate"):
            plane.kubectl("get", "jobs", "--namespace", PLAIN, "--as", other, user=ANN)


def test_nobody_is_another_by_a_unit_created_anew(plane: ControlPlane) -> None:
    """The unit of another's job: whoever creates it by hand is named in it."""
    job = plane.client_for(ANN).request("GET", make(plane, ANN, JOBS, body_of("job")))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "namespace": PLAIN}
    meta = {key: job["metadata"][key] for key in ("name", "uid")}
    body = unit()
    body["spec"]["consumerRef"] = {**reference, **meta}
    assert submitter_of(send(plane, BOB, UNITS.format(PLAIN), body)).user == BOB
    named_by_bob = {**unit(by=ANN), "spec": body["spec"]}
    assert refusal(plane, BOB, UNITS.format(PLAIN), named_by_bob)


def test_the_controllers_alone_keep_units_in_step(plane: ControlPlane) -> None:
    there = make(plane, ANN, UNITS.format(PLAIN), unit())
    for patch in (annotated(BOB), annotated(None), labeled(user=None, group="vision")):
        assert change_refused(plane, CONTROLLERS, there, patch) == ""
    assert change_refused(plane, CONTROLLERS, there, annotated(FALSE_NAMESPACE))


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["by the client", "server-side"])
def test_a_manifest_may_be_applied_again(plane: ControlPlane, options: tuple[str, ...]) -> None:
    """The name is not in it, and stays."""
    name = f"applied{''.join(options)}"
    body = {**body_of("job"), "metadata": {"name": name, "namespace": PLAIN}}
    schedule = {**cron_job(), "metadata": body["metadata"]}
    for priority in (None, "5"):
        if priority:
            body["metadata"]["annotations"] = {"scheduling.x-k8s.io/priority": priority}
            schedule["spec"]["schedule"] = "0 1 * * *"
        manifest = as_manifest([body, schedule])
        plane.kubectl("apply", *options, "--filename", "-", input=manifest, user=ANN)
        client = plane.client_for(ANN)
        assert name_of(client.request("GET", f"{JOBS}/{name}")) == ANN
        there = client.request("GET", f"{CRON_JOBS}/{name}")
        assert name_of(there["spec"]["jobTemplate"]) == ANN


def test_the_older_prefix_names_nobody(plane: ControlPlane) -> None:
    body = body_of("job")
    body["metadata"]["annotations"] = {"kube-queue/submitted-by": BOB}
    assert submitter_of(send(plane, ANN, JOBS, body)).user == ANN


def test_a_job_from_before_the_policies_keeps_its_name(plane: ControlPlane) -> None:
    there = make(plane, BOSS, JOBS, named(body_of("job"), by=BOB))
    assert change_refused(plane, ANN, there, {"spec": {"suspend": True}}) == ""
    assert change_refused(plane, ANN, there, annotated(ANN))


# ------------------------------------------------------------------------ who makes jobs for others


def test_what_operators_copy_counts_for_the_namespace(plane: ControlPlane) -> None:
    """KubeRay copies the metadata of a RayJob to its RayCluster."""
    path = path_of(ADAPTERS["raycluster"].kind, PLAIN)
    copied = named(body_of("raycluster"), by=ANN, user=ANN, group="vision")
    made = send(plane, OPERATOR, path, copied)
    assert submitter_of(made) == NAMESPACE_COUNTS
    assert not {LABEL, GROUP} & made["metadata"].get("labels", {}).keys()
    assert name_of(send(plane, OPERATOR, path, body_of("raycluster"))) == ""
    own = named(body_of("raycluster"), by=OPERATOR)
    assert submitter_of(send(plane, OPERATOR, path, own)) == NAMESPACE_COUNTS


def test_an_operator_in_the_namespace_is_itself_whatever_it_copies(plane: ControlPlane) -> None:
    """Whoever has `edit` there may act as its service account: it can be nobody else."""
    path = path_of(ADAPTERS["raycluster"].kind, PLAIN)
    for names in ({"by": ANN, "user": ANN, "group": "vision"}, {"user": ANN}, {"group": "vision"}):
        made = send(plane, RUNNER, path, named(body_of("raycluster"), **names))
        assert submitter_of(made) == Submitter(RUNNER, ""), names
        assert not {LABEL, GROUP} & made["metadata"].get("labels", {}).keys()


def test_the_verb_is_given_for_one_namespace(plane: ControlPlane) -> None:
    body = named(body_of("job"), by=BOB)
    assert submitter_of(send(plane, TRUSTED, JOBS, body)).user == BOB
    there = JOBS.replace(PLAIN, OTHER)
    assert name_of(send(plane, TRUSTED, there, body)) == ""


def test_a_cron_job_passes_its_author_on(plane: ControlPlane) -> None:
    made = send(plane, ANN, CRON_JOBS, cron_job())
    template = made["spec"]["jobTemplate"]
    assert (name_of(template), template["metadata"]["labels"][LABEL]) == (ANN, ANN)
    job = {**body_of("job"), "metadata": {"generateName": "x-", **template["metadata"]}}
    assert submitter_of(send(plane, CRON, JOBS, job)).user == ANN
    assert submitter_of(send(plane, CRON, JOBS, body_of("job"))) == NAMESPACE_COUNTS


def test_other_accounts_of_kube_system_pass_nothing_on(plane: ControlPlane) -> None:
    assert name_of(send(plane, TENANT, JOBS, named(body_of("job"), by=ANN))) == ""


@pytest.mark.parametrize("names", [{"by": BOB}, {"user": BOB}, {"group": "speech"}])
def test_nobody_is_another_by_a_cron_job(plane: ControlPlane, names: dict[str, str]) -> None:
    assert "Its template names" in refusal(plane, ANN, CRON_JOBS, cron_job(**names))
    there = make(plane, ANN, CRON_JOBS, cron_job(group="vision"))
    patch = {"spec": {"jobTemplate": named({}, **names)}}
    assert "Its template names" in change_refused(plane, ANN, there, patch)
    body = cron_job()
    body["spec"]["jobTemplate"]["spec"]["template"] |= named({}, **names)
    assert "Its template names" in refusal(plane, ANN, CRON_JOBS, body), "the template of its pods"


EDITS: Final = {
    "what runs": {"spec": {"jobTemplate": {"spec": {"parallelism": 9}}}},
    "when it runs": {"spec": {"schedule": "* * * * *"}},
    "that it runs": {"spec": {"suspend": False}},
}


@pytest.mark.parametrize("patch", EDITS.values(), ids=EDITS.keys())
def test_who_changes_a_cron_job_is_its_author(plane: ControlPlane, patch: Json) -> None:
    body = cron_job()
    body["spec"]["suspend"] = True
    there = make(plane, ANN, CRON_JOBS, body)
    dry, client = f"{there}?dryRun=All", plane.client_for(BOB)
    changed = client.request("PATCH", dry, patch, content_type=MERGE)["spec"]["jobTemplate"]
    assert (name_of(changed), changed["metadata"]["labels"][LABEL]) == (BOB, BOB)
    changed = plane.client_for(RUNNER).request("PATCH", dry, patch, content_type=MERGE)
    assert name_of(changed["spec"]["jobTemplate"]) == RUNNER
    assert LABEL not in changed["spec"]["jobTemplate"]["metadata"].get("labels", {})
    other = {"metadata": {"labels": {"app": "x"}}}
    same = client.request("PATCH", dry, other, content_type=MERGE)["spec"]["jobTemplate"]
    assert name_of(same) == ANN
    cleared = plane.client_for(OPERATOR).request("PATCH", dry, patch, content_type=MERGE)
    assert submitter_of(cleared["spec"]["jobTemplate"]) == NAMESPACE_COUNTS
    kept = plane.client_for(TRUSTED).request("PATCH", dry, patch, content_type=MERGE)
    assert name_of(kept["spec"]["jobTemplate"]) == ANN, "GitOps passes it on"


def test_a_group_goes_with_its_author(plane: ControlPlane) -> None:
    there = make(plane, ANN, CRON_JOBS, cron_job(group="vision"))
    patch = EDITS["when it runs"]
    assert "a group that you are in" in change_refused(plane, BOB, there, patch)
    assert change_refused(plane, ANN, there, patch) == ""


def test_queued_pods_name_the_author_of_their_template(plane: ControlPlane) -> None:
    made = send(plane, ANN, DEPLOYMENTS, deployment())
    template = made["spec"]["template"]
    assert name_of(template) == ANN
    gated = {**pod(), "metadata": {"generateName": "x-", **template["metadata"]}}
    assert submitter_of(send(plane, SETS, PODS, gated)).user == ANN
    unqueued = send(plane, ANN, DEPLOYMENTS, deployment(queue=False))
    assert BY not in unqueued["spec"]["template"]["metadata"].get("annotations", {})


def test_nobody_is_another_by_a_template_of_pods(plane: ControlPlane) -> None:
    for queue in (True, False):
        assert refusal(plane, ANN, DEPLOYMENTS, deployment(queue=queue, by=BOB))
    there = make(plane, ANN, DEPLOYMENTS, deployment())
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}}
    client, dry = plane.client_for(BOB), f"{there}?dryRun=All"
    changed = client.request("PATCH", dry, image, content_type=MERGE)
    assert name_of(changed["spec"]["template"]) == BOB
    scaled = client.request("PATCH", dry, {"spec": {"replicas": 3}}, content_type=MERGE)
    assert name_of(scaled["spec"]["template"]) == ANN, "nothing is rolled out"
    copied = send(plane, OPERATOR, DEPLOYMENTS, deployment(by=ANN, user=ANN))["spec"]["template"]
    assert submitter_of(copied) == NAMESPACE_COUNTS
    job = body_of("job")
    job["spec"]["template"] |= named({}, by=BOB)
    assert refusal(plane, ANN, JOBS, job)


@pytest.mark.parametrize("plural", SCHEDULES)
def test_nobody_is_another_by_a_schedule_of_an_operator(plane: ControlPlane, plural: str) -> None:
    crd = SCHEDULES[plural]["spec"]
    version = crd["versions"][0]["name"]
    path = f"/apis/{crd['group']}/{version}/namespaces/{PLAIN}/{plural}"
    body = object_of(f"{crd['group']}/{version}", crd["names"]["kind"], {"schedule": "x"})
    for names in ({"by": BOB}, {"user": BOB}, {"group": "speech"}):
        until(partial(refusal, plane, ANN, path, named(body, **names)))
        inner = {**body, "spec": {"workflowMetadata": named({}, **names)["metadata"]}}
        assert refusal(plane, ANN, path, inner)
    there = make(plane, ANN, path, named(body, by=ANN, group="vision"))
    assert refusal(plane, ANN, path, named(body, by=ANN)) == ""
    assert change_refused(plane, BOB, there, {"spec": {"schedule": "y"}})
    assert change_refused(plane, ANN, there, annotated(BOB))
    finalizer = {"metadata": {"finalizers": ["example.com/x"]}}
    assert change_refused(plane, OPERATOR, there, finalizer) == ""


def test_nobody_is_another_by_a_computed_label(plane: ControlPlane) -> None:
    path = f"/apis/argoproj.io/v1/namespaces/{PLAIN}/cronworkflows"
    computed = {"workflowMetadata": {"labelsFrom": {GROUP: {"expression": "'speech'"}}}}
    body = object_of("argoproj.io/v1", "CronWorkflow", computed)
    assert "cannot be computed" in refusal(plane, ANN, path, body)


@pytest.mark.parametrize("name", ["prove-submitters", "prove-template-authors"])
def test_the_api_server_finds_no_wrong_types_in_a_policy(plane: ControlPlane, name: str) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    there = f"{path}/koord-queue-{name}"
    until(lambda: "typeChecking" in plane.client_for().request("GET", there).get("status", {}))
    assert plane.client_for().request("GET", there)["status"]["typeChecking"] == {}


def test_the_unit_says_what_its_job_says(world: QueueWorld) -> None:
    """The last test of this module: the controllers run, with the rights that the chart gives."""
    world.start_controllers("--leader-elect=false", user=CONTROLLERS)
    held = body_of("job", labels=QUEUE)
    held["spec"]["suspend"] = True
    wanted = {ANN: ANN, RUNNER: RUNNER, OPERATOR: NAMESPACE_COUNTS.user}
    for user, want in wanted.items():
        name = make(world.plane, user, JOBS, held).rpartition("/")[2]
        there = f"{UNITS.format(PLAIN)}/{name}"
        made = until(partial(world.api.find, there))
        assert submitter_of(made).user == want
