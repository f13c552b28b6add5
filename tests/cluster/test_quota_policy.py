"""Which namespaces may name a quota, on a real API server: at admission, and in the scheduler.

The scheduler has exactly the chart's rights, and the user those of `edit` in two namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from queue_scheduler.quota.quota_tree import MAX_DEPTH
from shared_api.testing.object_builders import elastic_quota_tree_body, tree_node
from shared_api.well_known_labels import TREE_QUOTA_NAME
from tests.charts.render import as_manifest, render, rights
from tests.charts.values_table import values_with
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import (
    JOBS,
    MERGE,
    QUEUE_NAMESPACE,
    QUOTA_LABEL,
    QUOTAS,
    UNITS,
    QueueWorld,
    label_pods,
    quota_view,
    reason_of,
)
from tests.cluster.rbac_objects import binding, role
from tests.cluster.served_kinds import install_crds
from tests.cluster.test_release_policy import EDIT
from tests.controlplane.api_client import ApiError
from tests.sample_jobs import crd
from tests.waiting import until

Json = Any

USER: Final = "ann"
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
HOME, LISTED, OWN, STRANGE = "quotas", "team-listed", "team-own", "team-strange"
NAMESPACES: Final = "quota.scheduling.koordinator.sh/namespaces"
AVAILABLE: Final = "koord-queue/available-quota-in-namespace"
PLUGINS: Final = [{"name": name} for name in ("Priority", "ElasticQuotaV2", "ElasticQuota")]
VALUES: Final = values_with(
    "batchjob",
    quotaNamespaces="listed",
    admissionPolicy={"quotasFrom": [HOME, OWN]},
    pluginConfigs={"plugins": PLUGINS},
)
TREES: Final = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/{}/elasticquotatrees"
WRITES_UNITS: Final = role(
    "writes-units",
    {
        "apiGroups": ["scheduling.x-k8s.io"],
        "resources": ["queueunits"],
        "verbs": ["create", "patch"],
    },
)
"""Units, but not their status: such a user can do no more than any other."""
PODS: Final = "/api/v1/namespaces/{}/pods"


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """Quotas in two namespaces, the policy in force, and the scheduler by the chart's values."""
    users: dict[str, Sequence[str]] = {USER: [], "queue-account": [], "jobs-account": []}
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as running:
        install_crds(running.plane, crd("elasticquotatrees"))
        for name in (HOME, LISTED, OWN, STRANGE):
            running.plane.kubectl("create", "namespace", name)
        roles = [binding(each, USER, ns) for ns in (STRANGE, OWN) for each in EDIT]
        units = [WRITES_UNITS, binding("writes-units", USER)]
        guards = [one for one in render(VALUES) if one["kind"].startswith("ValidatingAdmission")]
        given = [*rights("scheduler", user="queue-account", values=VALUES)]
        given += rights("controllers", user="jobs-account", values=VALUES)
        manifest = as_manifest([*roles, *units, *given, *guards])
        running.plane.kubectl("apply", "--server-side", "--filename", "-", input=manifest)
        create_quota(running, "gold", HOME, annotations={NAMESPACES: f'["{LISTED}"]'})
        create_quota(running, "own", OWN)
        create_tree(running)
        until(lambda: refusal(running, pod(STRANGE, "gold")))
        until(lambda: refusal(running, pod(STRANGE, "leaf", TREE_QUOTA_NAME)))
        until(lambda: refusal(running, pod(STRANGE, "own")))
        yield running


def create_quota(world: QueueWorld, name: str, namespace: str, annotations: Json = None) -> None:
    amounts = {"cpu": "4"}
    body = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"min": amounts, "max": amounts},
    }
    world.api.request("POST", QUOTAS.format(namespace), body)


