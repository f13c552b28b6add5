"""Which units may pass one that does not fit yet, and which may not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import (
    Decision,
    Moment,
    Preempt,
    Reason,
    Refusal,
    Refused,
    UndecidedError,
)
from queue_scheduler.framework.extension_points import Plugin, Supposed
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    PREEMPT_RUNNING,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.backfill_world import START, BackfillWorld
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    declaring,
    wall_time,
)
from tests.queue_scheduler.scheduler_world import running_world

POLICIES = pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
DELAYS = ("WouldDelayHead", "head")


def with_head(
    policy: str = "FIFO", *, backfills: bool = True, plugins: Sequence[Plugin] = ()
) -> BackfillWorld:
    """Three of four cores are used until second 100; the head needs all four."""
    world = BackfillWorld(policy, backfills=backfills, plugins=plugins)
    world.add("runs", cpu=3, says=100)
    assert world.go_on() == ["runs"]
    world.add("head", cpu=4, says=50)
    assert world.go_on(10) == []
    return world


@POLICIES
@pytest.mark.parametrize(
    ("says", "starts"),
    [
        pytest.param(90, True, id="it ends when the head can start"),
        pytest.param(91, False, id="it would end a second later"),
        pytest.param(None, False, id="it does not declare when it ends"),
    ],
)
@pytest.mark.parametrize("quota", ["a", "b"])
def test_a_unit_that_ends_before_the_promised_start_may_pass(
    policy: str, says: int | None, quota: str, *, starts: bool
) -> None:
    world = with_head(policy)
    world.add("small", quota, says=says)
    assert world.go_on() == (["small"] if starts else [])
    if not starts:
        assert world.reason("small")[1] == "head"
        assert world.promise("head") == 100
    world.go_on(100)
    assert world.started["head"] == 100


def test_more_runs_than_without() -> None:
    world = with_head(backfills=False)
    world.add("small", says=50)
    assert world.go_on() == []
    assert world.reason("small")[0] == "BehindRefusedUnit"


def test_a_delaying_unit_says_behind_which_it_waits_and_a_silent_one_why() -> None:
    world = with_head()
    world.add("long", says=91)
    world.add("silent")
    assert world.go_on() == []
    assert world.reason("long") == DELAYS
    assert world.reason("silent") == ("NoMaximumExecutionTime", "head")


def test_a_unit_that_fits_beside_the_head_may_run_for_long() -> None:
    world = BackfillWorld()
    world.add("runs", cpu=3, says=100)
    world.add("head", cpu=2, says=50)
    world.add("long", cpu=1, says=900)
    world.add("longer", cpu=1, says=900)
    assert world.go_on() == ["runs", "long"]
    assert world.reason("longer")[0] == "OverQuotaMax"
    world.go_on(100)
    assert world.started["head"] == 100


def test_units_of_another_tree_are_not_in_the_way() -> None:
    world = with_head()
    world.add("elsewhere", "far")
    assert world.go_on() == ["elsewhere"]


def test_no_unit_passes_where_nothing_is_declared() -> None:
    world = BackfillWorld()
    world.add("runs", cpu=3)
    world.add("head", cpu=4, says=50)
    world.add("small", says=1)
    assert world.go_on() == ["runs"]
    assert world.reason("small") == DELAYS
    assert world.promise("head") is None


def test_a_unit_that_never_fits_holds_none_back() -> None:
    world = BackfillWorld()
    world.add("giant", cpu=9, says=1)
    world.add("small")
    assert world.go_on() == ["small"]


@pytest.mark.parametrize("how", ["ends", "leaves"])
def test_a_waiting_unit_is_asked_again_when_room_comes_early(how: str) -> None:
    world = BackfillWorld()
    world.add("runs", cpu=3, says=100, lasts=20 if how == "ends" else None)
    world.add("head", cpu=4, says=50)
    world.add("small", says=200)
    assert world.go_on() == ["runs"]
    if how == "leaves":
        record = world.engine.record("ns/head")
        assert record is not None
        world.workers.wake(world.engine.on_queue_unit_gone(record.unit))
        assert world.go_on() == ["small"]
    else:
        assert world.go_on(20) == ["head"]


def test_a_later_head_counts_from_then_on() -> None:
    world = BackfillWorld("Priority")
    world.add("runs", cpu=3, says=100)
    world.add("head", cpu=4, says=50)
    world.add("small", says=200)
    assert world.go_on() == ["runs"]
    world.add("other", cpu=3, says=9, priority=5)
    assert world.go_on() == ["small"], "both heads' quota has room for it at the promised time"


def test_a_better_known_end_has_waiting_units_asked_again() -> None:
    world = with_head()
    world.add("small", says=95)
    assert world.go_on() == []
    unit = world.runs["runs"].unit
    longer = replace(unit, spec=replace(unit.spec, maximum_execution_time_seconds=120))
    world.workers.wake(world.engine.on_queue_unit(changed(longer, 999)))
    assert world.go_on() == ["small"]


def test_a_first_declared_end_has_waiting_units_asked_again() -> None:
    world = BackfillWorld()
    world.add("runs", cpu=3)
    world.add("head", cpu=4, says=50)
    world.add("small", says=95)
    assert world.go_on() == ["runs"]
    silent = world.runs["runs"].unit
    world.workers.wake(world.engine.on_queue_unit(changed(declaring(silent, 100), 999)))
    assert world.go_on() == ["small"]


def test_a_promise_is_computed_when_it_is_read() -> None:
    """Nothing happens meanwhile, and no unit is asked again."""
    world = BackfillWorld()
    world.workers.wake(
        world.engine.on_queue_unit(
            admitted(declaring(build_unit("runs", "a", queue="shared", cpu=3), 100), 2)
        )
    )
    world.add("head", cpu=4, says=50)
    world.add("small", says=200)
    assert world.go_on() == []
    for seconds in (0, 60):
        promise = world.engine.backfill.promise_of_unit("ns/head", START + seconds)
        assert promise is not None
        assert promise.at == START + seconds + 100


def test_overdue_units_are_assumed_to_end_at_any_moment() -> None:
    world = with_head()
    unit = world.runs.pop("runs").unit
    world.go_on(150)
    world.add("small", says=1)
    assert world.go_on() == []
    promise = world.engine.backfill.promise_of_unit("ns/head", START + world.second)
    assert promise is not None
    assert promise.is_overdue
    assert world.promise("head") == world.second
    world.workers.wake(world.engine.on_queue_unit(changed(unit, 999, "Succeed", admissions=())))
    assert world.go_on() == ["head"]


def test_a_growing_quota_has_all_units_asked_again() -> None:
    world = with_head()
    world.add("small", says=900)
    assert world.go_on() == []
    for quota in (build_quota("a", cpu=9, parent="top"), build_quota("top", cpu=8)):
        world.workers.wake(world.engine.on_quota(quota))
    assert world.go_on() == ["head", "small"]


def test_a_quota_that_grows_only_for_others_has_them_asked_again() -> None:
    world = with_head()
    world.add("small", "b", says=900)
    assert world.go_on() == []
    world.workers.wake(world.engine.on_quota(build_quota("top", cpu=5)))
    assert world.go_on() == ["small"], "the head's own quota is full"


def test_a_new_node_has_all_units_asked_again() -> None:
    world = BackfillWorld(mode=QuotaMode.RUNTIME, cpu=4)
    world.add("runs", cpu=3, says=100)
    world.add("head", cpu=4, says=50)
    world.add("small", says=900)
    assert world.go_on() == ["runs"]
    for name in ("a", "top"):
        parent = "top" if name == "a" else ""
        world.workers.wake(world.engine.on_quota(build_quota(name, cpu=9, parent=parent)))
    assert world.go_on() == []
    node = Node(metadata=ObjectMeta(name="m"), status=NodeStatus(allocatable={"cpu": 4}))
    world.workers.wake(world.engine.on_node(node))
    assert world.go_on() == ["head", "small"]


@pytest.mark.parametrize(
    ("cpu", "starts"),
    [
        pytest.param(4, [], id="the head needs all"),
        pytest.param(3, ["small"], id="the head fits beside it"),
    ],
)
def test_a_unit_that_waits_for_checks_has_no_known_end(cpu: int, starts: list[str]) -> None:
    world = BackfillWorld()
    checks = (AdmissionCheckReference(name="check"),)
    queue = build_queue("shared", takes="*", annotations={BACKFILL: "true"})
    spec = replace(queue.spec, admission_checks=checks)
    world.workers.wake(world.engine.on_queue(replace(queue, spec=spec)))
    world.add("runs", cpu=3, says=100)
    world.add("head", cpu=cpu, says=50)
    assert world.go_on() == ["runs"]
    world.add("small", says=50)
    assert world.go_on() == starts


def test_a_promise_follows_the_nodes_within_the_second() -> None:
    world = BackfillWorld(mode=QuotaMode.RUNTIME, cpu=4)
    for quota in (build_quota("top", cpu=9), build_quota("a", cpu=9, parent="top")):
        world.workers.wake(world.engine.on_quota(quota))
    world.add("short", cpu=2, says=100)
    world.add("long", cpu=1, says=200)
    world.add("head", cpu=4, says=50)
    world.add("silent", cpu=1)
    assert world.go_on() == ["short", "long"]
    assert world.promise("head") == 200
    node = Node(metadata=ObjectMeta(name="m"), status=NodeStatus(allocatable={"cpu": 1}))
    world.workers.wake(world.engine.on_node(node))
    world.add("middle", cpu=1, says=150)
    assert world.go_on() == []
    assert world.promise("head") == 100
    assert world.reason("middle") == DELAYS


def test_an_owner_within_its_guarantee_passes_a_borrower() -> None:
    world = BackfillWorld(guaranteed=2)
    world.add("runs", "b", cpu=1, says=1000)
    world.add("head", "b", cpu=3, says=1000)
    assert world.go_on() == ["runs", "head"]
    world = BackfillWorld(guaranteed=2)
    world.add("runs", "b", cpu=1, says=1000)
    assert world.go_on() == ["runs"]
    world.add("head", "b", cpu=3, says=1000)
    world.add("owner", "a", cpu=2)
    assert world.go_on() == ["owner"], "otherwise the two would wait for each other"


def test_a_unit_that_passes_a_head_waiting_for_its_quota_stands_behind_the_next() -> None:
    """Otherwise units of its quota that ask for less would pass the owner forever."""
    world = BackfillWorld(guaranteed=3)
    world.add("runs", "a", cpu=2, says=1000)
    assert world.go_on() == ["runs"]
    world.add("head", "b", cpu=3, says=1000)
    world.add("owner", "a", cpu=3, says=50)
    world.add("silent", "a", cpu=1)
    world.add("short", "a", cpu=1, says=500)
    assert world.go_on() == ["short"]
    assert world.reason("silent") == ("NoMaximumExecutionTime", "owner")


def test_an_owner_passes_a_head_that_starts_waiting_for_its_guarantee_while_asleep() -> None:
    world = BackfillWorld(guaranteed=1)
    world.add("short", "b", cpu=1, says=100, lasts=20)
    world.add("long", "b", cpu=3, says=1000)
    assert world.go_on() == ["short", "long"]
    world.add("head", "b", cpu=1)
    world.add("owner", "a", cpu=1)
    assert world.go_on() == []
    assert world.reason("head")[0] == "OverQuotaMax"
    assert world.go_on(20) == ["owner"], "otherwise the two would wait for each other"


def test_a_guarantee_that_is_no_longer_requested_has_waiting_units_asked_again() -> None:
    world = BackfillWorld(guaranteed=3)
    third = build_quota("third", cpu=4, guaranteed=1, parent="top")
    world.workers.wake(world.engine.on_quota(third))
    world.workers.wake(world.engine.on_queue(build_queue("elsewhere", takes="*")))
    world.add("runs", "b", cpu=3, says=1000)
    assert world.go_on() == ["runs"]
    world.add("head", "b", cpu=4, says=50)
    owner = build_unit("owner", "a", cpu=3, queue="elsewhere")
    world.workers.wake(world.engine.on_queue_unit(owner))
    world.add("small", "third", says=50)
    assert world.go_on() == []
    assert world.reason("small") == DELAYS
    world.workers.wake(world.engine.on_queue_unit_gone(owner))
    assert world.go_on() == ["small"]


def test_room_taken_by_another_unit_has_waiting_units_asked_again() -> None:
    world = BackfillWorld()
    world.add("runs", cpu=2, says=100)
    world.add("head", cpu=4, says=50)
    world.add("small", says=200)
    assert world.go_on() == ["runs"]
    assert world.promise("head") == 100
    other = admitted(declaring(build_unit("other", "b", queue="shared"), 1000), 900)
    world.workers.wake(world.engine.on_queue_unit(other))
    assert world.go_on() == ["small"], "the head starts later, whatever passes it"


def test_an_end_that_moves_first_has_waiting_units_asked_again() -> None:
    world = BackfillWorld(cpu=6)
    booked = admitted(declaring(build_unit("booked", "a", cpu=2, queue="shared"), 100), 900)
    world.workers.wake(world.engine.on_queue_unit(booked))
    world.add("runs", cpu=3, says=200)
    assert world.go_on() == ["runs"]
    world.add("head", cpu=3, says=50)
    world.add("small", says=5000)
    assert world.go_on(50) == []
    assert world.promise("head") == 150, "what is booked has not begun to run"
    assert world.workers.alarms == {"shared": 100}
    world.second, world.workers.now = 100, 100.0
    world.workers.wake(["shared"])
    assert world.go_on() == ["small"], "beside the head, when both have ended"


PREEMPTS = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}


def for_whom_others_leave(world: BackfillWorld) -> list[str]:
    return [each.unit for each in world.workers.decided if isinstance(each, Preempt)]


def whom_it_would_evict(world: BackfillWorld, key: str) -> list[str]:
    record, queue = world.engine.record(key), world.engine.queues.find("shared")
    assert record is not None
    assert record.info is not None
    assert queue is not None
    found = world.engine.admission.would_evict(queue, record.info, wall_time(WALL))
    return [] if found is None else [victim.unit for victim in found.victims]


@pytest.mark.parametrize("says", [None, 50])
def test_a_unit_behind_a_head_evicts_none_until_the_head_leaves(says: int | None) -> None:
    world = BackfillWorld("Priority", annotations=PREEMPTS)
    world.add("first", cpu=2, says=1000, priority=20)
    world.add("victim", cpu=2, says=600)
    assert world.go_on() == ["first", "victim"]
    world.add("head", cpu=4, says=100, priority=10)
    world.add("behind", cpu=2, says=says, priority=5)
    assert world.go_on() == []
    assert world.reason("behind")[0] == "OverQuotaMax"
    assert for_whom_others_leave(world) == []
    assert whom_it_would_evict(world, "ns/behind") == []
    record = world.engine.record("ns/head")
    assert record is not None
    world.workers.wake(world.engine.on_queue_unit_gone(record.unit))
    assert whom_it_would_evict(world, "ns/behind") == ["ns/victim"]
    world.go_on()
    assert for_whom_others_leave(world) == ["ns/behind"]


def test_a_head_has_others_evicted() -> None:
    world = BackfillWorld("Priority", annotations=PREEMPTS)
    world.add("victim", cpu=4, says=600)
    assert world.go_on() == ["victim"]
    world.add("head", cpu=4, priority=10)
    world.go_on()
    assert for_whom_others_leave(world) == ["ns/head"]


def test_a_unit_that_passes_a_head_evicts_none_whose_pods_are_waited_for() -> None:
    world = BackfillWorld("Priority", annotations={**PREEMPTS, WAIT_FOR_PODS_RUNNING: "true"})
    world.add("first", cpu=2, says=100, priority=20)
    assert world.go_on() == ["first"]
    slow = admitted(declaring(build_unit("slow", "a", queue="shared"), 90), 900)
    world.workers.wake(world.engine.on_queue_unit(slow))
    world.add("head", cpu=4, says=50, priority=10)
    world.add("short", says=20, priority=5)
    assert world.go_on() == []
    assert world.reason("short")[0] == "WaitingForPodsRunning"
    assert for_whom_others_leave(world) == []
    record = world.engine.record("ns/head")
    assert record is not None
    world.workers.wake(world.engine.on_queue_unit_gone(record.unit))
    world.go_on()
    assert for_whom_others_leave(world) == ["ns/short"]


def test_only_the_first_positions_are_looked_at() -> None:
    world = with_head()
    for number in range(100):
        world.add(f"silent{number:03}", cpu=1)
    world.add("short", says=1)
    assert world.go_on() == []
    assert world.reason("short")[0] == "BeyondMaxDepth"


def test_without_the_time_no_unit_passes() -> None:
    world = with_head()
    world.add("small", says=1)
    world.workers.wake(["shared"])
    world.workers.wall = None
    world.workers.run()
    assert world.reason("small") == DELAYS


def test_a_fork_decides_alike() -> None:
    world = with_head()
    world.add("long", says=91)
    world.go_on()
    twin = world.engine.fork()
    want = world.engine.backfill.promise_of_unit("ns/head", START)
    assert twin.backfill.promise_of_unit("ns/head", START) == want
    record = world.engine.record("ns/head")
    assert record is not None
    assert twin.on_queue_unit_gone(record.unit) == ("shared",)
    assert twin.decide_next("shared", 0.0, wall_time(world.workers.wall)) is not None
    assert world.reason("long") == DELAYS


def test_the_running_scheduler_backfills_by_the_wall_clock() -> None:
    with running_world() as world:
        world.add_quota(metadata={"annotations": {BACKFILL: "true"}})
        world.start()
        world.add_unit("runs", cpu=3, maximumExecutionTimeSeconds=100)
        world.settle()
        ready = {
            "type": "PodsReady",
            "status": "True",
            "reason": "PodsRunning",
            "message": "",
            "lastTransitionTime": rfc3339(world.clock.now()),
        }
        runs = {"status": {"phase": "Running", "conditions": [ready]}}
        world.direct.patch("queueunits", "runs", runs, namespace="default", subresource="status")
        world.add_unit("head", cpu=4, maximumExecutionTimeSeconds=50)
        world.settle(60.0)
        for name, seconds in (("short", 30), ("long", 60)):
            world.add_unit(name, maximumExecutionTimeSeconds=seconds)
        world.add_unit("silent")
        world.settle(5.0)
        assert world.phase("short") == "Dequeued"
        world.finish("short")
        world.settle(5.0)
        got = {name: world.reason(name) for name in ("head", "long", "silent")}
        assert got == {
            "head": "OverQuotaMax",
            "long": "WouldDelayHead",
            "silent": "NoMaximumExecutionTime",
        }
        world.finish("runs")
        world.settle(5.0)
        assert world.phase("head") == "Dequeued"


def refused_in(world: BackfillWorld, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the units that are refused from now on."""
    refused: list[str] = []
    decide_next = world.engine.decide_next

    def note(queue: str, now: float, wall: datetime) -> Decision:
        decision = decide_next(queue, now, wall)
        if isinstance(decision, Refused):
            refused.append(decision.unit.removeprefix("ns/"))
        return decision

    monkeypatch.setattr(world.engine, "decide_next", note)
    return refused


