"""Pods of lost nodes are deleted in the very second at which their time is over."""

from __future__ import annotations

import pytest

from queue_controllers.configuration import Configuration
from queue_controllers.lost_pods.lost_pod_controller import LOOK_AGAIN_SECONDS
from shared_api.timestamps import read_time
from shared_api.well_known_labels import DELETE_LOST_PODS_AFTER
from tests.follower import Follower
from tests.queue_controllers.controllers_world import TICK_SECONDS, World
from tests.queue_controllers.lost_pods.lost_pods_kit import ALLOWED, ASKS, Nodes, tainted


@pytest.fixture
def world() -> World:
    return World()


def test_lost_pods(world: World) -> None:
    """The node is lost at a second; its pod is deleted 300 s later, though nothing else happens."""
    nodes = Nodes(world)
    since = nodes.lose("n0")
    world.settle(300.0 - 2 * TICK_SECONDS - seconds_since(world, since))
    assert nodes.pods() == ["main-0", "main-1"]
    world.settle(3 * TICK_SECONDS)
    assert nodes.pods() == ["main-1"]
    assert world.notes_on_jobs()["LostPodDeleted"] == (
        f"Pod main-0 is deleted without its node n0, which is unreachable since {since}: "
        "koord-queue/delete-lost-pods-after is 300s. It may still run there"
    )


def seconds_since(world: World, text: str) -> float:
    """Return how long ago a time was."""
    time = read_time(text)
    assert time is not None
    return (world.clock.now() - time).total_seconds()


def test_the_pods_of_a_deleted_node(world: World) -> None:
    nodes = Nodes(world)
    world.direct.delete("nodes", "n0")
    world.settle(299.0)
    assert nodes.pods() == ["main-0", "main-1"]
    world.settle(2.0)
    assert nodes.pods() == ["main-1"]
    assert "which is deleted since" in world.notes_on_jobs()["LostPodDeleted"]


def test_a_node_that_is_deleted_while_it_is_unreachable_is_lost_since_then(world: World) -> None:
    nodes = Nodes(world)
    nodes.lose("n0")
    world.settle(200.0)
    world.direct.delete("nodes", "n0")
    world.settle(101.0)
    assert nodes.pods() == ["main-1"]


def test_a_restart_begins_the_time_of_a_deleted_node_anew(world: World) -> None:
    nodes = Nodes(world)
    world.direct.delete("nodes", "n0")
    world.settle(200.0)
    world.start(configuration=ALLOWED)
    world.settle(298.0)
    assert nodes.pods() == ["main-0", "main-1"]
    world.settle(3.0)
    assert nodes.pods() == ["main-1"]


def test_a_restart_knows_since_when_a_node_is_unreachable(world: World) -> None:
    nodes = Nodes(world)
    nodes.lose("n0")
    world.settle(200.0)
    world.start(configuration=ALLOWED)
    world.settle(101.0)
    assert nodes.pods() == ["main-1"]


def test_a_node_that_comes_back_keeps_its_pods(world: World) -> None:
    nodes = Nodes(world)
    nodes.lose("n0")
    world.settle(290.0)
    nodes.find("n0")
    world.settle(600.0)
    assert nodes.pods() == ["main-0", "main-1"]
    nodes.lose("n0")
    world.settle(299.0)
    assert nodes.pods() == ["main-0", "main-1"], "its time begins anew"
    world.settle(2.0)
    assert nodes.pods() == ["main-1"]


def test_a_node_is_read_anew_before(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache does not know yet that it is back."""
    nodes = Nodes(world)
    nodes.lose("n0")
    world.settle(295.0)
    assert world.controllers is not None
    assert world.controllers.lost_pods is not None
    monkeypatch.setattr(world.controllers.lost_pods.nodes, "step", lambda: 1.0)
    nodes.find("n0")
    world.settle(60.0)
    assert nodes.pods() == ["main-0", "main-1"]


def test_a_ready_node_with_the_taint_keeps_its_pods(world: World) -> None:
    nodes = Nodes(world)
    world.direct.patch("nodes", "n0", {"spec": {"taints": [tainted(world.now())]}})
    world.settle(600.0)
    assert nodes.pods() == ["main-0", "main-1"]


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="not asked for"),
        pytest.param({DELETE_LOST_PODS_AFTER: "59s"}, id="too short"),
        pytest.param({DELETE_LOST_PODS_AFTER: "soon"}, id="no time"),
    ],
)
def test_other_pods_are_left_alone(world: World, annotations: dict[str, str]) -> None:
    nodes = Nodes(world, annotations=annotations)
    nodes.lose("n0")
    world.settle(900.0)
    assert nodes.pods() == ["main-0", "main-1"]
    assert ("IgnoredAnnotation" in world.events()) == bool(annotations)


def test_without_the_setting_nothing_is_watched_or_deleted(world: World) -> None:
    nodes = Nodes(world, configuration=Configuration())
    nodes.lose("n0")
    world.settle(900.0)
    assert nodes.pods() == ["main-0", "main-1"]
    assert "an administrator has to allow it" in world.notes_on_jobs()["IgnoredAnnotation"]
    asked = {plural for _, plural, _ in world.server.counts}
    assert "pods" in asked
    assert "nodes" not in asked


def test_a_job_may_be_annotated_late(world: World) -> None:
    nodes = Nodes(world, annotations={})
    nodes.lose("n0")
    world.settle(400.0)
    world.patch_job({"metadata": {"annotations": ASKS}})
    world.settle(LOOK_AGAIN_SECONDS + 1.0)
    assert nodes.pods() == ["main-1"]


def test_a_pod_that_is_being_deleted_is_deleted_at_once(world: World) -> None:
    nodes = Nodes(world)
    nodes.lose("n0")
    world.direct.patch("pods", "main-0", {"metadata": {"finalizers": ["a/b"]}}, namespace="team")
    world.direct.delete("pods", "main-0", "team")
    world.settle(302.0)
    pod = world.direct.get("pods", "main-0", "team")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
    world.settle(600.0)
    assert world.server.counts["delete", "pods", ""] == 1, "however long finalizers keep it"


def test_finished_pods_are_left_alone(world: World) -> None:
    nodes = Nodes(world)
    world.patch_pod_status("main-0", phase="Succeeded")
    nodes.lose("n0")
    world.settle(900.0)
    assert nodes.pods() == ["main-0", "main-1"]


def test_a_pod_that_comes_to_a_lost_node_has_no_time_of_its_own(world: World) -> None:
    nodes = Nodes(world)
    nodes.lose("n0")
    world.settle(301.0)
    nodes.pod("main-2", "n0")
    world.settle(1.0)
    assert nodes.pods() == ["main-1"]


def test_a_standby_deletes_nothing(world: World) -> None:
    nodes = Nodes(world)
    world.start(configuration=ALLOWED, leadership=Follower())
    nodes.lose("n0")
    world.settle(900.0)
    assert nodes.pods() == ["main-0", "main-1"]
