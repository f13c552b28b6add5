"""Pods as webhooks and policies change them, by dry run of the API server (`admissionPreview`).

The controllers have exactly the chart's rights, and the chart's policy guards the one that
they need for it. Mostly a policy plays the webhook: admission calls both in the same way.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from queue_controllers.watches.pod_preview import SETTLED_SECONDS
from tests.charts.render import as_manifest, render, rights
from tests.cluster.pod_webhook import CREATED_PODS, PodWebhook, pod_webhook
from tests.cluster.program_process import CONTROLLERS, SCHEDULER
from tests.cluster.queue_world import (
    JOBS,
    MERGE,
    PODS,
    QUEUE_NAMESPACE,
    QUOTA_LABEL,
    UNITS,
    QueueWorld,
)
from tests.controlplane.api_client import ApiError
from tests.controlplane.binaries import mutating_policy_version
from tests.waiting import STILL_SECONDS, stays, until

Json = dict[str, Any]

ACCOUNT: Final = "jobs-account"
VALUES: Final = {"controllers": {"config": {"admissionPreview": True}}}
POLICIES: Final = "/apis/admissionregistration.k8s.io/{}/{}admissionpolicies"
DIFFERENCES: Final = "koord-queue/template-differences"
LONG: Final = "600"

CONFINED: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
CONFINED_POD: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}

BATCH_CPU: Final = """
[JSONPatch{op: "replace", path: "/spec/containers/0/resources", value:
  Object.spec.containers.resources{
    limits: {"kubernetes.io/batch-cpu": "%s"}, requests: {"kubernetes.io/batch-cpu": "%s"}}}]
"""

GPU: Final = "koordinator.sh/gpu"
SPLIT_GPU: Final = f"""
[JSONPatch{{op: "replace", path: "/spec/containers/0/resources", value:
  Object.spec.containers.resources{{
    limits: {{"{GPU}-core": "100", "{GPU}-memory-ratio": "100"}},
    requests: {{"cpu": "2", "{GPU}-core": "100", "{GPU}-memory-ratio": "100"}}}}}}]
"""


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    users: dict[str, Sequence[str]] = {ACCOUNT: ()}
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as running:
        objects = [*rights("controllers", user=ACCOUNT, values=VALUES), *guard()]
        running.plane.kubectl("apply", "--filename", "-", input=as_manifest(objects))
        until(lambda: "dry run only" in refusal_of_create(running))
        running.start(SCHEDULER, f"--queue-namespace={QUEUE_NAMESPACE}")
        config = running.folder / "preview.yaml"
        config.write_text(json.dumps(VALUES["controllers"]["config"]))
        flags = (f"--queue-namespace={QUEUE_NAMESPACE}", f"--config={config}")
        running.start(CONTROLLERS, "--enabled-extensions=job", *flags, user=ACCOUNT)
        yield running


@pytest.fixture
def webhook(world: QueueWorld) -> Iterator[PodWebhook]:
    with pod_webhook(world.plane) as serving:
        yield serving


def guard() -> list[Json]:
    """The chart's policy, for the test's user instead of the service account."""
    found = [each for each in render(VALUES) if each["metadata"]["name"].endswith("-dry-run-only")]
    policy, binding = copy.deepcopy(found)
    own = policy["spec"]["matchConditions"][0]
    assert "system:serviceaccount:koord-queue:koord-queue-controllers" in own["expression"]
    own["expression"] = f"request.userInfo.username == '{ACCOUNT}'"
    return [policy, binding]


def refusal_of_create(world: QueueWorld, query: str = "") -> str:
    """Return the refusal of a pod that the account creates, "" for none."""
    body = {
        "metadata": {"generateName": "real-"},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    try:
        world.plane.client_for(ACCOUNT).request("POST", f"{PODS}{query}", body)
    except ApiError as error:
        return str(error)
    return ""


def pod_policy(world: QueueWorld, kind: str, name: str, team: str, **spec: Any) -> None:
    """Apply a policy to pods of a team."""
    version = mutating_policy_version() if kind == "Mutating" else "v1"
    body: Json = {
        "apiVersion": f"admissionregistration.k8s.io/{version}",
        "kind": f"{kind}AdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [CREATED_PODS],
                "objectSelector": {"matchLabels": {"team": team}},
            },
            **spec,
        },
    }
    bound: Json = {"policyName": name}
    binding = {**body, "kind": f"{kind}AdmissionPolicyBinding", "spec": bound}
    if kind == "Validating":
        bound |= {"validationActions": ["Deny"]}
    world.plane.kubectl("apply", "--filename", "-", input=as_manifest([body, binding]))


def mutating(world: QueueWorld, name: str, team: str, expression: str) -> None:
    patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    more = {"reinvocationPolicy": "Never", "mutations": [patch]}
    pod_policy(world, "Mutating", name, team, **more)


def template(team: str, cpu: str = "2", **more: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"labels": {"team": team}, "annotations": {"koord-queue.test/run-seconds": LONG}}
    spec = {"restartPolicy": "Never", "containers": [container], **more}
    return {"metadata": metadata, "spec": spec}


def request_of(world: QueueWorld, job: str) -> Json:
    found: Json = until(lambda: world.unit_of(job))["spec"].get("request", {})
    return found


def differences(world: QueueWorld, job: str) -> str:
    found: str = world.unit_of(job)["metadata"]["annotations"][DIFFERENCES]
    return found


def dry_run(world: QueueWorld, team: str) -> Json:
    """Return the pod that the API server would now create from this team's template."""
    body = {**template(team), "apiVersion": "v1", "kind": "Pod"}
    body["metadata"]["name"] = "asked"
    made: Json = world.api.request("POST", f"{PODS}?dryRun=All", body)
    return made