def test_a_waiting_unit_is_not_asked_while_it_would_delay_its_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = with_head()
    world.add("small", says=200)
    assert world.go_on() == []
    refused = refused_in(world, monkeypatch)
    world.add("quick", says=50)
    assert world.go_on() == ["quick"]
    assert (world.reason("small"), refused) == (DELAYS, []), "there is no room for it any more"
    assert world.go_on(50) == []
    assert (world.reason("small"), refused) == (DELAYS, []), "there is room, and a head"
    assert world.go_on(40) == ["head"]
    assert world.reason("small")[0] == "OverQuotaMax", "without a head it is asked"
    assert world.go_on(50) == ["small"]


def test_a_queue_whose_units_all_sleep_is_called_when_one_may_pass() -> None:
    world = with_head()
    world.add("small", says=95)
    assert world.go_on() == []
    assert world.declare("runs", 130) == ("shared",)
    assert world.declare("runs", 140) == (), "once is enough"
    world.workers.wake(("shared",))
    assert world.go_on() == ["small"]


@pytest.mark.parametrize("how", ["deleted", "backs off"])
def test_another_queue_is_called_if_the_called_one_cannot_be_asked(how: str) -> None:
    world = with_head()
    world.add("small", says=95)
    world.add_queue("other")
    world.add("second head", cpu=4, says=50, queue="other")
    world.add("second", says=95, queue="other")
    assert world.go_on() == []
    (called,) = world.declare("runs", 130)
    waits = {"shared": "small", "other": "second"}
    if how == "deleted":
        wakes = world.engine.on_queue_gone(called)
    else:
        world.engine.turns.back_off(called, until=1e9)
        wakes = world.declare("runs", 140)
    del waits[called]
    ((queue, unit),) = waits.items()
    assert queue in wakes
    world.workers.wake((queue,))
    assert world.go_on() == [unit]


