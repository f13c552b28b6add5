"""The gate as a label for Alibaba's scheduler: one write changes both, where it is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queue_controllers.configuration import Configuration, GeneralOptions
from tests.queue_controllers.pod_kit import KINDS, gates, make_pod, pod
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

LABEL = "alibabacloud.com/schedule-admission"
ON = Configuration(general=GeneralOptions(schedule_admission_label=True))
GATE = "koord-queue/admission"


def release(world: World, configuration: Configuration, **labels: str) -> dict[str, Any]:
    """Queue and release a pod; return its labels then."""
    world.start(KINDS, configuration=configuration)
    make_pod(world, labels=labels)
    world.settle()
    assert pod(world)["metadata"]["labels"].get(LABEL) == labels.get(LABEL)
    world.admit_unit("solo-pod-qu")
    world.settle()
    assert GATE not in gates(world)
    found: dict[str, Any] = pod(world)["metadata"]["labels"]
    return found


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({LABEL: "false"}, id="the policy has labeled it"),
        pytest.param({}, id="nobody has"),
    ],
)
def test_the_write_that_opens_the_gate_sets_the_label(world: World, labels: dict[str, str]) -> None:
    assert release(world, ON, **labels)[LABEL] == "true"
    world.settle(10.0)
    assert writes_to(world.server) == ["create queueunits", "patch pods"]


@pytest.mark.parametrize("labels", [{LABEL: "false"}, {}])
def test_it_is_left_alone_unless_enabled(world: World, labels: dict[str, str]) -> None:
    assert release(world, Configuration(), **labels).get(LABEL) == labels.get(LABEL)


def test_a_unit_does_not_have_it(world: World) -> None:
    release(world, ON, **{LABEL: "false"})
    unit = world.get_unit("solo-pod-qu")
    assert LABEL not in unit["metadata"]["labels"]
    assert LABEL not in unit["spec"]["podSet"][0]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("value", ["true", "false", "perhaps"])
def test_no_decision_depends_on_it(world: World, value: str) -> None:
    world.start(KINDS, configuration=ON)
    make_pod(world, "held", labels={LABEL: value})
    make_pod(world, "loose", gated=False, labels={LABEL: value})
    world.settle(3.0)
    assert world.units() == ["held-pod-qu"]
    assert GATE in gates(world, "held")
    assert writes_to(world.server) == ["create queueunits"]


def make_member(world: World, name: str) -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "ring", LABEL: "false"}
    make_pod(world, name, labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})


def test_pods_of_a_group_have_it_when_they_are_released(world: World) -> None:
    world.start(KINDS, configuration=ON)
    make_member(world, "ring-0")
    make_member(world, "ring-1")
    world.settle()
    world.admit_unit("ring-pg-qu")
    world.settle()
    make_member(world, "ring-2")
    world.settle()
    names = ("ring-0", "ring-1", "ring-2")
    said = {name: pod(world, name)["metadata"]["labels"][LABEL] for name in names}
    assert said == {"ring-0": "true", "ring-1": "true", "ring-2": "false"}
    assert GATE in gates(world, "ring-2"), "one more than was granted"
