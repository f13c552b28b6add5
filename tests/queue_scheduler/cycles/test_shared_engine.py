"""One lock around the engine: facts wake workers, queries change nothing, forks are independent."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

import pytest

from queue_insight.record.digest import digest
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.engine_call import play
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota, queue, queue_unit
from shared_api.testing.virtual_clock import EPOCH, VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit


def unit(name: str, *, cpu: int = 1) -> QueueUnit:
    meta = {
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "creationTimestamp": "2026-11-01T10:00:00Z",
    }
    return queue_unit(name, quota="team", requests={"cpu": cpu}, metadata=meta)


def test_a_fact_wakes_the_queues_that_the_engine_names(kit: ShellKit) -> None:
    kit.woken.clear()
    kit.add_unit("a")
    assert kit.woken == ["team"]
    kit.woken.clear()
    kit.learn("a")
    assert kit.woken == []


def test_a_decision_is_returned_and_a_query_answered(kit: ShellKit) -> None:
    kit.add_unit("a")
    assert isinstance(kit.shared.decide_next("team", 0.0), Dequeue)
    assert isinstance(kit.shared.decide_next("team", 0.0), Rest)
    record = kit.shared.ask(Engine.record, "default/a")
    assert record is not None
    assert record.uid == kit.unit("a")["metadata"]["uid"]


def test_a_decision_wakes_the_next_queue_in_turn(kit: ShellKit) -> None:
    takes = {"annotations": {"koord-queue/available-quota-in-queue": "team"}}
    kit.add_queue("first", metadata=takes, priority=9)
    kit.add_unit("behind")
    kit.add_unit("ahead", queue="first")
    kit.woken.clear()
    rest = kit.decide("team")
    assert isinstance(rest, Rest)
    assert rest.behind == "first"
    assert kit.woken == ["first"]


def test_a_fork_is_independent(kit: ShellKit) -> None:
    kit.add_unit("a", cpu=4)
    fork = kit.shared.fork()
    assert isinstance(fork.decide_next("team", 0.0), Dequeue)
    assert isinstance(kit.decide(), Dequeue)


def test_a_fork_that_nobody_uses_is_freed_at_once(kit: ShellKit) -> None:
    """With 100,000 units it has dicts of some megabytes, and the collector comes seldom."""
    gc.collect()
    gc.disable()
    try:
        fork = kit.shared.fork()
        units = weakref.ref(fork.units)
        del fork
        assert units() is None
    finally:
        gc.enable()


def test_no_garbage_is_collected_while_a_fork_holds_the_lock(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    collects: list[bool] = []
    fork = Engine.fork

    def noting(engine: Engine) -> Engine:
        collects.append(gc.isenabled())
        return fork(engine)

    monkeypatch.setattr(Engine, "fork", noting)
    kit.shared.fork()
    kit.shared.checkpoint()
    assert collects == [False, False]
    assert gc.isenabled()


def test_a_fork_that_fails_leaves_the_garbage_collector_on(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Engine) -> Engine:
        raise MemoryError

    monkeypatch.setattr(Engine, "fork", failing)
    with pytest.raises(MemoryError):
        kit.shared.fork()
    assert gc.isenabled()


def test_wakes_are_passed_on_without_the_lock() -> None:
    """A woken worker may ask at once, on the same thread: with the lock held it would hang."""
    shared: SharedEngine
    asked: list[object] = []

    def on_wake(queues: Iterable[str]) -> None:
        asked.extend(shared.decide_next(name, 0.0) for name in queues)

    engine = Engine(
        PluginRunner([ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)), Priority()]),
        BUILT_IN_POLICIES,
    )
    shared = SharedEngine(engine, on_wake)
    shared.apply(Engine.on_quota, elastic_quota("team", max={"cpu": 4}))
    shared.apply(Engine.on_queue, queue("team"))
    shared.apply(Engine.on_queue_unit, unit("a"))
    assert any(isinstance(one, Dequeue) for one in asked)


def test_every_call_is_recorded_from_a_checkpoint_on() -> None:
    log = CallLog(lambda: EPOCH)
    engine = Engine(PluginRunner([ElasticQuotaPlugin(QuotaSettings())]), BUILT_IN_POLICIES)
    shared = SharedEngine(engine, lambda _: None, log)
    shared.apply(Engine.on_quota, elastic_quota("team", max={"cpu": 4}))
    number, twin = shared.checkpoint(starts_log=True)
    assert number == 1
    shared.apply(Engine.on_queue, queue("team"))
    shared.apply(Engine.on_queue_unit, unit("a"), is_rewound=False)
    shared.apply_derived(lambda _engine: [(Engine.forget_pod, ("ns/p",))])
    shared.decide_next("team", 0.0)
    shared.grow("default/a")
    shared.ask(Engine.record, "default/a")
    calls = log.take()
    assert [call.number for call in calls] == [2, 3, 4, 5, 6]
    names = ["on_queue", "on_queue_unit", "forget_pod", "decide_next", "grow"]
    assert [call.name for call in calls] == names
    for call in calls:
        play(twin, call)
    assert shared.checkpoint()[0] == 6
    assert digest(twin) == shared.ask(digest)


def test_changes_that_follow_from_the_engine_wake_once() -> None:
    woken: list[tuple[str, ...]] = []
    engine = Engine(PluginRunner([ElasticQuotaPlugin(QuotaSettings())]), BUILT_IN_POLICIES)
    shared = SharedEngine(engine, lambda queues: woken.append(tuple(queues)))
    shared.apply(Engine.on_quota, elastic_quota("team", max={"cpu": 4}))
    shared.apply(Engine.on_queue, queue("team"))
    shared.apply_derived(lambda _: [(Engine.on_queue_unit, (unit(name),)) for name in "ab"])
    assert woken == [("team",)]
    shared.apply_derived(lambda _: [])
    assert woken == [("team",)]


def accounted(log: CallLog | None = None) -> tuple[SharedEngine, VirtualClock]:
    """Return an engine that keeps accounts, with a queue, and its clock."""
    clock = VirtualClock()
    plugins = PluginRunner([ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)), Priority()])
    engine = Engine(plugins, BUILT_IN_POLICIES, ledger=Ledger())
    shared = SharedEngine(engine, lambda _: None, log, clock.now)
    shared.checkpoint(starts_log=True)
    shared.apply(Engine.on_quota, elastic_quota("team", max={"cpu": 4}))
    shared.apply(Engine.on_queue, queue("team"))
    return shared, clock


def names_of(log: CallLog) -> list[str]:
    return [call.name for call in log.take()]


def test_the_time_is_told_before_the_first_call_of_each_second() -> None:
    log = CallLog(lambda: EPOCH)
    shared, clock = accounted(log)
    assert names_of(log) == ["on_time", "on_quota", "on_queue"]
    clock.advance(0.9)
    shared.apply(Engine.on_queue_unit, unit("a"))
    clock.advance(0.2)
    assert names_of(log) == ["on_queue_unit"], "at rest nothing is told"
    shared.apply_derived(lambda _: ())
    assert names_of(log) == [], "no call, no time"
    shared.apply(Engine.on_queue_unit, unit("b"))
    shared.apply(Engine.on_queue_unit, unit("c"))
    assert names_of(log) == ["on_time", "on_queue_unit", "on_queue_unit"]
    clock.advance(1.0)
    shared.apply_derived(lambda _: [(Engine.on_queue_unit, (unit("d"),))])
    clock.advance(1.0)
    shared.grow("default/a")
    assert names_of(log) == ["on_time", "on_queue_unit", "on_time", "grow"]
    clock.jump_wall_clock(-30.0)
    clock.advance(20.0)
    shared.grow("default/a")
    assert names_of(log) == ["grow"], "it never goes back"
    clock.advance(20.0)
    shared.decide_next("team", 0.0, clock.now())
    shared.grow("default/a")
    assert names_of(log) == ["decide_next", "grow"], "a decision has the time itself"


def test_a_decision_is_charged_from_its_own_second() -> None:
    shared, clock = accounted()
    shared.apply(Engine.on_queue_unit, unit("a"))
    clock.advance(10.0)
    assert isinstance(shared.decide_next("team", 0.0, clock.now()), Dequeue)
    clock.advance(5.0)
    shared.apply(Engine.on_queue, queue("other"))
    ledger = shared.fork().usage.ledger
    assert ledger is not None
    assert [line.used(ledger.second) for _, line in ledger] == [{"cpu": 5000}]


def test_without_accounts_no_time_is_told() -> None:
    log, clock = CallLog(lambda: EPOCH), VirtualClock()
    shared = SharedEngine(Engine(PluginRunner([]), BUILT_IN_POLICIES), lambda _: None, log)
    shared.checkpoint(starts_log=True)
    clock.advance(5.0)
    shared.apply(Engine.on_queue, queue("team"))
    assert names_of(log) == ["on_queue"]
