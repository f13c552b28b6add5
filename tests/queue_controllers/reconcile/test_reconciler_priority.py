"""Priorities and places that change while a unit lives, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queue_controllers.configuration import read_configuration
from shared_api.testing.object_builders import pod_spec

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

PRIORITY = "scheduling.x-k8s.io/priority"
QUEUE = "koord-queue/queue-name"
QUOTA = "quota.scheduling.koordinator.sh/name"
PHASES = ["Enqueued", "Reserved", "Dequeued", "Running", "TimeoutBackoff"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_priority_class_counts_as_it_changes(world: World, phase: str) -> None:
    world.priority_class("high", 7)
    live(world, phase, template=with_class("high"))
    unit = world.get_unit()
    assert (unit["spec"]["priorityClassName"], unit["spec"]["priority"]) == ("high", 7)
    for value in (1000, -5):
        world.priority_class("high", value)
        world.settle()
        assert world.get_unit()["spec"]["priority"] == value
    world.direct.delete("priorityclasses", "high")
    world.settle()
    occupies_quota = phase in {"Reserved", "Dequeued", "Running"}
    left = world.get_unit()["spec"]["priority"]
    assert left == (-5 if occupies_quota else 0), "a class that is being changed evicts no unit"
    assert world.phase() == phase


@pytest.mark.parametrize("phase", PHASES)
def test_the_priority_that_is_annotated_counts_as_it_is_edited(world: World, phase: str) -> None:
    world.priority_class("high", 1000)
    live(world, phase, template=with_class("high"))
    for said, want in (("7", 7), ("-3", -3), ("no number", 1000), (None, 1000)):
        world.patch_job({"metadata": {"annotations": {PRIORITY: said}}})
        world.settle()
        spec = world.get_unit()["spec"]
        assert (spec["priority"], spec["priorityClassName"]) == (want, "high"), said
    assert world.phase() == phase


@pytest.mark.parametrize("phase", PHASES)
def test_a_namespace_bounds_the_priorities_of_its_jobs(world: World, phase: str) -> None:
    world.priority_class("high", 7)
    live(world, phase, template=with_class("high"))
    world.patch_job({"metadata": {"annotations": {PRIORITY: "2147483647"}}})
    world.settle()
    for said, want in (("100", 100), ("-3", -3), ("no number", 0), (None, 2**31 - 1)):
        bounded = {"metadata": {"annotations": {"koord-queue/max-priority": said}}}
        world.direct.patch("namespaces", "team", bounded)
        world.settle()
        assert world.get_unit()["spec"]["priority"] == want, said
    assert "IgnoredAnnotation" in world.events()
    assert world.phase() == phase


def test_only_classes_count_where_that_is_set(world: World) -> None:
    world.start(configuration=read_configuration({"priorityFrom": "class"}, {"job"}))
    world.job(annotations={PRIORITY: "2147483647"})
    world.settle()
    assert world.get_unit()["spec"]["priority"] == 0
    assert "only PriorityClasses count" in world.notes_on_jobs()["IgnoredAnnotation"]


def test_the_default_class_counts_for_jobs_that_name_none(world: World) -> None:
    live(world, "Enqueued")
    world.priority_class("ordinary", 5, globalDefault=True)
    world.settle()
    assert world.get_unit()["spec"]["priority"] == 5
    world.direct.delete("priorityclasses", "ordinary")
    world.settle()
    assert world.get_unit()["spec"]["priority"] == 0


def test_edits_of_the_unit_are_corrected(world: World) -> None:
    live(world, "Enqueued")
    world.patch_job({"metadata": {"annotations": {PRIORITY: "7"}}})
    world.settle()
    world.direct.patch("queueunits", "main", {"spec": {"priority": 9000}}, namespace="team")
    world.settle()
    assert world.get_unit()["spec"]["priority"] == 7


@pytest.mark.parametrize("phase", ["Enqueued", "TimeoutBackoff"])
def test_a_pending_unit_moves_with_its_labels(world: World, phase: str) -> None:
    live(world, phase)
    world.patch_job({"metadata": {"labels": {QUEUE: "fast"}}})
    world.settle()
    assert place_of(world) == ("fast", "gold")
    world.patch_job({"metadata": {"labels": {QUEUE: None, QUOTA: "silver"}}})
    world.settle()
    assert place_of(world) == ("silver", "silver")
    world.patch_job({"metadata": {"annotations": {QUEUE: "slow"}}})
    world.settle()
    assert place_of(world) == ("slow", "silver")
    assert world.phase() == phase


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
def test_a_unit_whose_job_is_released_stays_where_it_is_charged(world: World, phase: str) -> None:
    live(world, phase)
    world.patch_job({"metadata": {"labels": {QUEUE: "fast", QUOTA: "silver"}}})
    world.settle()
    assert place_of(world) == ("gold", "gold")


def live(world: World, phase: str, **changes: Any) -> None:
    """Bring a job's unit to a phase."""
    options = {"job": {"runningTimeout": "30s", "backoffTimeout": "10m"}}
    world.start(configuration=read_configuration(options, {"job"}))
    world.job(**changes)
    world.settle()
    if phase == "Reserved":
        world.admit()
        world.patch_unit_status({"phase": phase})
    elif phase != "Enqueued":
        world.admit()
        world.settle()
        world.run_pods(phase="Running" if phase == "Running" else "Pending")
        world.settle()
    if phase == "TimeoutBackoff":
        world.settle(31.0)
        world.end_pods()
        world.settle()
    assert world.phase() == phase


def with_class(name: str) -> dict[str, Any]:
    return {"spec": pod_spec(restartPolicy="Never", priorityClassName=name)}


def place_of(world: World) -> tuple[str, str]:
    """Return queue and quota."""
    unit = world.get_unit()
    return unit["spec"]["queue"], unit["metadata"]["labels"][QUOTA]