def create_tree(world: QueueWorld) -> None:
    """Create a tree of as many levels as are read; Go writes null for an empty list."""
    deepest = tree_node(f"level-{MAX_DEPTH}")
    for level in range(MAX_DEPTH - 1, 1, -1):
        deepest = tree_node(f"level-{level}", deepest)
    leaf = {**tree_node("leaf", namespaces=[LISTED]), "children": None}
    team = tree_node("team", leaf, {"name": "bare", "namespaces": None})
    root = tree_node("top", team, tree_node("all", namespaces=["*"]), deepest)
    body = elastic_quota_tree_body(root, namespace=HOME)
    until(lambda: can_list(world, TREES.format(HOME)))
    world.api.request("POST", TREES.format(HOME), body)


def can_list(world: QueueWorld, path: str) -> bool:
    """Return whether objects can be listed: for a while after their CRD the server answers 429."""
    try:
        world.api.request("GET", path)
    except ApiError:
        return False
    return True


def meta(namespace: str, labels: dict[str, str]) -> Json:
    return {"generateName": "x-", "namespace": namespace, "labels": labels}


CONTAINERS: Final = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]


def pod(namespace: str, quota: str, key: str = QUOTA_LABEL) -> tuple[str, Json]:
    labels = {key: quota} if quota else {}
    spec = {"containers": CONTAINERS, "schedulerName": "nobody"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(namespace, labels), "spec": spec}
    return PODS.format(namespace), body


def job(namespace: str, quota: str, key: str = QUOTA_LABEL) -> tuple[str, Json]:
    template = {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}
    spec = {"suspend": True, "template": template}
    metadata = meta(namespace, {key: quota} if quota else {})
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return JOBS.format(namespace), body


def unit(namespace: str, quota: str, key: str = QUOTA_LABEL) -> tuple[str, Json]:
    spec = {"request": {"cpu": "1"}}
    metadata = meta(namespace, {key: quota})
    body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "QueueUnit"}
    return UNITS.format(namespace), {**body, "metadata": metadata, "spec": spec}


def refusal(
    world: QueueWorld, what: tuple[str, Json], user: str = "admin", *, verb: str = "POST"
) -> str:
    """Return why this write is refused, "" where it is not."""
    path, body = what
    more = {"content_type": MERGE} if verb == "PATCH" else {}
    try:
        world.plane.client_for(user).request(verb, f"{path}?dryRun=All", body, **more)
    except ApiError as error:
        if error.status != FORBIDDEN or "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return ""


@pytest.mark.parametrize("make", [pod, job, unit])
@pytest.mark.parametrize(
    ("namespace", "quota", "allowed"),
    [
        pytest.param(STRANGE, "gold", False, id="another team's"),
        pytest.param(LISTED, "gold", True, id="the quota lists the namespace"),
        pytest.param(OWN, "own", True, id="the quota is in the namespace"),
        pytest.param(STRANGE, "own", False, id="a quota in another team's namespace"),
        pytest.param(STRANGE, "no-such", True, id="no quota: the scheduler reports it"),
        pytest.param(QUEUE_NAMESPACE, "gold", True, id="the installation's own namespace"),
    ],
)
def test_which_namespaces_may_name_a_quota(
    world: QueueWorld, make: Any, namespace: str, quota: str, allowed: bool
) -> None:
    why = refusal(world, make(namespace, quota), USER if make is unit else "admin")
    assert (why == "") is allowed
    if not allowed:
        assert f"QuotaNotInNamespace: namespace {namespace} may not name quota {quota}" in why
        assert AVAILABLE in why


@pytest.mark.parametrize("make", [job, unit])
@pytest.mark.parametrize(
    "key", ["alibabacloud.com/quota-name", "quota.scheduling.alibabacloud.com/name"]
)
def test_older_spellings_count_where_the_queue_reads_them(
    world: QueueWorld, make: Any, key: str
) -> None:
    user = USER if make is unit else "admin"
    assert refusal(world, make(STRANGE, "gold", key), user)
    assert refusal(world, make(LISTED, "gold", key), user) == ""
    assert refusal(world, pod(STRANGE, "gold", key)) == "", "koord-scheduler does not read it"


