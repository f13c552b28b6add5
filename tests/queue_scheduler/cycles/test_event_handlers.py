"""Informer notifications become facts; they decide nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from queue_scheduler.cycles.event_handlers import EventHandlers
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from shared_api.objects.quota_policy import UserLimit
from shared_api.testing.object_builders import elastic_quota, node, pod, queue, queue_unit
from tests.properties.engine_kit import build_check, build_policy
from tests.reserved_world import build_reservation


class RecordedEngine(SharedEngine):
    """Keeps the names of the facts it receives."""

    def __init__(self) -> None:
        super().__init__(Engine(PluginRunner([Priority()]), BUILT_IN_POLICIES), ignore)
        self.reported: list[str] = []

    def apply(self, fact: Any, *args: Any, **kwargs: Any) -> None:
        self.reported.append(fact.__name__)
        super().apply(fact, *args, **kwargs)


class Threads:
    """Records the worker threads of queues."""

    def __init__(self) -> None:
        self.running: list[str] = []

    def run_for(self, queue: str) -> None:
        if queue not in self.running:
            self.running.append(queue)

    def end_for(self, queue: str) -> None:
        self.running.remove(queue)


def ignore(queues: Iterable[str]) -> None:
    """Wake no queue."""


@pytest.fixture
def shared() -> RecordedEngine:
    return RecordedEngine()


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def handlers(shared: RecordedEngine, threads: Threads, seen: list[str]) -> EventHandlers:
    return EventHandlers(shared, threads, seen.append, lambda: False)


QUEUE, UNIT = queue("team"), queue_unit("a")
QUOTA, POD, NODE = elastic_quota("team"), pod("p"), node("n")


@pytest.mark.parametrize(
    ("handler", "thing", "fact"),
    [
        ("on_queue", QUEUE, "on_queue"),
        ("on_queue_unit", UNIT, "on_queue_unit"),
        ("on_quota", QUOTA, "on_quota"),
        ("on_admission_check", build_check("nodes"), "on_admission_check"),
        ("on_quota_policy", build_policy("p"), "on_quota_policy"),
        ("on_reservation", build_reservation(), "on_reservation"),
        ("on_pod", POD, "on_pod"),
        ("on_node", NODE, "on_node"),
    ],
)
def test_added_changed_gone(
    handlers: EventHandlers, shared: RecordedEngine, handler: str, thing: Any, fact: str
) -> None:
    handle = getattr(handlers, handler)
    handle(None, thing)
    assert shared.reported == [fact]
    handle(thing, None)
    assert shared.reported == [fact, f"{fact}_gone"]
    handle(None, None)
    assert shared.reported == [fact, f"{fact}_gone"]


def test_changes_of_policies_are_followed_in_slices(
    shared: RecordedEngine, threads: Threads
) -> None:
    called: list[bool] = []
    handlers = EventHandlers(
        shared,
        threads,
        lambda _: None,
        lambda: False,
        on_limits_changed=lambda: called.append(True),
    )
    policy = build_policy("p", ["team"], UserLimit(users=("ann",), running=1))
    handlers.on_quota_policy(None, policy)
    assert shared.ask(lambda engine: engine.limit_rules.is_behind)
    assert called == [True]
    handlers.on_quota_policy(policy, None)
    assert called == [True, True]


def test_a_queue_has_its_thread_as_long_as_it_exists(
    handlers: EventHandlers, threads: Threads
) -> None:
    handlers.on_queue(None, QUEUE)
    handlers.on_queue(QUEUE, QUEUE)
    assert threads.running == ["team"]
    handlers.on_queue(QUEUE, None)
    assert threads.running == []


def test_new_or_changed_units_are_passed_to_the_reporter(
    handlers: EventHandlers, seen: list[str]
) -> None:
    handlers.on_queue_unit(None, UNIT)
    handlers.on_queue_unit(UNIT, UNIT)
    handlers.on_queue_unit(UNIT, None)
    assert seen == ["default/a", "default/a"]


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        pytest.param(NODE, [], id="a heartbeat"),
        pytest.param(node("n", allocatable={"cpu": "1"}), ["on_node"], id="other capacity"),
        pytest.param(
            node("n", metadata={"annotations": {"node.koordinator.sh/reservation": "{}"}}),
            ["on_node"],
            id="a reservation",
        ),
    ],
)
def test_only_changes_of_a_nodes_capacity_are_reported(
    handlers: EventHandlers, shared: RecordedEngine, changed: Any, reported: list[str]
) -> None:
    handlers.on_node(NODE, changed)
    assert shared.reported == reported