def requests_in(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0]["resources"].get("requests", {})
    return found


# --------------------------------------------------------------------------------- the right


def test_the_account_creates_pods_by_dry_run_alone(world: QueueWorld) -> None:
    assert "by dry run only" in refusal_of_create(world)
    assert refusal_of_create(world, "?dryRun=All") == ""


# ----------------------------------------------------------------------------------- predicted pods


def test_the_demand_is_that_of_the_mutated_pods(world: QueueWorld) -> None:
    mutating(world, "to-batch", "batch", BATCH_CPU % ("2000", "2000"))
    until(lambda: "kubernetes.io/batch-cpu" in requests_in(dry_run(world, "batch")))
    started = world.api.request("GET", PODS)["metadata"]["resourceVersion"]
    world.create_quota("batch", cpu_max=100)
    world.create_job("previewed", "batch", template=template("batch"))
    assert request_of(world, "previewed") == {"kubernetes.io/batch-cpu": "2k"}
    got = differences(world, "previewed")
    assert got.startswith("requests kubernetes.io/batch-cpu 2k, no cpu of container main")
    assert "dry run" in got
    names = {each["metadata"]["name"] for each in pods_since(world, started)}
    assert not any(name.startswith("koord-queue-preview") for name in names)


def pods_since(world: QueueWorld, version: str) -> list[Json]:
    """Return all pods that have existed since a resourceVersion."""
    path = f"{PODS}?watch=true&resourceVersion={version}&timeoutSeconds=1"
    kubeconfig = world.plane.kubectl("get", "--raw", path)
    return [json.loads(line)["object"] for line in kubeconfig.splitlines() if line]


def test_a_gpu_counts_as_the_resources_that_it_is_split_into(world: QueueWorld) -> None:
    """As Koordinator's webhook splits it."""
    mutating(world, "split", "split", SPLIT_GPU)
    until(lambda: f"{GPU}-core" in requests_in(dry_run(world, "split")))
    world.create_quota("split", cpu_max=10)
    whole = template("split")
    whole["spec"]["containers"][0]["resources"]["limits"] = {GPU: "100"}
    world.create_job("split", "split", template=whole)
    want = {"cpu": "2", f"{GPU}-core": "100", f"{GPU}-memory-ratio": "100"}
    assert request_of(world, "split") == want
    gained = f"requests {GPU}-core 100, {GPU}-memory-ratio 100, no {GPU} of container main"
    assert differences(world, "split").startswith(gained)


