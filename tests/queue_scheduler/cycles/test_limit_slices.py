"""A change of limits is followed slice by slice, and to its end before the first decision."""

from __future__ import annotations

import pytest

from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.limit_slices import REST_SECONDS, LimitSlices
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from shared_api.objects.quota_policy import UserLimit
from shared_api.testing.virtual_clock import EPOCH
from tests.properties.engine_kit import build_policy


@pytest.fixture
def shared() -> SharedEngine:
    log = CallLog(lambda: EPOCH)
    shared = SharedEngine(Engine(PluginRunner([]), BUILT_IN_POLICIES), lambda _: None, log)
    shared.checkpoint(starts_log=True)
    policy = build_policy("p", ["a"], UserLimit(users=("ann",), running=2))
    shared.apply(Engine.on_quota_policy, policy, in_slices=True)
    return shared


def are_in_force(shared: SharedEngine) -> bool:
    return shared.ask(lambda engine: bool(engine.usage.limits.rules))


def test_it_rests_between_slices_and_then_until_it_is_woken(shared: SharedEngine) -> None:
    slices = LimitSlices(shared)
    rests = [slices.step() for _ in range(4)]
    assert rests == [REST_SECONDS, REST_SECONDS, None, None]
    assert are_in_force(shared)


def test_finishing_leaves_nothing_to_do(shared: SharedEngine) -> None:
    assert not are_in_force(shared)
    slices = LimitSlices(shared)
    slices.finish()
    assert are_in_force(shared)
    assert slices.step() is None