@pytest.mark.parametrize("make", [pod, job, unit])
@pytest.mark.parametrize(
    ("namespace", "node", "allowed"),
    [
        pytest.param(STRANGE, "leaf", False, id="another team's"),
        pytest.param(LISTED, "leaf", True, id="the node lists the namespace"),
        pytest.param(LISTED, "team", False, id="a node below it lists the namespace"),
        pytest.param(STRANGE, "bare", False, id="it lists nothing"),
        pytest.param(STRANGE, "all", True, id="it lists all namespaces"),
        pytest.param(STRANGE, "root", False, id="the root"),
        pytest.param(STRANGE, "top", True, id="the root's own name does not count"),
        pytest.param(STRANGE, f"level-{MAX_DEPTH}", False, id="the deepest usable node"),
        pytest.param(STRANGE, "no-such", True, id="no node: the scheduler reports it"),
    ],
)
def test_which_namespaces_may_name_a_node_of_a_tree(
    world: QueueWorld, make: Any, namespace: str, node: str, allowed: bool
) -> None:
    for key in (TREE_QUOTA_NAME, QUOTA_LABEL):
        why = refusal(world, make(namespace, node, key), USER if make is unit else "admin")
        assert (why == "") is allowed
        if not allowed:
            assert f"QuotaNotInNamespace: namespace {namespace} may not name node {node}." in why


def test_of_two_labels_the_first_names_the_node(world: QueueWorld) -> None:
    path, body = pod(STRANGE, "all", TREE_QUOTA_NAME)
    body["metadata"]["labels"][QUOTA_LABEL] = "leaf"
    assert refusal(world, (path, body)) == ""
    body["metadata"]["labels"] = {TREE_QUOTA_NAME: "leaf", QUOTA_LABEL: "all"}
    assert refusal(world, (path, body))


@pytest.mark.parametrize("listed", ["leaf", "gold, leaf ", "root/team/leaf", "*"])
def test_the_namespace_may_list_the_node(world: QueueWorld, listed: str) -> None:
    annotate(world, STRANGE, listed)
    until(lambda: refusal(world, pod(STRANGE, "leaf", TREE_QUOTA_NAME)) == "")
    annotate(world, STRANGE, "root/other/leaf,team,root")
    until(lambda: refusal(world, pod(STRANGE, "leaf", TREE_QUOTA_NAME)))
    annotate(world, STRANGE, None)


@pytest.mark.parametrize("listed", ["gold", "silver, gold ", "*"])
def test_the_namespace_may_list_the_quota(world: QueueWorld, listed: str) -> None:
    annotate(world, STRANGE, listed)
    until(lambda: refusal(world, pod(STRANGE, "gold")) == "")
    annotate(world, STRANGE, "silver")
    until(lambda: refusal(world, pod(STRANGE, "gold")))
    annotate(world, STRANGE, None)


def annotate(world: QueueWorld, namespace: str, listed: str | None) -> None:
    body = {"metadata": {"annotations": {AVAILABLE: listed}}}
    world.api.request("PATCH", f"/api/v1/namespaces/{namespace}", body, content_type=MERGE)


@pytest.mark.parametrize(("key", "name"), [(QUOTA_LABEL, "gold"), (TREE_QUOTA_NAME, "leaf")])
def test_a_label_may_not_be_added_later(world: QueueWorld, key: str, name: str) -> None:
    for make in (pod, job):
        path, body = make(STRANGE, "")
        made = world.plane.client_for(USER).request("POST", path, body)
        where = f"{path}/{made['metadata']['name']}"
        label = {"metadata": {"labels": {key: name}}}
        assert refusal(world, (where, label), USER, verb="PATCH")
        other = {"metadata": {"labels": {"app": "x"}}}
        assert refusal(world, (where, other), USER, verb="PATCH") == ""