def test_a_sidecar_that_is_added_counts(world: QueueWorld) -> None:
    sidecar = """
    [JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{
      name: "mesh", image: "none", resources: Object.spec.containers.resources{
        requests: {"cpu": "500m"}}}}]
    """
    mutating(world, "mesh", "mesh", sidecar)
    until(lambda: len(dry_run(world, "mesh")["spec"]["containers"]) == len(("main", "mesh")))
    world.create_quota("mesh", cpu_max=3)
    for number in range(2):
        world.create_job(f"meshed-{number}", "mesh", template=template("mesh"))
    assert [request_of(world, f"meshed-{n}") for n in range(2)] == [{"cpu": "2500m"}] * 2
    until(lambda: world.running_pods("meshed-0") or world.running_pods("meshed-1"))
    stays(lambda: sum(len(world.living_pods(f"meshed-{n}")) for n in range(2)) == 1)
    assert differences(world, "meshed-0").startswith("container mesh with requests cpu 500m")


def test_a_job_is_charged_to_the_quota_that_admission_puts_on_its_pods(world: QueueWorld) -> None:
    label = f"""
    [JSONPatch{{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("{QUOTA_LABEL}"),
      value: "theirs"}}]
    """
    mutating(world, "moves", "moved", label)
    until(lambda: QUOTA_LABEL in dry_run(world, "moved")["metadata"]["labels"])
    world.create_quota("mine", cpu_max=10)
    world.create_quota("theirs", cpu_max=10)
    world.create_job("moved", "mine", template=template("moved"))
    unit = until(lambda: world.unit_of("moved"))
    assert unit["metadata"]["labels"][QUOTA_LABEL] == "theirs"
    assert unit["spec"]["queue"] == "theirs"
    pod = until(lambda: world.running_pods("moved"))[0]
    assert pod["metadata"]["labels"][QUOTA_LABEL] == "theirs"
    assert pod["metadata"]["annotations"]["koord-queue/stamped-quota"] == "mine"


# -------------------------------------------------------------------------------- webhooks


def test_the_demand_is_that_of_pods_changed_by_a_webhook(
    world: QueueWorld, webhook: PodWebhook
) -> None:
    webhook.configure("hooked", "3")
    until(lambda: requests_in(dry_run(world, "hooked")) == {"cpu": "3"})
    world.create_quota("hooked", cpu_max=2)
    world.create_job("hooked", "hooked", template=template("hooked"))
    assert request_of(world, "hooked") == {"cpu": "3"}
    assert differences(world, "hooked").startswith("requests cpu 3 of container main")
    assert all(review["dryRun"] for review in webhook.reviews)


@pytest.mark.parametrize(
    "timeout_seconds",
    [
        pytest.param(30, id="the API server waits for it"),
        pytest.param(1, id="the API server gives up"),
    ],
)
def test_without_an_answer_of_a_webhook_the_watched_objects_count(
    world: QueueWorld, webhook: PodWebhook, timeout_seconds: int
) -> None:
    name = f"silent-{timeout_seconds}"
    webhook.configure(name, "3", timeout_seconds)
    until(lambda: requests_in(dry_run(world, name)) == {"cpu": "3"})
    webhook.is_answering.clear()
    world.create_quota(name, cpu_max=1)
    world.create_job(name, name, template=template(name))
    assert request_of(world, name) == {"cpu": "2"}
    assert "has not said what it makes of these pods" in differences(world, name)
    webhook.is_answering.set()
    until(lambda: asks_for(world, name, {"cpu": "3"}))
    assert differences(world, name).startswith("requests cpu 3 of container main")


def test_a_webhook_whose_configuration_changes_changes_the_demand(
    world: QueueWorld, webhook: PodWebhook
) -> None:
    world.create_quota("turns", cpu_max=1)
    world.create_job("turns", "turns", template=template("turns"))
    assert request_of(world, "turns") == {"cpu": "2"}
    steps = (("turns", "3", "3"), ("turns", "4", "4"), ("others", "4", "2"), ("turns", "5", "5"))
    for team, cpu, want in steps:
        webhook.configure(team, cpu)
        until(partial(asks_for, world, "turns", {"cpu": want}))
    # Until then a preview that is repeated after the last change would find it deleted.
    time.sleep(SETTLED_SECONDS[-1] + STILL_SECONDS)
    webhook.remove()
    until(lambda: asks_for(world, "turns", {"cpu": "2"}))


# ------------------------------------------------------------------------------------- refused pods


