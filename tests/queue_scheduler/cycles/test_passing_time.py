"""The time that is told to the engine."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.passing_time import PassingTime
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from shared_api.testing.virtual_clock import EPOCH, VirtualClock
from shared_api.timestamps import rfc3339
from tests.budget_world import HOUR, BudgetWorld, at, budget
from tests.properties.engine_kit import build_pod


def test_the_engine_is_told_only_when_the_time_changes_something() -> None:
    clock, log = VirtualClock(), CallLog(lambda: EPOCH)
    shared = SharedEngine(Engine(PluginRunner([]), BUILT_IN_POLICIES), lambda _: None, log)
    shared.checkpoint(starts_log=True)
    time = PassingTime(shared, clock)
    pod = build_pod("bare", node="")
    made = replace(pod.metadata, creation_timestamp=rfc3339(clock.now()))
    shared.apply(Engine.on_pod, replace(pod, metadata=made))
    log.take()
    got: list[float] = []
    for _ in range(20):
        rest = time.step()
        got += [clock.monotonic() - 1000.0 for call in log.take() if call.name == "on_time"]
        clock.advance(rest)
    assert got == [60.0]


def test_the_engine_is_told_when_a_budget_is_spent_or_begins_anew() -> None:
    world = BudgetWorld("2026-11-30T20:00")
    world.state(budget(2, reserve="None"))
    assert world.ask("runs", 2, 9) == ["runs"]
    clock, told = VirtualClock(), list[int]()
    clock.advance(world.second - clock.now().timestamp())
    shared = SharedEngine(world.engine, lambda _: None)
    time = PassingTime(shared, clock)
    for _ in range(5 * HOUR // 5):
        clock.advance(time.step())
        told += [shared.ask(lambda engine: engine.usage.budgets.accounts.second)]
    seen = sorted(set(told))
    assert at("2026-11-30T21:00") in seen, "spent"
    assert at("2026-12-01T00:00") in seen, "anew"
    assert len(seen) < 5 * HOUR // 600 + 5, "else rarely"