def test_the_label_of_a_living_pod_may_not_be_changed_to_it(world: QueueWorld) -> None:
    """koord-scheduler charges a pod to the quota that its label names now."""
    path, body = pod(OWN, "own")
    body["spec"]["nodeName"] = "node"
    client = world.plane.client_for(USER)
    made = client.request("POST", path, body)
    where = f"{path}/{made['metadata']['name']}"
    running = {"status": {"phase": "Running"}}
    world.api.request("PATCH", f"{where}/status", running, content_type=MERGE)
    for name, allowed in (("gold", False), ("no-such", True), (None, True), ("own", True)):
        edit = {"metadata": {"labels": {QUOTA_LABEL: name}}}
        assert (refusal(world, (where, edit), USER, verb="PATCH") == "") is allowed, name
    client.request("DELETE", f"{where}?gracePeriodSeconds=0")


@pytest.mark.parametrize(("key", "name"), [(QUOTA_LABEL, "gold"), (TREE_QUOTA_NAME, "leaf")])
def test_objects_that_named_it_before_are_left_alone(
    world: QueueWorld, key: str, name: str
) -> None:
    """A namespace that is no longer listed keeps its pods: they can be changed, and end."""
    annotate(world, STRANGE, name)
    path, body = pod(STRANGE, name, key)
    until(lambda: refusal(world, (path, body)) == "")
    made = world.plane.client_for(USER).request("POST", path, body)
    annotate(world, STRANGE, None)
    until(lambda: refusal(world, (path, body)))
    where = f"{path}/{made['metadata']['name']}"
    assert refusal(world, (where, {"metadata": {"labels": {"app": "x"}}}), verb="PATCH") == ""
    world.plane.client_for(USER).request("DELETE", where)


def test_units_of_the_controllers_are_left_to_the_scheduler(world: QueueWorld) -> None:
    for made in (unit(STRANGE, "gold"), unit(STRANGE, "leaf", TREE_QUOTA_NAME)):
        assert refusal(world, made, USER)
        assert refusal(world, made, "jobs-account") == ""


@pytest.mark.parametrize("name", ["koord-queue-name-quotas", "koord-queue-name-nodes"])
def test_the_api_server_finds_no_wrong_types_in_a_policy(world: QueueWorld, name: str) -> None:
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
    until(lambda: "typeChecking" in world.api.request("GET", path).get("status", {}))
    assert world.api.request("GET", path)["status"]["typeChecking"] == {}


# -------------------------------------------------------------------------------- the scheduler


@pytest.fixture(scope="module")
def scheduler(world: QueueWorld) -> ProgramProcess:
    common = ("--leader-elect=false", f"--queue-namespace={QUEUE_NAMESPACE}")
    running = world.start(SCHEDULER, *common, *flags_of_chart(), user="queue-account")
    world.start(CONTROLLERS, "--enabled-extensions=job", *common, user="jobs-account")
    return running


def flags_of_chart() -> list[str]:
    """Return the flags about this that the chart gives the scheduler."""
    for one in render(VALUES):
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", "koord-queue"):
            (container,) = one["spec"]["template"]["spec"]["containers"]
            return [arg for arg in container["args"] if arg.startswith("--quota-namespaces")]
    raise AssertionError("no scheduler")


