"""A ceiling for priorities on a queue, on a real API server, for units made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QueueWorld, queue_view, refusal_of, unit_view
from tests.object_states import condition_of
from tests.waiting import stays, until

MOST: Final = 2**31 - 1
CEILING: Final = "koord-queue/max-priority"


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    with QueueWorld(controlplane_binaries) as world:
        yield world


@pytest.fixture(scope="module")
def scheduler(world: QueueWorld) -> ProgramProcess:
    """Only the scheduler, which evicts victims at once."""
    return world.start_scheduler("--leader-elect=false")


def set_ceiling(world: QueueWorld, queue: str, ceiling: str | None) -> None:
    body = {"metadata": {"annotations": {CEILING: ceiling}}}
    world.patch_queue(queue, body)


def shown_items(world: QueueWorld, queue: str) -> list[tuple[str, int]]:
    status: Any = world.queue(queue).get("status", {})
    items = status.get("queueItemDetails", {}).get("active", [])
    return [(item["name"], item["priority"]) for item in items]


def test_no_unit_passes_the_ceiling_of_its_queue(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    preempts = {
        "koord-queue/enable-queueunit-preemption": "true",
        "koord-queue/queue-items-refresh-interval": "1s",
        CEILING: "10",
    }
    world.create_queue("team", "Priority", preempts)
    world.create_quota("team", cpu_max=1)
    world.create_unit("busy", "team", cpu=1, priority=10)
    until(lambda: world.phase("busy") == "Dequeued")
    world.create_unit("fair", "team", cpu=1, priority=10)
    until(lambda: refusal_of(scheduler, "fair"))
    world.create_unit("greedy", "team", cpu=1, priority=MOST)
    until(lambda: refusal_of(scheduler, "greedy"))
    shown = unit_view(scheduler, "greedy")
    assert (shown["priority"], shown["specPriority"], shown["position"]) == (10, MOST, 2)
    assert queue_view(scheduler, "team")["maxPriority"] == 10
    until(lambda: shown_items(world, "team") == [("fair", 10), ("greedy", 10)])
    stays(lambda: not condition_of(world.unit("busy"), "Evicted"))
    note = until(lambda: world.event_notes("greedy").get("IgnoredAnnotation"))
    assert note == f"priority {MOST} counts as 10, which is the {CEILING} of queue team"
    assert "IgnoredAnnotation" not in world.event_notes("fair")

    set_ceiling(world, "team", None)
    # It has no pods, so it is in the queue again before one can look.
    until(lambda: world.phase("greedy") == "Dequeued")
    until(lambda: "Preempted" in world.event_notes("busy"))
    assert unit_view(scheduler, "greedy")["specPriority"] is None


def test_an_invalid_ceiling_is_reported_and_still_limits(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """This scheduler has never read a valid one, as after a restart."""
    world.create_queue("odd", "Priority", {CEILING: "high"})
    note = until(lambda: world.event_notes("odd").get("UnreadableAnnotation"))
    assert f"annotation {CEILING}: 'high' is not a whole number" in str(note)
    world.create_quota("odd", cpu_max=0)
    world.create_unit("proud", "odd", cpu=1, priority=MOST)
    until(lambda: unit_view(scheduler, "proud").get("priority") == 0)


@pytest.mark.usefixtures("scheduler")
def test_a_unit_without_priority_shows_0(world: QueueWorld) -> None:
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "plain"},
        "spec": {"queue": "nobodys", "request": {"cpu": "1"}},
    }
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
    world.api.request("POST", path, body)
    assert world.unit("plain")["spec"]["priority"] == 0
    row = world.plane.kubectl("get", "queueunits", "plain", "--no-headers")
    assert row.split()[:3] == ["plain", "nobodys", "0"]
