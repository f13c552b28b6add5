"""A queue with the policy Fair in virtual time: users, their units, and who starts when."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue import FairShare, Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import GROUP, USER
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

HOUR = 3600


class FairTeam:
    """A queue for the quotas vision and speech below one, and the units of their users.

    Attributes:
        second: What the clock says, from 0 on.
    """

    def __init__(
        self,
        fair_share: FairShare | None = None,
        *,
        cpu: int = 100,
        mode: QuotaMode = QuotaMode.MAX,
        policy: str = "Fair",
        validates: bool = True,
        **queue: Any,
    ) -> None:
        quotas = ElasticQuotaPlugin(QuotaSettings(mode=mode))
        self.engine = Engine(PluginRunner([quotas, Priority()]), BUILT_IN_POLICIES)
        self.workers = Workers(self.engine, validates=validates)
        self.second = 0
        self.count = 0
        self._queue = dict(queue)
        self.engine.on_quota(build_quota("top", cpu=cpu))
        for name in ("vision", "speech"):
            self.engine.on_quota(build_quota(name, cpu=cpu, parent="top"))
        self.put_queue(policy, fair_share)
        self.pass_time(0)

    def put_queue(self, policy: str, fair_share: FairShare | None, **fields: Any) -> Queue:
        queue = build_queue("q", policy, takes="*", fair_share=fair_share, **self._queue, **fields)
        self.workers.wake(self.engine.on_queue(queue))
        return queue

    def pass_time(self, seconds: int) -> None:
        self.second += seconds
        self.workers.wall = WALL + self.second
        self.workers.now += seconds
        self.workers.wake(self.engine.on_time(wall_time(self.workers.wall)))

    def ask(self, user: str, cpu: int = 1, quota: str = "vision", **fields: Any) -> str:
        """Create a unit; return its name."""
        self.count += 1
        name = str(fields.pop("name", f"{user}{self.count}"))
        labels = {USER: user} | ({GROUP: group} if (group := fields.pop("group", "")) else {})
        unit = build_unit(
            name, quota, queue="q", created=self.count, labels=labels, cpu=cpu, **fields
        )
        self.put(unit)
        return name

    def put(self, unit: QueueUnit) -> None:
        self.workers.wake(self.engine.on_queue_unit(unit))

    def version(self) -> int:
        self.count += 1
        return self.count

    def rest(self) -> list[str]:
        """Return which units start now, in order."""
        names: list[str] = []
        while True:
            decided = self.workers.run()
            names += started(decided)
            written = [each for each in decided if isinstance(each, Dequeue)]
            for each in written:
                self.written(each)
            if not written and self.workers.is_quiet():
                self.workers.decided.clear()
                return names

    def written(self, decision: Dequeue) -> None:
        """Let the write of a start arrive."""
        record = self.engine.record(decision.unit)
        assert record is not None
        unit = admitted(record.unit, self.version(), grants=decision.grants)
        self.workers.wake(self.engine.on_written(decision, unit))

    def wall_after(self, seconds: int) -> datetime:
        return wall_time(WALL + self.second + seconds)

    def end(self, names: Iterable[str] | str, namespace: str = "ns") -> None:
        for name in (names,) if isinstance(names, str) else names:
            record = self.engine.record(f"{namespace}/{name}")
            assert record is not None
            self.put(changed(record.unit, self.version(), "Succeed", admissions=()))

    def use(self, user: str, cpu: int, seconds: int, **fields: Any) -> None:
        """Let a user have some cores for a while, alone."""
        name = self.ask(user, cpu, **fields)
        assert self.rest() == [name]
        self.pass_time(seconds)
        self.end(name, fields.get("namespace", "ns"))

    def order(self) -> list[str]:
        """Return the pending units in order."""
        queue = self.engine.queues.find("q")
        assert queue is not None
        return [place[-1] for place in queue.pending.in_order()]
