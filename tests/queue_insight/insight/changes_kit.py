"""A small cluster at rest, and what would start one of its units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queue_insight.insight.change import Change
from queue_insight.insight.changes import Changes, find_changes
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import (
    Workers,
    build_queue,
    build_quota,
    build_unit,
    running,
    wall_time,
)
from tests.properties.real_quotas import new_engine

WALL = wall_time(1_800_000_000)
SINCE = Timestamp("2027-01-15T08:00:00Z")
"""`WALL`, as objects have it."""


class SmallCluster:
    """An engine with the queue and quota `a`, of four cores unless said otherwise."""

    def __init__(
        self, *things: ElasticQuota | Queue | Node, mode: QuotaMode = QuotaMode.MAX, cpu: int = 4
    ) -> None:
        self.engine = new_engine(QuotaSettings(mode=mode))
        self.workers = Workers(self.engine)
        self.apply(build_quota("a", cpu=cpu), build_queue("a"), *things)

    def apply(self, *things: ElasticQuota | Queue | QueueUnit | Node) -> list[str]:
        """Tell these objects; return the names of the units that start then."""
        facts = {
            ElasticQuota: Engine.on_quota,
            Queue: Engine.on_queue,
            QueueUnit: Engine.on_queue_unit,
            Node: Engine.on_node,
        }
        for thing in things:
            fact: Any = facts[type(thing)]
            self.workers.wake(fact(self.engine, thing))
            if isinstance(thing, Queue):
                self.workers.wake([thing.metadata.name])
        decided = self.workers.run()
        return [each.unit.split("/")[1] for each in decided if isinstance(each, Dequeue)]

    def run(self, name: str, quota: str = "a", *, cpu: int, **more: Any) -> None:
        """Add a unit whose pods run."""
        unit = build_unit(name, quota, cpu=cpu, version=1, **more)
        self.apply(running(unit, 2, since=SINCE))

    def wait(self, name: str, quota: str = "a", **more: Any) -> None:
        """Add a unit that does not start."""
        assert self.apply(build_unit(name, quota, **more)) == [], f"{name} starts"

    def changes(self, name: str) -> Changes:
        """Return what would start a waiting unit."""
        found = find_changes(self.engine.fork(), f"ns/{name}", WALL)
        assert found is not None, f"{name} does not wait"
        return found


def eight_of_sixteen() -> SmallCluster:
    """Return a quota in which two jobs run, and four more of the same size wait."""
    cluster = SmallCluster(cpu=16)
    for number in (1, 2):
        cluster.run(f"big-{number}", cpu=8)
    for number in range(3, 7):
        cluster.wait(f"big-{number}", cpu=8, created=number)
    return cluster


def build_node(name: str, *, cpu: int) -> Node:
    """Return a node with this many cores."""
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": cpu}))


def of_kind(changes: Changes, kind: str) -> list[Change]:
    """Return the changes of a kind."""
    return [change for change in changes.found if change.kind == kind]


def the(changes: Changes, kind: str) -> Change:
    """Return the one change of a kind."""
    (change,) = of_kind(changes, kind)
    return change


def names(keys: Iterable[str]) -> list[str]:
    """Return the names of units by their keys."""
    return [key.split("/")[1] for key in keys]