def test_a_refusal_holds_the_job_with_its_message_until_it_is_gone(world: QueueWorld) -> None:
    rule = {"expression": "false", "message": "pods of team barred are barred"}
    pod_policy(world, "Validating", "barred", "barred", validations=[rule])
    until(lambda: is_barred(world))
    world.create_quota("barred", cpu_max=10)
    world.create_job("barred", "barred", template=template("barred"))
    until(lambda: world.quota_reserved("barred").get("reason") == "PodsRefused")
    said = world.quota_reserved("barred")["message"]
    assert "pods of team barred are barred" in said
    assert "koord-queue-preview" not in said
    stays(lambda: world.is_suspended("barred"))
    world.api.request("DELETE", f"{POLICIES.format('v1', 'validating')}/barred")
    until(lambda: world.running_pods("barred"))


def test_a_class_that_is_created_lets_a_job_start(world: QueueWorld) -> None:
    world.create_quota("classy", cpu_max=10)
    classy = template("classy", priorityClassName="late")
    world.create_job("classy", "classy", template=classy)
    until(lambda: world.quota_reserved("classy").get("reason") == "PodsRefused")
    assert "no PriorityClass with name late was found" in world.quota_reserved("classy")["message"]
    world.create_priority_class("late", 5)
    until(lambda: world.running_pods("classy"))


@pytest.mark.parametrize("confined", [True, False])
def test_the_preview_has_the_whole_template(world: QueueWorld, confined: bool) -> None:
    """Pod Security reads fields that the controllers' copies of jobs do not have."""
    namespace, name = f"restricted-{confined}".lower(), "whole"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"metadata": {"name": namespace, "labels": labels}}
    world.api.request("POST", "/api/v1/namespaces", body)
    world.create_quota(namespace, cpu_max=10)
    whole = template("whole", securityContext=CONFINED_POD if confined else {})
    if confined:
        whole["spec"]["containers"][0]["securityContext"] = CONFINED
    world.create_job(name, namespace, namespace=namespace, template=whole)
    path = f"{JOBS.format(namespace)}/{name}"
    if confined:
        until(lambda: not world.api.request("GET", path)["spec"]["suspend"])
        return
    units = UNITS.format(namespace)
    until(lambda: world.api.request("GET", units)["items"])
    (unit,) = world.api.request("GET", units)["items"]
    assert "violates PodSecurity" in unit["metadata"]["annotations"]["koord-queue/pods-refused"]


def is_barred(world: QueueWorld) -> bool:
    try:
        dry_run(world, "barred")
    except ApiError:
        return True
    return False


def test_a_resource_quota_that_is_full_refuses_nothing(world: QueueWorld) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    body: Json = {
        "metadata": {"name": "full"},
        "spec": {"hard": {"count/pods": "0", "pods": "0"}},
    }
    world.api.request("POST", path, body)
    # No controller counts the used resources.
    counted = {"status": {**body["spec"], "used": {"count/pods": "0", "pods": "0"}}}
    world.api.request("PATCH", f"{path}/full/status", counted, content_type=MERGE)
    until(lambda: "exceeded quota" in refusal_of_create(world, "?dryRun=All"))
    try:
        world.create_quota("crowded", cpu_max=10)
        world.create_job("crowded", "crowded", template=template("crowd"))
        assert request_of(world, "crowded") == {"cpu": "2"}
        assert "ResourceQuota has no room" in differences(world, "crowded")
        until(lambda: not world.is_suspended("crowded"))
    finally:
        world.api.request("DELETE", f"{path}/full")


# ------------------------------------------------------------------------------------------ changes


def test_a_changed_policy_changes_the_demand_of_pending_units(world: QueueWorld) -> None:
    world.create_quota("later", cpu_max=1)
    world.create_job("waits", "later", template=template("later"))
    assert request_of(world, "waits") == {"cpu": "2"}
    for cpu in ("3", "4"):
        path = "/spec/containers/0/resources/requests/cpu"
        change = f'[JSONPatch{{op: "replace", path: "{path}", value: "{cpu}"}}]'
        mutating(world, "later", "later", change)
        until(partial(asks_for, world, "waits", {"cpu": cpu}))
    policies = POLICIES.format(mutating_policy_version(), "mutating")
    world.api.request("DELETE", f"{policies}/later")
    until(partial(asks_for, world, "waits", {"cpu": "2"}))


def asks_for(world: QueueWorld, job: str, want: Json) -> bool:
    return request_of(world, job) == want
