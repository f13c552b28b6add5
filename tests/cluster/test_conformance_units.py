"""Upstream's further lists, on a real API server with units made by hand.

Ids in brackets stand for tests of upstream's (upstream/README.md). The test plays the controllers,
which do not run here, for units that carry their mark; the scheduler ends the evictions of all
others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.testing.object_builders import queue_unit_body
from shared_api.well_known_labels import MANAGED_BY
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QUEUES, UNITS, QueueWorld, reason_of, refusal_of
from tests.object_states import condition_of
from tests.waiting import STILL_SECONDS, stays, until

PREEMPTS: Final = "koord-queue/enable-queueunit-preemption"
WAITS: Final = "koord-queue/wait-for-pods-running"
BOTH: Final = {PREEMPTS: "true", WAITS: "true"}

Json = dict[str, Any]


class Scheduling:
    """The scheduler in `max` mode, which is upstream's check, with a time of protection."""

    def __init__(self, world: QueueWorld) -> None:
        self.world = world
        self._scheduler: ProgramProcess | None = None

    def use(self, protect: str = "0s") -> ProgramProcess:
        """Replace the scheduler by one with these settings."""
        if self._scheduler is not None:
            self._scheduler.stop()
        config = self.world.folder / "max.yaml"
        config.write_text(
            "apiVersion: scheduling.k8s.io/v1\n"
            "kind: KoordQueueConfiguration\n"
            "plugins: [{name: Priority}, {name: ElasticQuotaV2}]\n"
            "pluginConfigs: {ElasticQuotaV2: {mode: max}}\n"
            f"defaultReclaimProtectTime: {protect}\n"
        )
        arguments = ("--leader-elect=false", f"--config={config}")
        self._scheduler = self.world.start_scheduler(*arguments)
        return self._scheduler

    def open_queue(
        self, name: str, cpu: int, *, policy: str = "Priority", annotations: Json = BOTH
    ) -> None:
        """Create a queue before its quota."""
        self.world.create_queue(name, policy, annotations)
        self.world.create_quota(name, cpu_max=cpu)

    def add(
        self, name: str, quota: str, *, managed: bool = True, count: int = 1, **more: Any
    ) -> None:
        """Create a unit of `count` pods; if `managed`, the test alone ends its evictions."""
        marks = {MANAGED_BY: "controllers"} if managed else {}
        body = queue_unit_body(
            name,
            quota=quota,
            requests={"cpu": more.pop("cpu", 1)},
            count=count,
            metadata={"annotations": marks},
            **more,
        )
        self.world.api.request("POST", UNITS.format("default"), body)

    def write(self, name: str, status: Json) -> None:
        """Patch a unit's status by a merge patch."""
        self.world.patch_unit(name, {"status": status})

    def count(self, name: str, *, replicas: int, running: int, **more: Any) -> None:
        """Write the counts of a unit, as the controllers do."""
        main = {"name": "main", "replicas": replicas, "running": running, **more}
        self.write(name, {"admissions": [main]})

    def free(self, name: str) -> None:
        """End the eviction of a unit, as the controllers do."""
        conditions = [
            {**each, "status": "False", "reason": "Requeued"} if each["type"] == "Evicted" else each
            for each in self.world.unit(name)["status"]["conditions"]
        ]
        self.write(name, {"phase": "Enqueued", "admissions": [], "conditions": conditions})

    def has_started(self, name: str) -> bool:
        return self.world.phase(name) in {"Dequeued", "Running"}

    def is_asked(self, name: str) -> bool:
        """Return whether a unit's eviction is requested."""
        evicted = condition_of(self.world.unit(name), "Evicted")
        return (evicted.get("status"), evicted.get("reason")) == ("True", "Preempted")

    def is_never_asked(self, name: str) -> None:
        """Return whether a unit's eviction is not requested for a while."""
        stays(lambda: not self.is_asked(name))


@pytest.fixture(scope="module")
def scheduling(controlplane_binaries: Path) -> Iterator[Scheduling]:
    with QueueWorld(controlplane_binaries) as world:
        scheduling = Scheduling(world)
        scheduling.use()
        yield scheduling


# --- the older suite on preemption, and the failure of a pod ------------------------------------


