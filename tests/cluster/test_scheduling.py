"""The scheduler on a real API server, with units made by hand and without the controllers.

Ids in brackets stand for tests of upstream's (upstream/README.md). Where those have phase "" for a
waiting unit, a unit here is Enqueued from its creation.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import (
    MERGE,
    QUEUES,
    QUOTAS,
    Json,
    QueueWorld,
    debug,
    quota_view,
    reason_of,
    refusal_of,
)
from tests.waiting import STILL_SECONDS, until

AT_ONCE_SECONDS = 30.0
"""A start that no event triggers comes with a resync, after minutes. All others are fast."""


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """One API server for the module; tests use quotas of their own."""
    with QueueWorld(controlplane_binaries) as world:
        yield world


@pytest.fixture(scope="module")
def scheduler(world: QueueWorld) -> ProgramProcess:
    """One scheduler in `max` mode, which is upstream's check."""
    config = world.folder / "max.yaml"
    config.write_text(
        "apiVersion: scheduling.k8s.io/v1\n"
        "kind: KoordQueueConfiguration\n"
        "plugins: [{name: Priority}, {name: ElasticQuotaV2}]\n"
        "pluginConfigs: {ElasticQuotaV2: {mode: max}}\n"
    )
    return world.start_scheduler("--leader-elect=false", f"--config={config}")


def dequeued(world: QueueWorld, name: str) -> bool:
    """Return whether a unit has been admitted."""
    return world.phase(name) == "Dequeued"


