"""Pods that are parked while the gate holds them: their own quota decides, and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queue_controllers.controllers_world import World
from tests.queue_controllers.pod_kit import GATE, KINDS, RING, gates, make_pod, pod, reasons, run
from tests.stepped_host import writes_to

QUOTA = "quota.scheduling.koordinator.sh/name"
IN, FROM = "koord-queue/parked-in", "koord-queue/parked-from"

Json = dict[str, Any]


@pytest.fixture
def world() -> World:
    """A cluster with controllers for these kinds."""
    world = World()
    world.start(KINDS)
    return world


def parked(own: str) -> Json:
    """Return the metadata of a pod as the policy writes it."""
    return {"labels": {QUOTA: "parked"}, "annotations": {IN: "parked", FROM: own}}


def quota_of(world: World, name: str = "solo") -> str | None:
    """Return a pod's quota label; it must not keep a note."""
    meta = pod(world, name)["metadata"]
    assert not {IN, FROM} & meta.get("annotations", {}).keys()
    label: str | None = meta.get("labels", {}).get(QUOTA)
    return label


def test_the_unit_is_of_its_own_quota_and_the_release_restores_that(world: World) -> None:
    make_pod(world, **parked("silver"))
    world.settle()
    unit = world.get_unit("solo-pod-qu")
    assert unit["metadata"]["labels"][QUOTA] == "silver"
    assert unit["spec"]["request"] == {"cpu": "1"}
    template = unit["spec"]["podSet"][0]["template"].get("metadata", {})
    assert "parked" not in str(template), "a reservation by it would be parked"
    world.admit_unit("solo-pod-qu")
    world.settle()
    assert quota_of(world) == "silver"
    assert gates(world) == ["example.com/other"]
    assert "koord-queue/stamped-quota" not in pod(world)["metadata"]["annotations"]


def test_the_release_is_one_patch(world: World) -> None:
    make_pod(world, **parked("silver"))
    world.settle()
    world.admit_unit("solo-pod-qu")
    world.settle()
    assert GATE not in gates(world)
    assert quota_of(world) == "silver"
    assert writes_to(world.server).count("patch pods") == 1


def test_one_without_a_quota_is_charged_to_its_units(world: World) -> None:
    make_pod(world, **parked(""))
    world.settle()
    assert world.get_unit("solo-pod-qu")["metadata"]["labels"].get(QUOTA) is None
    world.admit_unit("solo-pod-qu")
    world.settle()
    assert quota_of(world) != "parked"
    run(world, "solo")
    world.settle()
    assert world.phase("solo-pod-qu") == "Running"


def test_an_edit_of_the_note_moves_the_unit_as_one_of_the_label_does(world: World) -> None:
    make_pod(world, **parked("silver"))
    world.settle()
    world.direct.patch(
        "pods", "solo", {"metadata": {"annotations": {FROM: "gold"}}}, namespace="team"
    )
    world.settle()
    assert world.get_unit("solo-pod-qu")["metadata"]["labels"][QUOTA] == "gold"
    world.direct.patch(
        "pods", "solo", {"metadata": {"labels": {QUOTA: "silver"}}}, namespace="team"
    )
    world.settle()
    assert world.get_unit("solo-pod-qu")["metadata"]["labels"][QUOTA] == "silver"
    world.admit_unit("solo-pod-qu")
    world.settle()
    assert quota_of(world) == "silver"


def test_a_pod_opened_by_hand_gets_its_quota_back(world: World) -> None:
    make_pod(world, **parked("silver"))
    world.settle()
    world.direct.patch("pods", "solo", {"spec": {"schedulingGates": None}}, namespace="team")
    world.settle()
    assert quota_of(world) == "silver"
    assert world.get_unit("solo-pod-qu")["metadata"]["labels"][QUOTA] == "silver"
    assert "GateOpened" in reasons(world)
    written = world.server.resource_version
    world.settle(10.0)
    assert world.server.resource_version == written, "once"


def test_a_forged_note_on_a_released_pod_does_nothing(world: World) -> None:
    make_pod(world, labels={QUOTA: "silver"})
    world.settle()
    world.admit_unit("solo-pod-qu")
    world.settle()
    run(world, "solo")
    forged = {"metadata": {"annotations": {IN: "silver", FROM: "gold"}}}
    world.direct.patch("pods", "solo", forged, namespace="team")
    world.settle(3.0)
    assert pod(world)["metadata"]["labels"][QUOTA] == "silver"
    assert world.get_unit("solo-pod-qu")["metadata"]["labels"][QUOTA] == "silver"


def test_all_pods_of_a_group_get_their_quota_back(world: World) -> None:
    own = parked("silver")
    own["labels"]["kueue.x-k8s.io/pod-group-name"] = "ring"
    own["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "3"
    for name in RING:
        make_pod(world, name, labels=own["labels"], annotations=own["annotations"])
    world.settle()
    (unit,) = world.units()
    assert world.get_unit(unit)["metadata"]["labels"][QUOTA] == "silver"
    world.admit_unit(unit)
    world.settle(3.0)
    assert [quota_of(world, name) for name in RING] == ["silver"] * 3