@pytest.mark.parametrize(
    ("path", "cpu"), [pytest.param("filter", 2, id="filter"), pytest.param("reserve", 1, id="fits")]
)
def test_the_older_suite_on_preemption(scheduling: Scheduling, path: str, cpu: int) -> None:
    """[QueueV2] Block, one at a time: high takes the place of mid, which is in flight.

    Upstream skips it, and expects its former phase Preempted: here mid is evicted by its condition,
    and requeued as soon as nothing of it runs. The queue has to enable preemption.
    """
    name = f"v2-{path}"
    scheduling.open_queue(name, 2, policy="Block")
    scheduling.add(f"{name}-mid", name, priority=2, managed=False)
    until(lambda: scheduling.has_started(f"{name}-mid"))
    scheduling.add(f"{name}-high", name, priority=3, cpu=cpu, managed=False)
    until(lambda: scheduling.has_started(f"{name}-high"))
    until(lambda: scheduling.world.phase(f"{name}-mid") == "Enqueued")
    until(lambda: "Preempted" in scheduling.world.event_notes(f"{name}-mid"))


def test_a_pod_that_fails_for_good_gives_its_share_to_the_next_unit(
    scheduling: Scheduling,
) -> None:
    """[job failure] Two of two run, one fails, the controllers lower the counts: the next starts.

    Upstream reclaims the replica by `reclaimState` before; here a unit that has run is left alone,
    and its queue does not wait for it a second time.
    """
    scheduling.open_queue("fails", 2, policy="Block", annotations={WAITS: "true"})
    scheduling.add("fails-a", "fails", count=2, managed=False)
    until(lambda: scheduling.has_started("fails-a"))
    scheduling.count("fails-a", replicas=2, running=2)
    until(lambda: scheduling.world.phase("fails-a") == "Running")
    scheduling.add("fails-b", "fails", managed=False)
    until(lambda: scheduling.world.unit("fails-b")["status"].get("message"))
    scheduling.count("fails-a", replicas=2, running=1)
    time.sleep(STILL_SECONDS)
    assert scheduling.world.phase("fails-a") == "Running"
    assert scheduling.world.phase("fails-b") == "Enqueued"
    pods = scheduling.world.unit("fails-a")["spec"]["podSet"][0]
    lowered = {"spec": {"podSet": [{**pods, "count": 1}]}}
    scheduling.world.patch_unit("fails-a", lowered)
    scheduling.count("fails-a", replicas=1, running=1)
    until(lambda: scheduling.has_started("fails-b"))


# --- victims ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "annotations", "policy"),
    [
        pytest.param("none", {}, "Priority", id="without either annotation"),
        pytest.param("waits", {WAITS: "true"}, "Priority", id="a queue that only waits for pods"),
        pytest.param("bands", BOTH, "Intelligent", id="Intelligent never preempts"),
    ],
)
def test_no_unit_is_evicted(
    scheduling: Scheduling, case: str, annotations: dict[str, str], policy: str
) -> None:
    """[further] No victim without the annotation, or under policy Intelligent.

    Upstream needs both annotations. Here that of preemption is enough (the last case of the next
    test); in a queue that waits for pods as well, a unit that fits displaces one in flight.
    """
    scheduling.open_queue(case, 2, annotations=annotations, policy=policy)
    scheduling.add(f"{case}-victim", case, priority=10, cpu=2)
    until(lambda: scheduling.has_started(f"{case}-victim"))
    scheduling.add(f"{case}-high", case, priority=100, cpu=2)
    until(lambda: scheduling.world.unit(f"{case}-high")["status"].get("message"))
    scheduling.is_never_asked(f"{case}-victim")


def test_a_younger_unit_of_the_same_priority_is_no_victim(scheduling: Scheduling) -> None:
    """[further] Upstream evicts it; here only a strictly lower priority is evicted."""
    scheduling.open_queue("equal", 2, annotations={PREEMPTS: "true"})
    scheduling.add("equal-older", "equal", priority=5, cpu=2, active=False)
    time.sleep(1.1)  # creation times have whole seconds
    scheduling.add("equal-younger", "equal", priority=5, cpu=2)
    until(lambda: scheduling.has_started("equal-younger"))
    scheduling.world.set_active("equal-older", active=True)
    until(lambda: reason_of(scheduling.world.unit("equal-older")) == "OverQuotaMax")
    scheduling.is_never_asked("equal-younger")
    scheduling.world.patch_unit("equal-older", {"spec": {"priority": 6}})
    until(lambda: scheduling.is_asked("equal-younger"))


