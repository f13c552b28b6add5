"""A queue that backfills, in whole seconds; its units run no longer than they declared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.backfill import Promise
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.extension_points import Plugin
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import BACKFILL
from tests.properties.engine_kit import (
    Workers,
    build_queue,
    build_quota,
    build_unit,
    changed,
    declaring,
    running,
)

START = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())


def stamp(second: int) -> Timestamp:
    """Return the wall time of a second of the world."""
    return rfc3339(datetime.fromtimestamp(START + second, UTC))


class Run(NamedTuple):
    """A running unit."""

    unit: QueueUnit
    ends: int


class BackfillWorld:
    """One queue of quotas `a` and `b` under `top`, and elsewhere the quota `far`."""

    def __init__(
        self,
        policy: str = "FIFO",
        mode: QuotaMode = QuotaMode.MAX,
        *,
        cpu: int = 4,
        backfills: bool = True,
        guaranteed: int = 0,
        annotations: dict[str, str] | None = None,
        plugins: Sequence[Plugin] = (),
        validates: bool = True,
    ) -> None:
        self.plugin = ElasticQuotaPlugin(QuotaSettings(mode=mode))
        self.engine = Engine(PluginRunner([self.plugin, Priority(), *plugins]), BUILT_IN_POLICIES)
        self.workers = Workers(self.engine, validates=validates)
        self.second = 0
        self.runs: dict[str, Run] = {}
        self.started: dict[str, int] = {}
        self.says: dict[str, int | None] = {}
        self._lasts: dict[str, int] = {}
        self._version = 10
        node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": cpu}))
        self.engine.on_node(node)
        least = cpu if mode is QuotaMode.MIN else 0
        self.engine.on_quota(build_quota("top", cpu=cpu, guaranteed=cpu))
        self.engine.on_quota(
            build_quota("a", cpu=cpu, guaranteed=max(least, guaranteed), parent="top")
        )
        self.engine.on_quota(build_quota("b", cpu=cpu, guaranteed=0, parent="top"))
        self.engine.on_quota(build_quota("far", cpu=cpu, guaranteed=least))
        written = dict(annotations or {})
        if backfills:
            written[BACKFILL] = "true"
        self._policy, self._written = policy, written
        self.add_queue("shared")

    def add_queue(self, name: str) -> None:
        """Add a queue that takes units of all quotas."""
        queue = build_queue(name, self._policy, takes="*", annotations=self._written)
        self.workers.wake(self.engine.on_queue(queue))

    def add(
        self,
        name: str,
        quota: str = "a",
        *,
        cpu: int = 1,
        says: int | None = None,
        lasts: int | None = None,
        priority: int = 0,
        least: int | None = None,
        queue: str = "shared",
    ) -> None:
        """Add a unit that declares how long it may run; `lasts` is how long it will.

        With `least`, one core is one pod, and the unit can start with that many.
        """
        version = self._next()
        unit = build_unit(
            name,
            quota,
            cpu=cpu,
            pods=() if least is None else (("main", cpu, 1, least),),
            queue=queue,
            priority=priority,
            created=version,  # only the order counts
            version=version,
        )
        self.says[name] = says
        most = 1000 if says is None else says
        self._lasts[name] = most if lasts is None else min(lasts, most)
        self.workers.wake(self.engine.on_queue_unit(declaring(unit, says)))

    def declare(self, name: str, says: int) -> tuple[str, ...]:
        """Let a running unit declare another end; return the queues to ask, which are not asked."""
        unit = declaring(self.runs[name].unit, says)
        meta = replace(unit.metadata, resource_version=str(self._next()))
        self.runs[name] = self.runs[name]._replace(unit=replace(unit, metadata=meta))
        return self.engine.on_queue_unit(self.runs[name].unit)

    def go_on(self, seconds: int = 0) -> list[str]:
        """Let time pass, second by second; return the units that start, in order."""
        started = self._decide()
        for _ in range(seconds):
            self.second += 1
            over = sorted(name for name, run in self.runs.items() if run.ends <= self.second)
            for name in over:
                unit = self.runs.pop(name).unit
                ended = changed(unit, self._next(), "Succeed", admissions=())
                self.workers.wake(self.engine.on_queue_unit(ended))
            started += self._decide()
        return started

    def _decide(self) -> list[str]:
        started: list[str] = []
        self.workers.wall = START + self.second
        while not self.workers.is_quiet():
            decision = self.workers.step()
            if isinstance(decision, Dequeue):
                started.append(self._start(decision))
        return started

    def _start(self, decision: Dequeue) -> str:
        record = self.engine.record(decision.unit)
        assert record is not None
        name = record.unit.metadata.name
        unit = running(record.unit, self._next(), since=stamp(self.second), grants=decision.grants)
        self.workers.wake(self.engine.on_written(decision, unit))
        self.runs[name] = Run(unit, self.second + self._lasts[name])
        self.started[name] = self.second
        return name

    def _next(self) -> int:
        self._version += 1
        return self._version

    # --- what there is --------------------------------------------------------------------------

    def promise(self, name: str) -> int | None:
        """Return the second that a unit was promised, or None."""
        found: Promise | None = self.engine.backfill.promise_of_unit(
            f"ns/{name}", START + self.second
        )
        return found.at - START if found is not None else None

    def reason(self, name: str) -> tuple[str, str]:
        """Return (reason, unit ahead) of a waiting unit."""
        refusal = refusal_of_unit(self.engine, f"ns/{name}")
        assert refusal is not None, f"{name} does not wait"
        return refusal.reason.value, refusal.other.removeprefix("ns/")

    def info(self, name: str) -> QueueUnitInfo:
        """Return what the engine knows of a unit."""
        record = self.engine.record(f"ns/{name}")
        assert record is not None
        assert record.info is not None
        return record.info

    def waiting(self) -> list[str]:
        """The line."""
        return [record.unit.metadata.name for record in pending_units(self.engine.units, "shared")]
