"""The check for nodes on a real API server, with the real CRDs and under the chart's own roles.

The test plays scheduler and autoscaler: it reserves units, and answers requests by conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.charts.render import as_manifest, rights
from tests.cluster.program_process import ROOT, ProgramProcess
from tests.cluster.queue_world import (
    MERGE,
    OWN_TIMES_SECONDS,
    UNITS,
    QueueWorld,
    condition,
    until,
)

pytestmark = pytest.mark.cluster

Json = dict[str, Any]

MODULE: Final = "queue_scheduler.admission_check_controller"
ACCOUNT: Final = "checks-account"
CRDS: Final = ("admissionchecks", "provisioningrequestconfigs", "provisioningrequests")
KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
CHECK: Final = f"{KUEUE}/admissionchecks"
CONFIGS: Final = f"{KUEUE}/provisioningrequestconfigs"
REQUESTS: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES: Final = "/api/v1/namespaces/default/podtemplates"
CLASS: Final = "check-capacity.autoscaling.x-k8s.io"
NOW: Final = "2026-11-01T10:00:00Z"
GPU: Final = {"nvidia.com/gpu": "1"}


class Cluster(NamedTuple):
    """A world, and the third program in it."""

    world: QueueWorld
    program: ProgramProcess


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """The third program alone, as the chart installs it, a check with its config, and no more."""
    with QueueWorld(controlplane_binaries, jobs=True, users={ACCOUNT: ()}) as world:
        for kind in CRDS:
            world.plane.apply(ROOT / "tests" / "data" / "crds" / f"{kind}.yaml")
        world.plane.await_kinds("admissionchecks", "provisioningrequestconfigs", "provreqs")
        chart = {"admissionCheckController": {"enabled": True}}
        roles = [
            each
            for each in rights("scheduler", user=ACCOUNT, values=chart)
            if each["metadata"]["name"] == "koord-queue-admission-checks"
        ]
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(roles))
        spec = {"provisioningClassName": CLASS, "managedResources": ["nvidia.com/gpu"]}
        make(world, CONFIGS, "c", {**spec, "parameters": {"ValidUntilSeconds": "600"}})
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "c"}
        controller = "koord-queue.sh/provisioning-request"
        make(world, CHECK, "nodes", {"controllerName": controller, "parameters": reference})
        program = world.start(MODULE, "--metrics-secure=true", user=ACCOUNT)
        yield Cluster(world, program)


@pytest.fixture
def world(cluster: Cluster) -> Iterator[QueueWorld]:
    """The cluster; afterwards the program has not been refused anything."""
    yield cluster.world
    assert "403 Forbidden" not in cluster.program.log()


def make(world: QueueWorld, path: str, name: str, spec: Json) -> Json:
    body: Json = {"metadata": {"name": name}, "spec": spec}
    if path == CONFIGS:
        body |= {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig"}
    elif path == CHECK:
        body |= {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck"}
    made: Json = world.api.request("POST", path, body)
    return made


def reserve(world: QueueWorld, name: str, requests: Json, image: str = "registry/image") -> None:
    """Make a unit of two pods and reserve its quota, its check open."""
    resources = {"requests": requests, "limits": requests}
    container: Json = {
        "name": "main",
        "resources": resources,
        **({"image": image} if image else {}),
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_set = {"name": "main", "count": 2, "template": template}
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": name},
        "spec": {"podSet": [pod_set]},
    }
    world.api.request("POST", UNITS.format("default"), body)
    state = {"name": "nodes", "state": "Pending", "message": "", "lastTransitionTime": NOW}
    patch_status(
        world, f"{UNITS.format('default')}/{name}", phase="Reserved", admissionChecks=[state]
    )


def patch_status(world: QueueWorld, path: str, **status: Any) -> None:
    world.api.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)


def state_of(world: QueueWorld, unit: str) -> Json:
    (state,) = world.unit(unit)["status"]["admissionChecks"]
    found: Json = state
    return found


def requests_for(world: QueueWorld, unit: str) -> list[Json]:
    """Return the requests that a unit owns."""
    uid = world.unit(unit)["metadata"]["uid"]
    listed = world.api.request("GET", REQUESTS)["items"]
    return [each for each in listed if each["metadata"]["ownerReferences"][0]["uid"] == uid]


def templates(world: QueueWorld, unit: str) -> list[Json]:
    listed = world.api.request("GET", TEMPLATES)["items"]
    return [each for each in listed if each["metadata"]["name"].startswith(f"{unit}-")]


def say(world: QueueWorld, request: Json, *condition_types: str) -> None:
    """Answer a request, as the autoscaler does."""
    said = [
        {"type": each, "status": "True", "reason": each, "message": "", "lastTransitionTime": NOW}
        for each in condition_types
    ]
    patch_status(world, f"{REQUESTS}/{request['metadata']['name']}", conditions=said)


def is_ready(world: QueueWorld, unit: str) -> bool:
    return bool(state_of(world, unit)["state"] == "Ready")


def test_a_unit_gets_its_nodes_and_leaves_nothing_behind(world: QueueWorld) -> None:
    reserve(world, "gets", GPU)
    (request,) = until(lambda: requests_for(world, "gets"))
    assert request["spec"]["provisioningClassName"] == CLASS
    assert request["spec"]["parameters"] == {"ValidUntilSeconds": "600"}
    (asked,) = request["spec"]["podSets"]
    template = world.api.request("GET", f"{TEMPLATES}/{asked['podTemplateRef']['name']}")
    assert asked["count"] == 2
    container = template["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == GPU
    say(world, request, "Accepted", "Provisioned")
    until(lambda: is_ready(world, "gets"))
    (update,) = state_of(world, "gets")["podSetUpdates"]
    assert update["name"] == "main"
    assert update["annotations"] == {
        "autoscaling.x-k8s.io/consume-provisioning-request": request["metadata"]["name"],
        "autoscaling.x-k8s.io/provisioning-class-name": CLASS,
    }
    patch_status(world, f"{UNITS.format('default')}/gets", phase="Succeed")
    until(lambda: not requests_for(world, "gets"), OWN_TIMES_SECONDS)
    until(lambda: not templates(world, "gets"), OWN_TIMES_SECONDS)


def test_a_failure_puts_the_unit_back(world: QueueWorld) -> None:
    reserve(world, "fails", GPU)
    (request,) = until(lambda: requests_for(world, "fails"))
    say(world, request, "Accepted", "Failed")
    until(lambda: state_of(world, "fails")["state"] == "Retry")
    assert state_of(world, "fails")["requeueAfterSeconds"] == 60
    assert state_of(world, "fails")["retryCount"] == 1


def test_who_asks_for_nothing_that_is_managed_is_ready(world: QueueWorld) -> None:
    reserve(world, "small", {"cpu": "1"})
    until(lambda: is_ready(world, "small"))
    assert not requests_for(world, "small")


def test_a_template_that_the_server_refuses_is_told(world: QueueWorld) -> None:
    reserve(world, "imageless", GPU, image="")
    until(lambda: state_of(world, "imageless")["state"] == "Retry")
    assert "image: Required value" in state_of(world, "imageless")["message"]


def test_the_check_says_whether_it_can_be_carried_out(world: QueueWorld) -> None:
    check = f"{CHECK}/nodes"
    until(lambda: condition(world.api.request("GET", check), "Active").get("status") == "True")
    config = world.api.request("GET", f"{CONFIGS}/c")
    world.api.request("DELETE", f"{CONFIGS}/c", {})
    until(
        lambda: (
            condition(world.api.request("GET", check), "Active").get("reason") == "ConfigMissing"
        )
    )
    make(world, CONFIGS, "c", config["spec"])
    until(lambda: condition(world.api.request("GET", check), "Active").get("status") == "True")


def test_an_older_kueue_serves_its_version_to_us_as_well(world: QueueWorld) -> None:
    """Take v1beta2 away: the check is followed, and written, as v1beta1."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/admissionchecks.kueue.x-k8s.io"
    versions = world.api.request("GET", path)["spec"]["versions"]
    served = [{**each, "served": each["name"] == "v1beta1"} for each in versions]
    world.api.request("PATCH", path, {"spec": {"versions": served}}, content_type=MERGE)
    older = CHECK.replace("v1beta2", "v1beta1")
    reserve(world, "older", {"cpu": "1"})
    until(lambda: is_ready(world, "older"))
    until(lambda: condition(world.api.request("GET", f"{older}/nodes"), "Active").get("status"))
