"""A queue's priority ceiling counts wherever a priority does, and is reported once."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.decision import Dequeue, Preempt, Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queue_objects.queue_status import read_figures
from shared_api.well_known_labels import (
    MAX_PRIORITY,
    PRIORITY_THRESHOLD,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import (
    Workers,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
    started,
)
from tests.queue_scheduler.round_kit import LONG, PREEMPTS, TAKES_ALL, Times

MOST = 2**31 - 1


def in_order(engine: Engine, queue: str = "a") -> list[str]:
    return [record.unit.metadata.name for record in pending_units(engine.units, queue)]


def bands(engine: Engine) -> dict[str, int]:
    queue = engine.queues.find("a")
    assert queue is not None
    return {
        unit_key(key).partition("/")[2]: queue.rules.band_of(key)
        for key in queue.pending.in_order()
    }


def priority_of(engine: Engine, unit: str) -> int:
    record = engine.record(f"ns/{unit}")
    assert record is not None
    return record.priority


@pytest.fixture
def workers() -> Workers:
    """A queue of a quota without room; two wait, and the younger one has the higher priority."""
    engine, _ = new_engine()
    engine.on_quota(build_quota("a", cpu=0))
    workers = Workers(engine)
    workers.wake(engine.on_queue(build_queue("a")))
    for created, (name, priority) in enumerate((("old", 10), ("young", MOST))):
        workers.wake(
            engine.on_queue_unit(build_unit(name, "a", created=created, priority=priority))
        )
    workers.run()
    return workers


def set_ceiling(
    workers: Workers, ceiling: str | None, policy: str = "Priority", **said: str
) -> list[str]:
    """Write the queue; return the units that start then."""
    annotations = said if ceiling is None else {**said, MAX_PRIORITY: ceiling}
    workers.wake(workers.engine.on_queue(build_queue("a", policy, annotations=annotations)))
    return started(workers.run())


@pytest.mark.parametrize("policy", ["Priority", "Block", "Intelligent"])
@pytest.mark.parametrize(
    ("ceiling", "want"),
    [
        pytest.param("5", ["old", "young"], id="both are lowered: creation counts"),
        pytest.param("10", ["old", "young"], id="one is lowered to the other's"),
        pytest.param("11", ["young", "old"], id="one is lowered, and stays above"),
        pytest.param("-3", ["old", "young"], id="below 0"),
        pytest.param(None, ["young", "old"], id="no ceiling"),
    ],
)
def test_the_order_follows_the_lowered_priorities(
    workers: Workers, policy: str, ceiling: str | None, want: list[str]
) -> None:
    set_ceiling(workers, ceiling, policy)
    assert in_order(workers.engine) == want
    set_ceiling(workers, None, policy)
    assert in_order(workers.engine) == ["young", "old"], "and it is lifted at once"


def test_a_unit_that_may_start_now_is_asked(workers: Workers) -> None:
    """Of policy Block: the young one does not fit, and no longer stands before the old one."""
    engine = workers.engine
    set_ceiling(workers, None, "Block")
    workers.wake(engine.on_queue_unit(build_unit("young", "a", cpu=2, priority=MOST, version=2)))
    workers.wake(engine.on_quota(build_quota("a", cpu=1)))
    assert started(workers.run()) == []
    assert set_ceiling(workers, "10", "Block") == ["old"]


def test_the_threshold_of_intelligent_applies_to_lowered_priorities(workers: Workers) -> None:
    said = {PRIORITY_THRESHOLD: "11"}
    set_ceiling(workers, None, "Intelligent", **said)
    assert bands(workers.engine) == {"young": 0, "old": 1}
    set_ceiling(workers, "10", "Intelligent", **said)
    assert bands(workers.engine) == {"young": 1, "old": 1}


def test_the_status_shows_the_priority_that_counts(workers: Workers) -> None:
    set_ceiling(workers, "7")
    figures = read_figures(workers.engine, "a", max_items=9)
    assert figures is not None
    assert [item[2] for item in figures.items] == [7, 7]


def test_a_lowered_unit_is_reported_once(workers: Workers) -> None:
    engine = workers.engine
    workers.wake(engine.on_queue_unit(build_unit("low", "a", priority=3)))
    set_ceiling(workers, "10")
    (notice,) = engine.take_notices()
    assert (notice.kind, notice.key, notice.reason) == (
        "QueueUnit", "ns/young", "IgnoredAnnotation",
    )  # fmt: skip
    want = "priority 2147483647 counts as 10, which is the koord-queue/max-priority of queue a"
    assert notice.note == want
    set_ceiling(workers, "10", **{PRIORITY_THRESHOLD: "2"})  # all are placed again
    touched = build_unit("young", "a", created=1, priority=MOST, version=5)
    workers.wake(engine.on_queue_unit(changed(touched, 6, message="still waits")))
    assert engine.take_notices() == []
    set_ceiling(workers, "9")
    got = {notice.key: notice.note for notice in engine.take_notices()}
    assert got.keys() == {"ns/old", "ns/young"}, "another number"


def test_unread_notices_do_not_pile_up(workers: Workers) -> None:
    for ceiling in range(5):
        set_ceiling(workers, str(ceiling))
    assert len(workers.engine.units.lowered_lately) == 2
    for name in ("old", "young"):
        record = workers.engine.record(f"ns/{name}")
        assert record is not None
        workers.engine.on_queue_unit_gone(record.unit)
    assert workers.engine.take_notices() == []


def test_an_unreadable_ceiling_leaves_the_previous_one(workers: Workers) -> None:
    set_ceiling(workers, "10")
    workers.engine.take_notices()
    set_ceiling(workers, "ten")
    (notice,) = workers.engine.take_notices()
    assert (notice.kind, notice.reason) == ("Queue", "UnreadableAnnotation")
    assert notice.note.endswith("what was in force stays: 10")
    assert in_order(workers.engine) == ["old", "young"]


def test_no_unit_preempts_with_the_priority_above_the_ceiling() -> None:
    times = Times()
    times.quota("a", 1)
    times.queue("q", {**PREEMPTS, MAX_PRIORITY: "10"})
    times.runs("busy", "a", 1, priority=10)
    times.workers.now += LONG
    times.comes("greedy", "a", 1, priority=MOST)
    assert not any(isinstance(each, Preempt) for each in times.workers.decided)
    times.queue("q", {**PREEMPTS, MAX_PRIORITY: "11"})
    times.ask()
    (decision,) = (each for each in times.workers.decided if isinstance(each, Preempt))
    assert (decision.priority, [each.priority for each in decision.victims]) == (11, [10])


def test_running_units_are_lowered_too() -> None:
    """A victim counts by its ceiling, too, even if that is set while it runs."""
    times = Times()
    times.quota("a", 1)
    times.queue("q", PREEMPTS)
    times.runs("busy", "a", 1, priority=MOST)
    times.workers.now += LONG
    times.comes("fair", "a", 1, priority=20)
    times.queue("q", {**PREEMPTS, MAX_PRIORITY: "20"})
    times.ask()
    assert priority_of(times.engine, "busy") == 20
    assert not any(isinstance(each, Preempt) for each in times.workers.decided)
    times.edit("busy", priority=19)
    assert [what for _, what in times.wait(60.0)] == ["fair evicts busy"]


def test_a_unit_in_flight_is_overtaken_by_lowered_priorities() -> None:
    times = Times()
    times.quota("a", 9)
    said = {**PREEMPTS, WAIT_FOR_PODS_RUNNING: "true"}
    times.queue("q", {**said, MAX_PRIORITY: "10"})
    times.comes("first", "a", 1, priority=10)
    times.workers.now += LONG
    times.comes("greedy", "a", 1, priority=MOST)
    assert not any(isinstance(each, Preempt) for each in times.workers.decided)
    refusal = refusal_of_unit(times.engine, "ns/greedy")
    assert refusal is not None
    assert refusal.reason is Reason.WAITING_FOR_PODS_RUNNING


def test_a_decision_that_is_being_written_follows_the_ceiling() -> None:
    times = Times()
    times.quota("a", 1)
    times.queue("q", TAKES_ALL)
    times.writes = False
    times.put(build_unit("u", "a", queue="q", priority=MOST))
    (decision,) = times.workers.run()[:1]
    assert isinstance(decision, Dequeue)
    times.queue("q", {**TAKES_ALL, MAX_PRIORITY: "5"})
    assert priority_of(times.engine, "u") == 5
    times.engine.validate()


@pytest.mark.parametrize("occupies_quota", [False, True])
def test_the_ceiling_is_removed_and_restored_with_its_queue(*, occupies_quota: bool) -> None:
    times = Times()
    times.quota("a", 1)
    times.queue("q", {**TAKES_ALL, MAX_PRIORITY: "5"})
    times.runs("busy", "a", 1, priority=MOST)
    if not occupies_quota:
        times.comes("u", "a", 1, priority=MOST)
    name = "busy" if occupies_quota else "u"
    times.engine.on_queue_gone("q")
    assert priority_of(times.engine, name) == MOST
    times.engine.validate()
    times.queue("q", {**TAKES_ALL, MAX_PRIORITY: "5"})
    assert priority_of(times.engine, name) == 5
    times.engine.validate()


def test_the_owner_of_a_quota_reclaims_by_lowered_priorities() -> None:
    """The victim's queue has the ceiling, the owner's has none."""
    times = Times()
    times.quota("top", 4)
    times.quota("owner", 4, "top", guaranteed=2, reclaims="LowerPriority")
    times.quota("borrower", 4, "top")
    times.queue("q", TAKES_ALL)
    times.queue("bounded", {**TAKES_ALL, MAX_PRIORITY: "5"})
    times.runs("busy", "borrower", 4, priority=MOST, queue="bounded")
    times.workers.now += LONG
    times.comes("owned", "owner", 2, priority=7)
    (decision,) = (each for each in times.workers.decided if isinstance(each, Preempt))
    assert [(each.unit, each.priority) for each in decision.victims] == [("ns/busy", 5)]