def test_block_holds_back_units_behind_one_that_never_fits(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """[E1] pi-1 can never fit; pi-2, of the same quota and behind it, waits with it."""
    world.create_quota("e1", cpu_max=1, labels={"koord-queue/queue-policy": "Block"})
    world.create_unit("e1-pi-1", "e1", cpu=1, count=2, priority=3)
    until(lambda: refusal_of(scheduler, "e1-pi-1"))
    world.create_unit("e1-pi-2", "e1", cpu=1)
    until(lambda: refusal_of(scheduler, "e1-pi-2").get("reason") == "BehindRefusedUnit")
    time.sleep(STILL_SECONDS)
    assert world.phase("e1-pi-2") == "Enqueued"


@pytest.mark.usefixtures("scheduler")
def test_priority_lets_a_smaller_unit_pass_one_that_never_fits(world: QueueWorld) -> None:
    """[E2] The same load under policy Priority: pi-2 is Dequeued."""
    world.create_quota("e2", cpu_max=1)
    world.create_unit("e2-pi-1", "e2", cpu=1, count=2, priority=3)
    world.create_unit("e2-pi-2", "e2", cpu=1)
    until(lambda: dequeued(world, "e2-pi-2"))
    assert world.phase("e2-pi-1") == "Enqueued"


def test_units_that_are_admitted_already_count_once(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """[V2 accounting] Dequeued without admissions is charged whole; one queue is created."""
    world.create_quota("v2", cpu_max=211, cpu_min=200)
    world.create_unit("v2-job2", "v2", cpu=10)
    until(lambda: dequeued(world, "v2-job2"))
    world.patch_unit("v2-job2", {"status": {"admissions": []}})
    until(lambda: used_of(scheduler, "v2") == "10")
    world.create_unit("v2-job1", "v2", cpu=9)
    until(lambda: dequeued(world, "v2-job1"))
    until(lambda: used_of(scheduler, "v2") == "19")
    queues = world.queues()
    assert [q["metadata"]["name"] for q in queues].count("v2") == 1


def used_of(scheduler: ProgramProcess, quota: str) -> str:
    """Return the used cpu of a quota."""
    nodes = debug(scheduler, "/debug/quotas")["items"]
    return next((str(n["used"].get("cpu", "0")) for n in nodes if n["name"] == quota), "")


@pytest.mark.usefixtures("scheduler")
def test_the_end_of_a_unit_starts_the_next_one_at_once(world: QueueWorld) -> None:
    """A release wakes the units that wait for it, without a timer."""
    world.create_quota("wake", cpu_max=1)
    world.create_unit("wake-0", "wake", cpu=1)
    until(lambda: dequeued(world, "wake-0"))
    for number in range(1, 6):
        world.create_unit(f"wake-{number}", "wake", cpu=1)
        world.finish_unit(f"wake-{number - 1}")
        until(partial(dequeued, world, f"wake-{number}"), AT_ONCE_SECONDS)


def test_a_raised_quota_starts_pending_units(world: QueueWorld, scheduler: ProgramProcess) -> None:
    """An edit of max wakes pending units."""
    world.create_quota("raise", cpu_max=1)
    world.create_unit("raise-unit", "raise", cpu=3)
    until(lambda: refusal_of(scheduler, "raise-unit").get("limit") == "1")
    assert world.phase("raise-unit") == "Enqueued"
    world.api.request(
        "PATCH",
        f"{QUOTAS.format('default')}/raise",
        {"spec": {"max": {"cpu": "3"}}},
        content_type=MERGE,
    )
    until(lambda: dequeued(world, "raise-unit"), AT_ONCE_SECONDS)


@pytest.mark.usefixtures("scheduler")
def test_nothing_is_lost_in_any_order_of_arrival(world: QueueWorld) -> None:
    """Unit before quota; queue deleted and created again."""
    world.create_unit("order-early", "order", cpu=1)
    until(lambda: reason_of(world.unit("order-early")) == "NoQuota")
    world.create_quota("order", cpu_max=1)
    until(lambda: dequeued(world, "order-early"))
    world.create_unit("order-late", "order", cpu=1)
    (first,) = queues_named(world, "order")
    world.api.request("DELETE", f"{QUEUES}/order")
    world.finish_unit("order-early")
    until(lambda: dequeued(world, "order-late"))
    # The unit may start before the scheduler sees that its queue is gone.
    again = until(lambda: [q for q in queues_named(world, "order") if uid_of(q) != uid_of(first)])
    assert [each["spec"]["queuePolicy"] for each in again] == ["Priority"]


def queues_named(world: QueueWorld, name: str) -> list[Json]:
    """Return the queue of that name, if there is one."""
    items = world.queues()
    return [each for each in items if each["metadata"]["name"] == name]


def uid_of(thing: Json) -> str:
    return str(thing["metadata"]["uid"])


def test_a_queue_made_by_hand_keeps_policy_and_annotations(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """A quota of its name appears: the queue is left as it is, and outlives the quota."""
    mine = {"koord-queue/max-depth": "7"}
    world.create_queue("hand", "Block", mine)
    world.create_quota("hand", cpu_max=1, labels={"koord-queue/queue-policy": "Priority"})
    world.create_unit("hand-unit", "hand", cpu=1)
    until(lambda: dequeued(world, "hand-unit"))
    world.finish_unit("hand-unit")
    world.api.request("DELETE", f"{QUOTAS.format('default')}/hand")
    until(lambda: quota_view(scheduler, "hand") == {})
    time.sleep(STILL_SECONDS)
    queue = world.queue("hand")
    assert queue["spec"]["queuePolicy"] == "Block"
    assert queue["metadata"]["annotations"]["koord-queue/max-depth"] == "7"


def test_several_quotas_share_a_queue_that_lists_them(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """A queue other than the quota's own must list the quota; else the unit waits and says so."""
    world.create_quota("share-a", cpu_max=1)
    world.create_quota("share-b", cpu_max=1)
    world.create_queue("shared", "FIFO", {"koord-queue/available-quota-in-queue": "share-a"})
    world.create_unit("share-a-unit", "share-a", cpu=1, queue="shared")
    world.create_unit("share-b-unit", "share-b", cpu=1, queue="shared")
    until(lambda: dequeued(world, "share-a-unit"))
    until(lambda: reason_of(world.unit("share-b-unit")) == "QuotaNotInQueue")
    body = {"metadata": {"annotations": {"koord-queue/available-quota-in-queue": "*"}}}
    world.patch_queue("shared", body)
    until(lambda: dequeued(world, "share-b-unit"))
    detail = debug(scheduler, "/debug/queues/shared")
    assert detail["queue"]["admitted"] == 2


@pytest.mark.usefixtures("scheduler")
def test_a_queue_shows_counts_and_positions(world: QueueWorld) -> None:
    """Queue.status has pending, admitted and the first positions in order."""
    world.create_quota("shown", cpu_max=1)
    world.create_unit("shown-run", "shown", cpu=1, priority=9)
    until(lambda: dequeued(world, "shown-run"))
    for number in range(3):
        world.create_unit(f"shown-{number}", "shown", cpu=1, priority=number)

    def items() -> list[str]:
        status = world.queue("shown").get("status", {})
        listed = status.get("queueItemDetails", {}).get("active", [])
        counts = (status.get("pending"), status.get("admitted"))
        return [item["name"] for item in listed] if counts == (3, 1) else []

    until(lambda: items() == ["shown-2", "shown-1", "shown-0"])


@pytest.mark.usefixtures("scheduler")
def test_a_system_at_rest_writes_nothing(world: QueueWorld) -> None:
    """Everything waits or runs: no resourceVersion changes for seconds."""
    world.create_quota("rest", cpu_max=1)
    world.create_unit("rest-run", "rest", cpu=1)
    world.create_unit("rest-wait", "rest", cpu=1)
    until(lambda: dequeued(world, "rest-run"))
    until(lambda: reason_of(world.unit("rest-wait")))

    def versions() -> dict[str, str]:
        items = world.units() + world.queues()
        return {i["metadata"]["uid"]: i["metadata"]["resourceVersion"] for i in items}

    def is_still(seconds: float) -> bool:
        before = versions()
        time.sleep(seconds)
        return versions() == before

    # When queue status and the last reasons of other tests have been written.
    until(lambda: is_still(10.0))


@pytest.mark.usefixtures("scheduler")
def test_an_inactive_unit_is_on_hold_and_reports_it(world: QueueWorld) -> None:
    """Its condition and the queue's counts show it."""
    world.create_quota("held", cpu_max=4)
    world.create_unit("held-inactive", "held", cpu=1, active=False)
    until(lambda: reason_of(world.unit("held-inactive")) == "Inactive")
    assert world.phase("held-inactive") == "Enqueued"
