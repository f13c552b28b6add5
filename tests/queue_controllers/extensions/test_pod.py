"""Facts about pods that are jobs by themselves."""

from __future__ import annotations

import random

import pytest

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.pod import PodAdapter
from queue_controllers.jobframework.generic_job import Outcome, PrioritySource
from queue_controllers.jobframework.pod_template import ScheduledPod
from tests.queue_controllers.extensions.generated_pods import cpu_of_pod, random_pod_spec
from tests.queue_controllers.pod_kit import build_pod

POD = PodAdapter()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (None, "p"),
        (("apps/v1", "ReplicaSet", "web-1"), "p"),
        (("example.com/v1", "Widget", "w"), "p"),
        (("apps/v1", "StatefulSet", "db"), ""),
        (("batch/v1", "Job", "j"), ""),
        (("apps/v1", "DaemonSet", "d"), "p"),
    ],
)
def test_whose_pods(owner: tuple[str, str, str] | None, name: str) -> None:
    assert POD.group_of(build_pod("p", owner=owner)) == name


@pytest.mark.parametrize(
    "labels",
    [
        {"kueue.x-k8s.io/pod-group-name": "g"},
        {"leaderworkerset.sigs.k8s.io/name": "l"},
    ],
)
def test_a_part_of_another_object_is_not_a_job(labels: dict[str, str]) -> None:
    assert POD.group_of(build_pod("p", labels=labels)) == ""


def test_a_queue_name_does_not_take_a_pod_from_an_unknown_controller() -> None:
    owner = ("example.com/v1", "Widget", "w")
    assert POD.group_of(build_pod("p", gated=False, owner=owner)) == ""


@pytest.mark.parametrize(
    ("gated", "annotations", "name"),
    [
        (True, {}, "p"),
        (False, {"koord-queue/released-at": "t", "koord-queue/related-queueunit": "u"}, "p"),
        (True, {"koord-queue/related-queueunit": "team/whole"}, ""),
        (False, {}, ""),
    ],
)
def test_steps_of_a_workflow(gated: bool, annotations: dict[str, str], name: str) -> None:
    owner = ("argoproj.io/v1alpha1", "Workflow", "w")
    pod = build_pod("p", gated=gated, owner=owner, annotations=annotations)
    assert POD.group_of(pod) == name


@pytest.mark.parametrize(
    ("phase", "outcome", "count"),
    [
        ("Pending", None, 1),
        ("Running", None, 1),
        ("Succeeded", Outcome(succeeded=True), 0),
        ("Failed", Outcome(succeeded=False), 0),
    ],
)
def test_how_it_ends(phase: str, outcome: Outcome | None, count: int) -> None:
    job = POD.gather("p", [build_pod("p", gated=False, phase=phase)])
    status = POD.status_of(job)
    assert status.outcome == outcome
    assert status.running is (phase == "Running")
    assert [(each.name, each.count) for each in POD.pod_sets(job)] == [("main", count)]


def test_metadata_is_the_pods() -> None:
    pod = build_pod("p", deleted=True)
    meta = POD.gather("p", [pod]).metadata
    assert (meta.uid, meta.deletion_timestamp) == ("uid-p", "2026-01-01T01:00:00Z")


def test_priority() -> None:
    pod: ScheduledPod = build_pod("p", priorityClassName="high", priority=7)
    assert POD.priority_of(POD.gather("p", [pod])) == PrioritySource("high", 7)


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_any_pod(seed: int) -> None:
    spec = random_pod_spec(random.Random(seed))
    group = POD.gather("p", [build_pod("p", **spec)])
    assert demand_of(POD.pod_sets(group)) == {"cpu": cpu_of_pod(spec)}