def test_a_job_waits_until_its_namespace_is_listed(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """A job from before the policy: its unit reports why it waits, and it starts once listed."""
    name = make_before_the_policy(world, job(STRANGE, "gold"))
    where = f"{UNITS.format(STRANGE)}/{name}"
    until(lambda: reason_of(world.api.request("GET", where)) == "QuotaNotInNamespace")
    assert quota_view(scheduler, "gold")["used"] == {}
    note = until(lambda: world.event_notes(name, "Job").get("QuotaNotInNamespace"))
    assert f"It cannot start: quota gold is not available in namespace {STRANGE}" in str(note)
    annotate(world, STRANGE, "gold")
    until(lambda: world.api.request("GET", where)["status"]["phase"] in {"Dequeued", "Running"})
    delete_job(world, scheduler, f"{JOBS.format(STRANGE)}/{name}")


def delete_job(world: QueueWorld, scheduler: ProgramProcess, path: str) -> None:
    world.api.request("DELETE", path, {"propagationPolicy": "Background"})
    annotate(world, STRANGE, None)
    until(lambda: quota_view(scheduler, "gold")["used"] == {})


def test_an_adopted_job_takes_no_other_teams_quota(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """It ran unmanaged, and is labeled now: it is neither stopped nor charged there."""
    create_quota(world, "adopted", LISTED)
    path, body = job(STRANGE, "")
    body["spec"]["suspend"] = False
    body["spec"]["template"]["metadata"] = {"annotations": {"koord-queue.test/run-seconds": "600"}}
    name = world.api.request("POST", path, body)["metadata"]["name"]
    until(lambda: world.api.request("GET", f"{path}/{name}")["status"].get("active") == 1)
    wait_until_looked_at(world)
    label_pods(world, STRANGE, name, "adopted")
    label = {"metadata": {"labels": {QUOTA_LABEL: "gold"}}}
    write_before_the_policy(world, "PATCH", f"{path}/{name}", label)
    where = f"{UNITS.format(STRANGE)}/{name}"
    until(lambda: reason_of(world.api.request("GET", where)) == "QuotaNotInNamespace")
    until(lambda: quota_view(scheduler, "adopted").get("used") == {"cpu": "1"})
    assert quota_view(scheduler, "gold")["used"] == {}
    assert not world.api.request("GET", f"{path}/{name}")["spec"]["suspend"]
    annotate(world, STRANGE, "gold")
    until(lambda: quota_view(scheduler, "gold")["used"] == {"cpu": "1"})
    until(lambda: reason_of(world.api.request("GET", where)) == "QuotaReserved")
    delete_job(world, scheduler, f"{path}/{name}")


def wait_until_looked_at(world: QueueWorld) -> None:
    """Wait until the controllers have reconciled the jobs so far, which they do in order.

    One that is labeled before its first reconcile would be suspended, as a new job with a label.
    """
    path, body = job(OWN, "own")
    name = world.api.request("POST", path, body)["metadata"]["name"]
    where = f"{UNITS.format(OWN)}/{name}"
    until(lambda: world.api.request("GET", where).get("status", {}).get("phase"))
    world.api.request("DELETE", f"{path}/{name}", {"propagationPolicy": "Background"})


def make_before_the_policy(world: QueueWorld, what: tuple[str, Json]) -> str:
    return str(write_before_the_policy(world, "POST", *what)["metadata"]["name"])


def write_before_the_policy(world: QueueWorld, verb: str, path: str, body: Json) -> Json:
    """Write an object as if the policy did not exist yet."""
    bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    name = f"{bindings}/koord-queue-name-quotas-{HOME}"
    audit = {"spec": {"validationActions": ["Audit"]}}
    world.api.request("PATCH", name, audit, content_type=MERGE)
    until(lambda: refusal(world, pod(STRANGE, "gold")) == "")
    more = {"content_type": MERGE} if verb == "PATCH" else {}
    written = world.api.request(verb, path, body, **more)
    world.api.request("PATCH", name, {"spec": {"validationActions": ["Deny"]}}, content_type=MERGE)
    until(lambda: refusal(world, pod(STRANGE, "gold")))
    return written


def test_where_it_is_open_any_namespace_may_name_any_quota(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """The last test of this module: as the chart installs it without these values."""
    names = {one["metadata"]["name"] for one in render()}
    assert not names & {"koord-queue-name-quotas", "koord-queue-name-nodes"}
    world.plane.kubectl("delete", "validatingadmissionpolicy", "koord-queue-name-quotas")
    until(lambda: refusal(world, pod(STRANGE, "gold")) == "")
    scheduler.stop()
    common = ("--leader-elect=false", f"--queue-namespace={QUEUE_NAMESPACE}")
    world.start(SCHEDULER, *common, user="queue-account")
    path, body = job(STRANGE, "gold")
    name = world.plane.client_for(USER).request("POST", path, body)["metadata"]["name"]
    where = f"{UNITS.format(STRANGE)}/{name}"
    until(lambda: world.api.request("GET", where)["status"]["phase"] in {"Dequeued", "Running"})