class Refuses:
    """Refuses a unit until it is told otherwise, for no reason that charges or quotas have."""

    name = "Refuses"

    def __init__(self) -> None:
        self.refuses = ""

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Refuse the one."""
        if info.unit.metadata.name != self.refuses:
            return None
        return Refusal(reason=Reason.REFUSED_BY_PLUGIN, quota=info.quota)


def test_a_unit_that_a_plugin_refuses_waits_with_that_plugin() -> None:
    plugin = Refuses()
    world = with_head(plugins=[plugin])
    world.add("small", says=200)
    assert world.go_on() == []
    assert world.reason("small") == DELAYS
    plugin.refuses = "small"
    world.add("quick", says=20)
    assert world.go_on() == ["quick"]
    assert world.reason("small") == DELAYS, "its quota has no room: the plugin is not asked"
    assert world.go_on(20) == []
    assert world.reason("small")[0] == "RefusedByPlugin"


def test_a_queue_that_was_not_asked_learns_when_to_ask_again() -> None:
    world = BackfillWorld(cpu=6)
    world.add_queue("other")
    world.add("late", cpu=3, says=80)
    world.add("runs", cpu=2, says=100)
    assert world.go_on() == ["late", "runs"]
    world.add("head", cpu=4, says=50)
    world.add("other head", cpu=6, says=50, queue="other")
    world.add("small", says=500)
    world.add("other small", says=500, queue="other")
    assert world.go_on() == []
    # Its pods stop: from second 20 on it would end after the other one.
    stopped = world.runs.pop("late").unit
    status = replace(stopped.status, conditions=(), phase="Dequeued")
    meta = replace(stopped.metadata, resource_version="1000")
    calls = world.engine.on_queue_unit(replace(stopped, metadata=meta, status=status))
    assert len(calls) == 1, "one queue is asked, and all are reviewed"
    world.workers.wake(calls)
    assert world.go_on() == []
    assert world.workers.alarms == {"shared": 20.0, "other": 20.0}


def test_a_filter_that_raises_during_a_review_loses_no_unit() -> None:
    plugin = Raises()
    world = with_head(plugins=[plugin])
    world.add("small", says=120)
    assert world.go_on() == []
    plugin.raises = True
    world.workers.wake(world.declare("runs", 130))
    with pytest.raises(UndecidedError, match="ns/small"):
        world.go_on()
    plugin.raises = False
    world.workers.wake(["shared"])
    assert world.go_on() == ["small"]


class Raises:
    """Raises for the unit `small` while it is told to."""

    name = "Raises"

    def __init__(self) -> None:
        self.raises = False

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Raise, or let pass."""
        if self.raises and info.unit.metadata.name == "small":
            raise RuntimeError("out of order")
        return None


