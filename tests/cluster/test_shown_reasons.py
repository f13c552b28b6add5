"""What the debug API and conditions show of pending units: current and comparable."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import (
    MERGE,
    QUOTA_LABEL,
    QUOTAS,
    UNITS,
    QueueWorld,
    debug,
    queue_view,
    refusal_of,
    unit_view,
)
from tests.object_states import condition_of
from tests.waiting import until

SECOND: Final = 1.1
"""Two objects created this long after each other differ in age."""


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """One API server for the module; tests use quotas of their own."""
    with QueueWorld(controlplane_binaries) as world:
        yield world


@pytest.fixture(scope="module")
def scheduler(world: QueueWorld) -> ProgramProcess:
    """One scheduler with its default settings."""
    return world.start_scheduler("--leader-elect=false")


def test_a_refusal_names_the_namespace_of_the_quota_that_counts(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    world.plane.kubectl("create", "namespace", "labs")
    world.create_quota("twin", cpu_max=2)
    time.sleep(SECOND)
    world.api.request(
        "POST",
        QUOTAS.format("labs"),
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "twin"},
            "spec": {"max": {"cpu": "40"}},
        },
    )
    until(lambda: "DuplicateName" in world.event_notes("twin"))
    world.create_unit("of-twin", "twin", cpu=9)
    found = until(lambda: refusal_of(scheduler, "of-twin").get("quotaNamespace"))
    assert found == "default"
    words = "quota twin (the one in namespace default, which is the oldest)"
    assert words in refusal_of(scheduler, "of-twin")["message"]
    until(lambda: words in condition_of(world.unit("of-twin"), "QuotaReserved").get("message", ""))


@pytest.mark.usefixtures("scheduler")
def test_a_queue_that_is_missing_is_named_with_its_namespace(world: QueueWorld) -> None:
    world.create_quota("lost", cpu_max=2)
    world.create_unit("lost", "lost", cpu=1, queue="nowhere")
    words = "queue nowhere does not exist in namespace koord-queue, or cannot be read"
    until(lambda: condition_of(world.unit("lost"), "QuotaReserved").get("message") == words)


def test_a_unit_that_never_fits_is_not_the_head_of_a_queue_where_others_pass(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    world.create_quota("heads", cpu_max=2)
    world.create_unit("heads-runs", "heads", cpu=2)
    until(lambda: world.phase("heads-runs") == "Dequeued")
    world.create_unit("heads-large", "heads", cpu=5, priority=9)
    world.create_unit("heads-next", "heads", cpu=1)
    until(lambda: refusal_of(scheduler, "heads-large").get("reason") == "ExceedsQuota")
    until(lambda: refusal_of(scheduler, "heads-next").get("reason") == "OverQuotaMax")
    head = queue_view(scheduler, "heads")["head"]
    assert (head["name"], head["position"]) == ("heads-next", 2)


def test_numbers_of_one_unit_are_current_and_those_of_a_list_have_a_time(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """The released usage is too little for the unit, so it is not checked again."""
    world.create_quota("stale", cpu_max=16)
    for name, cpu in (("stale-a", 4), ("stale-b", 12)):
        world.create_unit(name, "stale", cpu=cpu)
        until(partial(lambda unit: world.phase(unit) == "Dequeued", name))
    world.create_unit("stale-big", "stale", cpu=9)
    until(lambda: refusal_of(scheduler, "stale-big").get("used") == "16")
    world.finish_unit("stale-a")
    until(lambda: refusal_of(scheduler, "stale-big").get("used") == "12")
    refusal = refusal_of(scheduler, "stale-big")
    assert refusal["message"].endswith("missing 5 (limit 16, used 12, requested 9)")
    assert refusal["asOf"] == ""
    (listed,) = debug(scheduler, "/debug/queues/stale")["units"]
    assert (listed["refusal"]["used"], listed["refusal"]["asOf"] != "") == ("16", True)


def test_a_unit_that_requests_none_of_a_resource_is_not_said_to_need_more(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    quota = f"{QUOTAS.format('default')}/over"
    world.create_quota("over", cpu_max=2, cpu_min=0)
    both = {"spec": {"max": {"cpu": "2", "memory": "4Gi"}}}
    world.api.request("PATCH", quota, both, content_type=MERGE)
    world.create_unit("over-runs", "over", cpu=2)
    until(lambda: world.phase("over-runs") == "Dequeued")
    world.api.request("PATCH", quota, {"spec": {"max": {"cpu": "1"}}}, content_type=MERGE)
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {"name": "over-none", "labels": {QUOTA_LABEL: "over"}},
        "spec": {"request": {"memory": "1Gi"}},
    }
    until(lambda: _max_of(scheduler, "over") == {"cpu": "1", "memory": "4Gi"})
    world.api.request("POST", UNITS.format("default"), body)
    message = until(lambda: str(refusal_of(scheduler, "over-none").get("message", "")))
    assert message.startswith("quota over uses more cpu than its ")
    assert message.endswith("missing 1 (limit 1, used 2, requested 0)")


def _max_of(scheduler: ProgramProcess, quota: str) -> dict[str, str]:
    nodes = debug(scheduler, "/debug/quotas")["items"]
    return next((dict(node["max"]) for node in nodes if node["name"] == quota), {})


def test_a_unit_without_a_quota_shows_its_request(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    world.create_unit("nobodys", "no-such-quota", cpu=3)
    until(lambda: refusal_of(scheduler, "nobodys").get("reason") == "NoQuota")
    assert unit_view(scheduler, "nobodys")["demand"] == {"cpu": "3"}


def test_released_pods_are_shown_in_addition_to_charged_ones(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    world.create_quota("shrinks", cpu_max=9)
    world.create_unit("shrinks", "shrinks", cpu=1, count=7)
    until(lambda: world.phase("shrinks") == "Dequeued")
    status = {"reclaimablePods": [{"name": "shrinks", "count": 4}]}
    world.patch_unit("shrinks", {"status": status})
    pods = {"name": "shrinks", "asked": 7, "granted": 7, "givenBack": 4, "held": 3}
    until(lambda: unit_view(scheduler, "shrinks").get("podSets") == [pods])
    until(lambda: unit_view(scheduler, "shrinks")["charged"] == {"cpu": "3"})
