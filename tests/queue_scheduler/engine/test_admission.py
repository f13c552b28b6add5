"""A unit that may run with fewer pods starts with as many as fit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import (
    Dequeue,
    Grant,
    Preempt,
    Reason,
    Refusal,
    Refused,
    WriteFailure,
)
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.preemption.nomination import for_whom_mark
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.refusal_texts import full_message
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import node
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPT_RUNNING
from tests.properties.backfill_world import BackfillWorld
from tests.properties.engine_kit import (
    WALL,
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    started,
    wall_time,
)

PREEMPTS = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}


class Room:
    """A quota of ten cores, two of them guaranteed, and another; units of one core per pod."""

    def __init__(
        self,
        mode: QuotaMode = QuotaMode.MAX,
        policy: str = "FIFO",
        queue: dict[str, str] | None = None,
    ) -> None:
        self.plugin = ElasticQuotaPlugin(QuotaSettings(mode=mode))
        self.engine = Engine(PluginRunner([self.plugin]), BUILT_IN_POLICIES)
        self.engine.on_node(node("n", allocatable={"cpu": 10}))
        self.engine.on_quota(build_quota("top", cpu=10, guaranteed=10))
        for name, least in (("a", 4), ("b", 0)):
            self.engine.on_quota(build_quota(name, cpu=10, guaranteed=least, parent="top"))
        self.workers = Workers(self.engine)
        for name in "ab":
            self.workers.wake(self.engine.on_queue(build_queue(name, policy, annotations=queue)))
        self.version = 1
        self.units: dict[str, QueueUnit] = {}

    def add(
        self,
        name: str,
        pods: int,
        least: int | None = None,
        quota: str = "a",
        priority: int = 0,
    ) -> None:
        self.version += 1
        self.put(
            build_unit(
                name,
                quota,
                pods=(("main", pods, 1, least),),
                created=self.version,
                version=self.version,
                priority=priority,
            )
        )

    def put(self, unit: QueueUnit) -> None:
        self.units[unit.metadata.name] = unit
        self.workers.wake(self.engine.on_queue_unit(unit))

    def run(self) -> dict[str, int]:
        """Return the units that start now, with their number of pods, written at once."""
        got: dict[str, int] = {}
        for decision in self.workers.run():
            if isinstance(decision, Dequeue):
                name = decision.unit.partition("/")[2]
                got[name] = decision.grants[0].replicas
                self.version += 1
                unit = admitted(self.units[name], self.version, "Dequeued", decision.grants)
                self.units[name] = unit
                self.workers.wake(self.engine.on_written(decision, unit))
        return {**got, **(self.run() if got else {})}

    def end(self, name: str) -> None:
        self.version += 1
        self.put(changed(self.units[name], self.version, "Succeed", admissions=()))

    def booked(self, name: str) -> int:
        charge = self.engine.usage.charge_of(self.units[name].metadata.uid)
        return 0 if charge is None else charge.amounts.get("cpu", 0) // 1000


modes = pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.RUNTIME], ids=str)


@modes
def test_it_starts_whole_if_that_fits_and_otherwise_with_what_fits(mode: QuotaMode) -> None:
    room = Room(mode)
    room.add("whole", 6, 2)
    room.add("part", 8, 3)
    assert room.run() == {"whole": 6, "part": 4}
    assert (room.booked("whole"), room.booked("part")) == (6, 4)
    room.engine.validate()


def test_a_unit_whose_least_does_not_fit_is_asked_for_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room, asked = Room(QuotaMode.MAX), []
    check = PluginRunner.check

    def note(plugins: PluginRunner, info: QueueUnitInfo) -> object:
        asked.append((info.key, info.demand.pods))
        return check(plugins, info)

    room.add("whole", 9)
    assert room.run() == {"whole": 9}
    monkeypatch.setattr(PluginRunner, "check", note)
    room.add("part", 9, 3)
    assert room.run() == {}
    assert asked == [("ns/part", 9), ("ns/part", 3)]


@modes
def test_below_its_least_it_waits_and_is_woken_when_that_fits(mode: QuotaMode) -> None:
    room = Room(mode)
    for name, pods in (("x", 5), ("y", 2), ("z", 2)):
        room.add(name, pods)
    room.add("part", 9, 3)
    assert room.run() == {"x": 5, "y": 2, "z": 2}
    refusal = refusal_of_unit(room.engine, "ns/part")
    assert refusal is not None
    assert (refusal.requested, refusal.is_least) == (3000, True)
    assert "even with its fewest pods (minCount)" in full_message(refusal)
    room.end("y")
    assert room.run() == {"part": 3}, "two came free and one was: its least, not all of it"


def test_a_decision_that_is_not_written_is_undone() -> None:
    room = Room()
    room.add("x", 6)
    room.add("part", 8, 3)
    decisions = [each for each in room.workers.run() if isinstance(each, Dequeue)]
    assert decisions[1].grants == (Grant("main", 4, {"cpu": 4000}),)
    assert room.booked("part") == 4
    room.engine.on_write_failed(decisions[1], WriteFailure.CONFLICT)
    assert room.booked("part") == 0
    room.engine.validate()
    room.add("part", 8, 2)
    assert room.run() == {"part": 4}


def test_a_fork_decides_like_its_original() -> None:
    room = Room()
    room.add("x", 6)
    room.add("part", 8, 3)
    twin = room.engine.fork()
    assert started([twin.decide_next("a", 0.0)]) == ["x"]
    decision = twin.decide_next("a", 0.0)
    assert isinstance(decision, Dequeue)
    assert decision.grants[0].replicas == 4
    twin.validate()
    assert room.run() == {"x": 6, "part": 4}


def test_the_order_stays_and_no_unit_passes_one_without_room_for_its_least() -> None:
    room = Room()
    room.add("x", 9)
    room.add("part", 8, 3)
    room.add("small", 1)
    assert room.run() == {"x": 9}
    room.end("x")
    assert room.run() == {"part": 8, "small": 1}


def test_units_with_different_leasts_are_checked_separately() -> None:
    room = Room(policy="Priority")
    room.add("x", 8)
    room.add("all", 4)
    room.add("four", 4, 3)
    room.add("two", 4, 2)
    assert room.run() == {"x": 8, "two": 2}


def test_after_a_restart_it_is_charged_what_it_was_granted() -> None:
    room = Room()
    room.add("x", 6)
    room.add("part", 8, 3)
    room.run()
    again = Room()
    for unit in room.units.values():
        again.put(unit)
    assert again.booked("part") == 4
    again.add("more", 1)
    assert again.run() == {}


def test_a_guarantee_keeps_room_for_the_least_of_an_owner() -> None:
    """All of it is above its min, so as a whole it would be a borrower that no unit waits for."""
    room = Room(policy="Priority")
    room.add("x", 5, quota="b")
    room.add("y", 2, quota="b")
    room.run()
    room.add("owner", 8, 4)
    room.add("more", 3, quota="b")
    assert room.run() == {}, "three cores are free, and kept"
    room.end("y")
    assert room.run() == {"owner": 5}


# --- with evictions -----------------------------------------------------------------------------


def test_a_partial_start_evicts_no_unit() -> None:
    room = Room(policy="Priority", queue=PREEMPTS)
    room.add("x", 6, priority=1)
    room.run()
    room.add("part", 8, 3, priority=5)
    assert room.run() == {"part": 4}
    assert not any(isinstance(each, Preempt) for each in room.workers.decided)


def test_victims_are_those_that_the_least_needs() -> None:
    room = Room(policy="Priority", queue=PREEMPTS)
    for name in ("x", "y"):
        room.add(name, 5, priority=1)
    room.run()
    room.add("part", 8, 3, priority=5)
    (decision,) = [each for each in room.workers.run() if isinstance(each, Preempt)]
    assert len(decision.victims) == 1
    assert decision.refusal.requested == 3000


def evict(room: Room, decision: Preempt) -> None:
    for victim in decision.victims:
        name = victim.unit.partition("/")[2]
        evicted = Condition(
            type="Evicted",
            status="True",
            reason=decision.reason,
            message=f"{for_whom_mark(decision.unit)}(...)",
            last_transition_time=Timestamp(rfc3339(wall_time(room.workers.wall))),
        )
        room.version += 1
        room.put(changed(room.units[name], room.version, conditions=(evicted,)))
    room.workers.wake(room.engine.on_preempted(decision))


def preempting(least: int, *others: int) -> Room:
    """Units of these pods run, and one of eight pods has the first of them evicted."""
    room = Room(policy="Priority", queue=PREEMPTS)
    for number, pods in enumerate(others):
        room.add(f"x{number}", pods, priority=1 + number)
    room.run()
    room.add("part", 8, least, priority=9)
    (decision,) = [each for each in room.workers.run() if isinstance(each, Preempt)]
    assert [victim.unit for victim in decision.victims] == ["ns/x0"]
    evict(room, decision)
    return room


def test_room_is_kept_for_the_least_of_the_preemptor() -> None:
    room = preempting(3, 5, 4)
    room.add("small", 1)
    assert room.run() == {"small": 1}
    assert tuple(room.engine.nominations.by_key) == ("ns/part",)


def test_it_starts_with_the_pods_that_leave_the_kept_room_to_the_preemptor() -> None:
    room = preempting(6, 5, 3)
    room.add("other", 3, 1)
    assert room.run() == {"other": 1}
    assert tuple(room.engine.nominations.by_key) == ("ns/part",)


def test_victims_are_reported_for_its_least() -> None:
    room = Room(policy="Priority")
    for name in ("x", "y"):
        room.add(name, 5, priority=1)
    room.run()
    room.add("part", 8, 3, priority=5)
    room.run()
    record, queue = room.engine.record("ns/part"), room.engine.queues.find("a")
    assert record is not None
    assert record.info is not None
    assert queue is not None
    queue.set_options(replace(queue.rules.options, preempts=True, preempts_running=True))
    found = room.engine.admission.would_evict(queue, record.info, wall_time(WALL))
    assert found is not None
    assert len(found.victims) == 1


def test_with_a_promise_it_starts_with_the_pods_that_leave_the_head_its_room() -> None:
    world = BackfillWorld(cpu=10)
    world.add("x", cpu=6, says=100)
    world.add("head", cpu=8, says=10)
    world.add("late", cpu=4, says=1000, least=1)
    assert world.go_on() == ["x", "late"]
    assert [each.replicas for each in world.runs["late"].unit.status.admissions] == [2]


def test_a_head_is_promised_a_start_with_its_least() -> None:
    world = BackfillWorld(cpu=10)
    world.add("x", cpu=4, says=50)
    world.add("y", cpu=6, says=100)
    world.add("head", cpu=10, says=10, least=4)
    world.add("late", cpu=1, says=200)
    assert world.go_on() == ["x", "y"]
    assert world.go_on(50) == ["head"]


def test_a_unit_refused_at_its_least_is_refused_once() -> None:
    room = Room()
    room.add("x", 9)
    room.run()
    room.add("part", 8, 3)
    refused = [each for each in room.workers.run() if isinstance(each, Refused)]
    assert [each.refusal.reason for each in refused] == [Reason.OVER_QUOTA_MAX]


# --- units that need all pods -------------------------------------------------------------------


def test_a_unit_that_needs_all_pods_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    room.add("x", 9)
    room.run()
    asked: list[int] = []
    check = room.plugin.check

    def counting(info: QueueUnitInfo) -> Refusal | None:
        asked.append(1)
        return check(info)

    monkeypatch.setattr(room.plugin, "check", counting)
    room.add("whole", 8)
    room.run()
    assert len(asked) == 1


def test_all_pods_are_checked_where_rounding_leaves_room_for_all_but_not_for_the_least() -> None:
    """Runtimes of three shares: with one core more of a's the third of c lacks a thousandth."""
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.RUNTIME))
    engine = Engine(PluginRunner([plugin]), BUILT_IN_POLICIES)
    workers = Workers(engine)
    engine.on_node(node("n", allocatable={"cpu": 12}))
    engine.on_quota(build_quota("org", cpu=12, guaranteed=12))
    for name, cpu, least in (("a", 12, 2), ("b", 8, 0), ("c", 8, 0)):
        engine.on_quota(build_quota(name, cpu=cpu, guaranteed=least, parent="org"))
    for name in "abc":
        workers.wake(engine.on_queue(build_queue(name)))
    for name, cpu in (("a", 3), ("b", 1), ("c", 6)):
        engine.on_queue_unit(admitted(build_unit(f"{name}-runs", name, cpu=cpu), 2))
    ends = admitted(build_unit("ends", "b", cpu=2), 2)
    engine.on_queue_unit(ends)
    workers.wake(engine.on_queue_unit(build_unit("part", "a", pods=(("main", 2, 1, 1),))))
    assert started(workers.run()) == []
    part = engine.record("ns/part")
    assert part is not None
    workers.wake(engine.on_queue_unit(changed(ends, 3, "Succeed", admissions=())))
    assert started(workers.run()) == ["part"]
    assert plugin.quotas.charge_of(part.uid) == ("a", Demand({"cpu": 2000}))