def test_one_round_at_a_time(scheduling: Scheduling) -> None:
    """[further] No other unit is evicted until the victims of a round have stopped."""
    scheduling.open_queue("round", 4, annotations={PREEMPTS: "true"})
    for number in (1, 2):
        scheduling.add(f"round-low-{number}", "round", priority=number, cpu=2)
        until(partial(scheduling.has_started, f"round-low-{number}"))
    scheduling.add("round-first", "round", priority=100, cpu=2)
    until(lambda: scheduling.is_asked("round-low-1"))
    scheduling.add("round-second", "round", priority=90, cpu=2)
    until(lambda: scheduling.world.unit("round-second")["status"].get("message"))
    scheduling.is_never_asked("round-low-2")
    scheduling.free("round-low-1")
    until(lambda: scheduling.has_started("round-first"))
    until(lambda: scheduling.is_asked("round-low-2"))
    # Upstream's second event is Reclaimed; here that is the eviction for a quota's owner.
    until(lambda: "Preempted" in scheduling.world.event_notes("round-low-1"))
    until(lambda: "Preempting" in scheduling.world.event_notes("round-first"))


# --- queues -------------------------------------------------------------------------------------


def test_max_depth_is_removed(scheduling: Scheduling) -> None:
    """[further] Units beyond it start, without another event."""
    world = scheduling.world
    scheduling.open_queue("depth", 2, annotations={"koord-queue/max-depth": "1"})
    scheduling.add("depth-large", "depth", priority=9, cpu=3)
    scheduling.add("depth-small", "depth", priority=1)
    until(lambda: reason_of(scheduling.world.unit("depth-small")) == "BeyondMaxDepth")
    off = {"metadata": {"annotations": {"koord-queue/max-depth": None}}}
    world.patch_queue("depth", off)
    until(lambda: scheduling.has_started("depth-small"))


def test_a_queue_that_is_created_again_keeps_its_units(scheduling: Scheduling) -> None:
    """[further] One made by hand: units wait for it, and start when it exists again."""
    world = scheduling.world
    takes = {"koord-queue/available-quota-in-queue": "*"}
    world.create_queue("back", "FIFO", takes)
    world.create_quota("of-back", cpu_max=1)
    scheduling.add("back-first", "of-back", queue="back")
    until(lambda: scheduling.has_started("back-first"))
    scheduling.add("back-second", "of-back", queue="back")
    until(lambda: world.unit("back-second")["status"].get("message"))
    world.api.request("DELETE", f"{QUEUES}/back")
    until(lambda: reason_of(scheduling.world.unit("back-second")) == "NoQueue")
    assert scheduling.has_started("back-first")
    world.create_queue("back", "FIFO", takes)
    until(lambda: reason_of(scheduling.world.unit("back-second")) == "OverQuotaMax")
    world.finish_unit("back-first")
    until(lambda: scheduling.has_started("back-second"))


def test_a_quota_that_is_created_after_its_units(scheduling: Scheduling) -> None:
    """[further] Units of any order of arrival wait for it, and start in the queue's order."""
    for number, priority in enumerate((1, 9)):
        scheduling.add(f"after-{number}", "after", priority=priority)
    until(lambda: reason_of(scheduling.world.unit("after-1")) == "NoQuota")
    scheduling.world.create_quota("after", cpu_max=1)
    until(lambda: scheduling.has_started("after-1"))
    assert scheduling.world.phase("after-0") == "Enqueued"


# --- last, since it replaces the scheduler ------------------------------------------------------


def test_a_recently_admitted_unit_is_protected(scheduling: Scheduling) -> None:
    """[further] No victim within defaultReclaimProtectTime; one when that does not hold it."""
    program = scheduling.use(protect="1h")
    scheduling.open_queue("late", 2, annotations={PREEMPTS: "true"})
    scheduling.add("late-victim", "late", priority=10, cpu=2)
    until(lambda: scheduling.has_started("late-victim"))
    scheduling.add("late-high", "late", priority=100, cpu=2)
    until(lambda: refusal_of(program, "late-high"))
    scheduling.is_never_asked("late-victim")
    scheduling.use()
    until(lambda: scheduling.is_asked("late-victim"))