def test_a_repaired_charge_that_only_a_plugin_knew_has_waiting_units_asked() -> None:
    world = with_head()
    world.add("small", says=120)
    assert world.go_on() == []
    info = at_least(world.info("small"))
    world.plugin.quotas.charge("phantom", "a", world.plugin.demand_of(info))
    world.workers.wake(world.declare("runs", 130))
    assert world.go_on() == [], "there is no room beside the phantom"
    world.workers.wake(world.engine.charge_anew(Uid("phantom")))
    assert world.go_on() == ["small"]


class RefusesByItself(Refuses):
    """Answers what-if questions, though its answers follow from nothing that the engine knows."""

    def check_without(
        self, info: QueueUnitInfo, _released: Sequence[Uid], _added: Sequence[Supposed] = ()
    ) -> Refusal | None:
        """Answer as `check` does."""
        return self.check(info)


def test_a_unit_waits_with_a_plugin_whose_answers_do_not_follow_charges_alone() -> None:
    plugin = RefusesByItself()
    world = with_head(plugins=[plugin])
    world.add("small", says=120)
    assert world.go_on() == []
    plugin.refuses = "small"
    world.workers.wake(world.declare("runs", 130))
    assert world.go_on() == []
    assert world.reason("small")[0] == "RefusedByPlugin"
    plugin.refuses = ""
    world.add("unrelated", "far", queue="none")
    assert world.go_on() == ["small"]


def test_a_unit_with_the_reason_of_another_process_is_asked() -> None:
    world = with_head()
    world.add("small", says=200)
    queue = world.engine.queues.find("shared")
    assert queue is not None
    said = Refusal(reason=Reason.OVER_QUOTA_MAX, quota="a")
    moment = Moment(0.0, wall_time(START))
    assert world.engine.admission.let_sleep(queue, world.info("small"), said, START, moment)
    assert world.reason("small")[0] == "OverQuotaMax"
    world.workers.wake(world.declare("runs", 110))
    assert world.go_on() == []
    assert world.reason("small") == DELAYS
