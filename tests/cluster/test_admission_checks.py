"""The check for nodes on a real API server, with the real CRDs and under the chart's own roles.

The test plays scheduler and autoscaler: it reserves units, and answers requests by conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.charts.render import as_manifest, rights
from tests.cluster.kueue_objects import (
    CHECK_CONTROLLER,
    CONFIG,
    activity,
    create,
    create_check_for_nodes,
    install_check_kinds,
    path_of,
    take_newer_version_away,
)
from tests.cluster.played_autoscaler import CHECK_CAPACITY, TEMPLATES, PlayedAutoscaler
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import MERGE, OWN_TIMES_SECONDS, UNITS, QueueWorld
from tests.waiting import until

Json = dict[str, Any]

ACCOUNT: Final = "checks-account"
NODES: Final = "nodes"
"""The check, and its config."""
CONFIG_SPEC: Final = {
    "provisioningClassName": CHECK_CAPACITY,
    "managedResources": ["nvidia.com/gpu"],
    "parameters": {"ValidUntilSeconds": "600"},
}
NOW: Final = "2026-11-01T10:00:00Z"
GPU: Final = {"nvidia.com/gpu": "1"}


class CheckCluster(NamedTuple):
    """A world, the third program in it, and the autoscaler."""

    world: QueueWorld
    program: ProgramProcess
    autoscaler: PlayedAutoscaler

    def requests_for(self, unit: str) -> list[Json]:
        """Return the requests that a unit owns."""
        return self.autoscaler.requests_of(self.world.unit(unit))


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[CheckCluster]:
    """The third program alone, as the chart installs it, and a check with its config."""
    with QueueWorld(controlplane_binaries, jobs=True, users={ACCOUNT: ()}) as world:
        install_check_kinds(world)
        chart = {"admissionCheckController": {"enabled": True}}
        roles = [
            each
            for each in rights("scheduler", user=ACCOUNT, values=chart)
            if each["metadata"]["name"] == "koord-queue-admission-checks"
        ]
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(roles))
        create_check_for_nodes(world, NODES, CONFIG_SPEC)
        program = world.start(CHECK_CONTROLLER, "--metrics-secure=true", user=ACCOUNT)
        yield CheckCluster(world, program, PlayedAutoscaler(world.api))


@pytest.fixture
def world(cluster: CheckCluster) -> Iterator[QueueWorld]:
    """The cluster; afterwards, that the program has not been refused anything."""
    yield cluster.world
    assert "403 Forbidden" not in cluster.program.log()


def reserve(world: QueueWorld, name: str, requests: Json, image: str = "registry/image") -> None:
    """Create a unit of two pods and reserve its quota; its check is pending."""
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
    world.patch_unit(name, {"status": {"phase": "Reserved", "admissionChecks": [state]}})


def patch_status(world: QueueWorld, path: str, **status: Any) -> None:
    world.api.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)


def state_of(world: QueueWorld, unit: str) -> Json:
    (state,) = world.unit(unit)["status"]["admissionChecks"]
    found: Json = state
    return found


def templates(world: QueueWorld, unit: str) -> list[Json]:
    """Return the pod templates that were created for a unit."""
    listed = world.api.request("GET", TEMPLATES)["items"]
    return [each for each in listed if each["metadata"]["name"].startswith(f"{unit}-")]


def is_ready(world: QueueWorld, unit: str) -> bool:
    return bool(state_of(world, unit)["state"] == "Ready")


def test_a_unit_gets_its_nodes_and_leaves_nothing_behind(
    cluster: CheckCluster, world: QueueWorld
) -> None:
    reserve(world, "gets", GPU)
    (request,) = until(lambda: cluster.requests_for("gets"))
    assert request["spec"]["provisioningClassName"] == CHECK_CAPACITY
    assert request["spec"]["parameters"] == CONFIG_SPEC["parameters"]
    (asked,) = request["spec"]["podSets"]
    assert asked["count"] == 2
    (template,) = cluster.autoscaler.templates_of(request)
    container = template["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == GPU
    cluster.autoscaler.take_up(request)
    cluster.autoscaler.provision(request)
    until(lambda: is_ready(world, "gets"))
    (update,) = state_of(world, "gets")["podSetUpdates"]
    assert update["name"] == "main"
    assert update["annotations"] == {
        "autoscaling.x-k8s.io/consume-provisioning-request": request["metadata"]["name"],
        "autoscaling.x-k8s.io/provisioning-class-name": CHECK_CAPACITY,
    }
    world.patch_unit("gets", {"status": {"phase": "Succeed"}})
    until(lambda: not cluster.requests_for("gets"), OWN_TIMES_SECONDS)
    until(lambda: not templates(world, "gets"), OWN_TIMES_SECONDS)


def test_a_failure_puts_the_unit_back(cluster: CheckCluster, world: QueueWorld) -> None:
    reserve(world, "fails", GPU)
    (request,) = until(lambda: cluster.requests_for("fails"))
    cluster.autoscaler.take_up(request)
    cluster.autoscaler.give_up(request)
    until(lambda: state_of(world, "fails")["state"] == "Retry")
    assert state_of(world, "fails")["requeueAfterSeconds"] == 60
    assert state_of(world, "fails")["retryCount"] == 1


def test_a_unit_without_managed_resources_is_ready(
    cluster: CheckCluster, world: QueueWorld
) -> None:
    reserve(world, "small", {"cpu": "1"})
    until(lambda: is_ready(world, "small"))
    assert not cluster.requests_for("small")


def test_a_template_that_the_server_refuses_is_reported(world: QueueWorld) -> None:
    reserve(world, "imageless", GPU, image="")
    until(lambda: state_of(world, "imageless")["state"] == "Retry")
    assert "image: Required value" in state_of(world, "imageless")["message"]


def test_the_check_reports_whether_it_is_active(world: QueueWorld) -> None:
    until(lambda: activity(world, NODES)["status"] == "True")
    world.api.request("DELETE", path_of(CONFIG, NODES), {})
    until(lambda: activity(world, NODES)["reason"] == "ConfigMissing")
    create(world, CONFIG, NODES, CONFIG_SPEC)
    until(lambda: activity(world, NODES)["status"] == "True")


def test_a_check_is_served_in_the_version_of_an_older_kueue(world: QueueWorld) -> None:
    """Without v1beta2 the check is watched and written as v1beta1."""
    take_newer_version_away(world)
    reserve(world, "older", {"cpu": "1"})
    until(lambda: is_ready(world, "older"))
    assert activity(world, NODES, "v1beta1")["status"] == "True"
