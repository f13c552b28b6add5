"""The order of units on a real API server: policies Intelligent, Block, Priority, turns of queues.

Ids in brackets stand for tests of upstream's (upstream/README.md). Those of [I...] read positions
from the queue's status while its quota is 0, with units made by hand; those of [E...] are
upstream's shell scripts with real Jobs, on ElasticQuotas (with a tree: test_quota_plugins.py).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from tests.cluster.queue_world import (
    MERGE,
    Cluster,
    Json,
    QueueWorld,
    let_the_second_of_the_release_pass,
    queue_view,
    refusal_of,
)
from tests.object_states import condition_of
from tests.waiting import STILL_SECONDS, until

PRIORITY = "scheduling.x-k8s.io/priority"
POLICY = "koord-queue/queue-policy"
PARENT = "quota.scheduling.koordinator.sh/parent"
EVERY_SECOND = {"koord-queue/queue-items-refresh-interval": "1s"}
LONG = 600


def positions_of(world: QueueWorld, queue: str, names: list[str]) -> list[int]:
    """Return the units' positions in the queue's status, 0 for one that is not listed."""
    queues = world.queues()
    status = [each.get("status", {}) for each in queues if each["metadata"]["name"] == queue]
    # None, until the scheduler has created the queue.
    items = [one for each in status for one in each.get("queueItemDetails", {}).get("active", [])]
    places = {item["name"]: item["position"] for item in items}
    return [places.get(name, 0) for name in names]


@pytest.mark.parametrize(
    ("case", "priorities", "want"),
    [
        pytest.param("i1", (5, 4, 6), [2, 3, 1], id="I1"),
        pytest.param("i2", (1, 3, 2), [3, 1, 2], id="I2"),
        pytest.param("i3", (3, 5, 1, 4), [3, 1, 4, 2], id="I3"),
        pytest.param("i4", (5, 4, 3), [1, 2, 3], id="I4"),
        # Upstream's docs have 1, 2, 3, 6, 4, 5, the high ones by arrival; its code sorts them.
        pytest.param("i5", (5, 4, 5, 1, 3, 2), [1, 3, 2, 6, 4, 5], id="I5"),
    ],
)
def test_positions_under_policy_intelligent(
    world: QueueWorld, case: str, priorities: tuple[int, ...], want: list[int]
) -> None:
    """[I1 to I5] High ones first; when the quota has room the list empties."""
    world.create_quota(
        case, cpu_max=0, labels={POLICY: "Intelligent"}, annotations=dict(EVERY_SECOND)
    )
    names = [f"{case}-{number}" for number in range(1, len(priorities) + 1)]
    for name, priority in zip(names, priorities, strict=True):
        world.create_unit(name, case, cpu=1, priority=priority)
    until(lambda: positions_of(world, case, names) == want)
    world.resize_quota(case, 9)
    until(lambda: positions_of(world, case, names) == [0] * len(names))
    for name in names:
        world.finish_unit(name)


def job(world: QueueWorld, name: str, quota: str, priority: int, **more: Any) -> None:
    """Create a suspended Job that runs until the test is over."""
    written = {PRIORITY: str(priority)}
    world.create_job(name, quota, annotations=written, run_seconds=LONG, **more)


def test_block_holds_back_a_job_behind_one_that_never_fits(
    cluster: Cluster, world: QueueWorld
) -> None:
    """[E1] pi-1 requests twice its quota; pi-2, behind it, stays suspended."""
    world.create_quota("e1-jobs", cpu_max=1, labels={POLICY: "Block"})
    job(world, "e1-pi-1", "e1-jobs", 3, parallelism=2, completions=2)
    until(lambda: refusal_of(cluster.scheduler, "e1-pi-1"))
    job(world, "e1-pi-2", "e1-jobs", 0)
    until(lambda: refusal_of(cluster.scheduler, "e1-pi-2").get("reason") == "BehindRefusedUnit")
    time.sleep(STILL_SECONDS)
    assert world.is_suspended("e1-pi-2")


def test_priority_lets_a_smaller_job_pass(world: QueueWorld) -> None:
    """[E2] The same load: pi-2 runs."""
    world.create_quota("e2-jobs", cpu_max=1)
    job(world, "e2-pi-1", "e2-jobs", 3, parallelism=2, completions=2)
    job(world, "e2-pi-2", "e2-jobs", 0)
    until(lambda: world.running_pods("e2-pi-2"))
    assert world.is_suspended("e2-pi-1")


def test_where_the_queue_waits_for_pods_the_higher_job_goes_next(
    cluster: Cluster, world: QueueWorld
) -> None:
    """[E3] Block, one at a time: pi-3, which comes last, overtakes pi-2 behind pi-1."""
    waits = {"koord-queue/wait-for-pods-running": "true"}
    world.create_quota("e3", cpu_max=9, labels={POLICY: "Block"}, annotations=waits)
    two = {"parallelism": 2, "completions": 2}
    nowhere = {"nodeSelector": {"e3": "pi-1"}}
    job(world, "e3-pi-1", "e3", 0, pod_spec=nowhere, **two)
    until(lambda: world.phase_of_job("e3-pi-1") == "Dequeued")
    job(world, "e3-pi-2", "e3", 0, **two)
    until(lambda: refusal_of(cluster.scheduler, "e3-pi-2").get("reason") == "WaitingForPodsRunning")
    job(world, "e3-pi-3", "e3", 9, pod_spec={"nodeSelector": {"e3": "pi-3"}}, **two)
    until(lambda: refusal_of(cluster.scheduler, "e3-pi-3").get("reason") == "WaitingForPodsRunning")
    node = world.api.request("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    label = {"metadata": {"labels": {"e3": "pi-1"}}}
    world.api.request("PATCH", f"/api/v1/nodes/{node}", label, content_type=MERGE)
    until(lambda: world.phase_of_job("e3-pi-3") == "Dequeued")
    assert world.phase_of_job("e3-pi-2") == "Enqueued"


def test_an_index_that_fails_for_good_lets_the_next_job_start(
    cluster: Cluster, world: QueueWorld
) -> None:
    """[job failure] Block, one at a time: of two pods one fails, and is not retried.

    Its share is in `reclaimablePods`; the Job itself runs on, and holds up no other unit.
    """
    waits = {"koord-queue/wait-for-pods-running": "true"}
    world.create_quota("fails", cpu_max=2, labels={POLICY: "Block"}, annotations=waits)
    indexed = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}
    job(world, "fails-a", "fails", 0, parallelism=2, completions=2, **indexed)
    world.await_running("fails-a", 2)
    until(lambda: world.phase_of_job("fails-a") == "Running")
    job(world, "fails-b", "fails", 0)
    until(lambda: refusal_of(cluster.scheduler, "fails-b").get("reason") == "OverQuotaMax")
    world.end_pod(world.pods("fails-a")[0]["metadata"]["name"], "Failed")
    until(lambda: world.running_pods("fails-b"))
    assert world.phase_of_job("fails-a") == "Running"
    given_back = world.unit_of("fails-a")["status"]["reclaimablePods"]
    assert given_back == [{"name": "fails-a", "count": 1}]


def test_a_drained_queue_evicts_its_job_and_later_runs_it_again(
    cluster: Cluster, world: QueueWorld
) -> None:
    """HoldAndDrain suspends what runs; Hold keeps it waiting; without either it runs again."""
    world.create_quota("drain", cpu_max=1)
    job(world, "drain", "drain", 0)
    until(lambda: world.running_pods("drain"))
    let_the_second_of_the_release_pass()
    world.stop_queue("drain", "HoldAndDrain")
    until(lambda: world.is_suspended("drain") and not world.living_pods("drain"))
    until(lambda: world.phase_of_job("drain") == "Enqueued")
    until(lambda: refusal_of(cluster.scheduler, "drain").get("reason") == "StoppedQueue")
    queue = until(lambda: ready_of(world, "drain", "Stopped"))
    assert condition_of(queue, "Ready")["status"] == "False"
    world.stop_queue("drain", "Hold")
    time.sleep(STILL_SECONDS)
    assert world.is_suspended("drain")
    world.stop_queue("drain", None)
    until(lambda: world.running_pods("drain"))
    until(lambda: "QueueStopped" in world.event_notes("drain"))


def ready_of(world: QueueWorld, name: str, reason: str) -> Json:
    """Return a queue whose condition Ready has that reason, {} while it has another."""
    queue: Json = world.queue(name)
    return queue if condition_of(queue, "Ready").get("reason") == reason else {}


# --- among queues -------------------------------------------------------------------------------


def started_next(world: QueueWorld, running: str, waiting: set[str]) -> str:
    """End a unit; return the only pending unit that starts in its place."""
    world.finish_unit(running)
    started = until(lambda: [name for name in waiting if world.phase(name) == "Dequeued"])
    assert len(started) == 1, started
    waiting.remove(started[0])
    return started[0]


@pytest.mark.parametrize(
    ("case", "higher", "want"),
    [
        pytest.param("rank", True, ["b-1", "b-2", "a-1", "a-2"], id="the higher queue first"),
        pytest.param("turn", False, ["b-1", "a-1", "b-2", "a-2"], id="equal ones in fair turns"),
    ],
)
def test_two_queues_under_one_parent(
    cluster: Cluster, world: QueueWorld, case: str, want: list[str], *, higher: bool
) -> None:
    """Room in the parent is offered to the queue of the higher priority, or in turns."""
    world.create_quota(
        case, cpu_max=1, labels={"quota.scheduling.koordinator.sh/is-parent": "true"}
    )
    for team in "ab":
        world.create_quota(f"{case}-{team}", cpu_max=1, cpu_min=0, labels={PARENT: case})
        until(partial(world.has_queue, f"{case}-{team}"))
    if higher:
        higher_rank = {"spec": {"priority": 2000}}
        world.patch_queue(f"{case}-b", higher_rank)
        until(lambda: queue_view(cluster.scheduler, f"{case}-b").get("priority"))
    world.create_unit(f"{case}-first", f"{case}-a", cpu=1)
    until(lambda: world.phase(f"{case}-first") == "Dequeued")
    waiting = {f"{case}-{team}-{number}" for team in "ab" for number in (1, 2)}
    for name in sorted(waiting):
        world.create_unit(name, name.rpartition("-")[0], cpu=1)
    until(lambda: all(world.unit(name)["status"].get("message") for name in waiting))
    running, order = f"{case}-first", []
    for _ in want:
        running = started_next(world, running, waiting)
        order.append(running.removeprefix(f"{case}-"))
    assert order == want
    world.finish_unit(running)
