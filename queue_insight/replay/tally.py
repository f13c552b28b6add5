"""Counts what happens in a replay: waits, use, queues, and what was too small.

All times are seconds from the beginning of the trace. The bottleneck of a waiting job is the quota,
and the resource of it, that refused the first refused unit of its quota in its queue: the units
behind that one wait for it. It is looked at from time to time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from queue_insight.insight.virtual_cluster import Event, EventKind
from queue_insight.replay.jobs import Job
from queue_insight.replay.series import Series
from queue_scheduler.cache.known_units import unit_at
from queue_scheduler.decision import Dequeue, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import OrderKey
from shared_api.resource_list import Amounts, add

HOUR: Final = 3600.0

Chain = Callable[[str], tuple[str, ...]]
"""Returns a quota and its ancestors, by the quota's name."""


class Life(msgspec.Struct):
    """What happened to one job; None if it did not happen.

    Attributes:
        job: The job.
        tenant: Its tenant.
        submit: When it was submitted.
        admitted: When it was admitted first.
        began: When its pods began to run, in the last run.
        finished: When it ended.
        evictions: How often it gave its quota back.
        lost: For how many seconds its pods ran in vain.
        charge: While it is admitted, its quota and what it takes of it.
    """

    job: Job
    tenant: str
    submit: float
    admitted: float | None = None
    began: float | None = None
    finished: float | None = None
    evictions: int = 0
    lost: float = 0.0
    charge: tuple[str, Amounts] | None = None

    @property
    def wait(self) -> float:
        """Seconds until the first admission; of a job that has none, 0."""
        return 0.0 if self.admitted is None else self.admitted - self.submit


class Bottleneck(msgspec.Struct, frozen=True, order=True):
    """What units wait for."""

    quota: str
    resource: str
    reason: str


class Tally:
    """The counts of one replay.

    Args:
        engine: For reading: quotas, and why units wait.
        chain: The quotas that count a quota's usage.
        job_of: From the uid of a unit to its job and its tenant.
        step: Seconds of a step.

    Attributes:
        lives: All jobs that have arrived, by the uid of their unit.
        use: What is used of each resource, by quota.
        waiting: Units that wait, by quota; "": all.
        blocked: For how many seconds units waited for what, all together, by step.
        unrequested: Admitted jobs that request nothing of their quota, by tenant.
    """

    def __init__(
        self,
        engine: Engine,
        chain: Chain,
        job_of: Callable[[str], tuple[Job, str]],
        step: float,
    ) -> None:
        self.lives: dict[str, Life] = {}
        self.use: dict[tuple[str, str], Series] = {}
        self.waiting: dict[str, Series] = {"": Series(step)}
        self.blocked: dict[int, dict[Bottleneck, float]] = {}
        self.unrequested: Counter[str] = Counter()
        self.last = 0.0
        self._engine = engine
        self._chain = chain
        self._job_of = job_of
        self._step = step
        self._lines: Counter[tuple[str, str]] = Counter()
        """Units that wait, by queue and quota."""

    def on_event(self, event: Event) -> None:
        """Take an event of the cluster."""
        uid, now = event.unit.metadata.uid, event.now
        self.last = now
        match event.kind:
            case EventKind.ARRIVED:
                job, tenant = self._job_of(uid)
                self.lives[uid] = Life(job=job, tenant=tenant, submit=now)
                self._wait(*self._place_of(event), now, 1)
            case EventKind.ADMITTED:
                assert isinstance(event.decision, Dequeue), "an admission is a decision"
                self._admit(self.lives[uid], now, event.decision)
            case EventKind.STARTED:
                self.lives[uid].began = now
            case EventKind.FREED:
                life = self.lives[uid]
                self._release(life, now)
                life.evictions += 1
                life.lost += 0.0 if life.began is None else now - life.began
                life.began = None
                self._wait(*self._place_of(event), now, 1)
            case EventKind.FINISHED:
                life = self.lives[uid]
                self._release(life, now)
                life.finished = now
            case EventKind.EVICTED:
                pass

    def look(self, now: float, seconds: float) -> None:
        """Note what the waiting units wait for now, and so for this many seconds."""
        if not self.waiting[""].level:
            return
        found = self.blocked.setdefault(int(now // self._step), {})
        for queue in self._engine.queues:
            if not queue.pending.length:
                continue
            firsts: dict[str, tuple[OrderKey, Refusal]] = {}
            for head, refusal in queue.pending.refused_in_order():
                record = unit_at(self._engine.units, head)
                quota = "" if record.info is None else record.info.quota
                if quota not in firsts or head < firsts[quota][0]:
                    firsts[quota] = (head, refusal)
            for quota, (_, refusal) in firsts.items():
                what = Bottleneck(refusal.quota, refusal.resource, refusal.reason.value)
                waited = self._lines[queue.name, quota] * seconds
                found[what] = found.get(what, 0.0) + waited

    # --- inside -------------------------------------------------------------------------------

    def _place_of(self, event: Event) -> tuple[str, str]:
        """Return queue and quota of a unit that waits; "" if it has none."""
        record = self._engine.record(event.unit.metadata.key)
        info = None if record is None else record.info
        return ("", "") if info is None else (info.queue, info.quota)

    def _wait(self, queue: str, quota: str, now: float, by: int) -> None:
        self._lines[queue, quota] += by
        self.waiting[""].change(now, by)
        series = self.waiting.get(quota)
        if series is None:
            series = self.waiting[quota] = Series(self._step)
        if quota:
            series.change(now, by)

    def _admit(self, life: Life, now: float, decision: Dequeue) -> None:
        if life.admitted is None:
            life.admitted = now
        if decision.unrequested:
            self.unrequested[life.tenant] += 1
        amounts: Amounts = {}
        for grant in decision.grants:
            amounts = add(amounts, grant.amounts) if amounts else grant.amounts
        life.charge = (decision.quota, amounts)
        self._wait(decision.queue, decision.quota, now, -1)
        self._charge(life.charge, now, 1)

    def _release(self, life: Life, now: float) -> None:
        if life.charge is not None:
            self._charge(life.charge, now, -1)
            life.charge = None

    def _charge(self, charge: tuple[str, Amounts], now: float, sign: int) -> None:
        quota, amounts = charge
        for name in self._chain(quota):
            for resource, amount in amounts.items():
                series = self.use.get((name, resource))
                if series is None:
                    series = self.use[name, resource] = Series(self._step)
                series.change(now, sign * amount)


def step_of(seconds: float, most: int = 2000) -> float:
    """Return a step of whole hours, of which at most so many make up the time of a trace."""
    return HOUR * max(1, -(-int(seconds) // int(HOUR * most)))


def blocked_hours(blocked: Mapping[int, Mapping[Bottleneck, float]]) -> dict[Bottleneck, float]:
    """Return for how many hours units waited for what, all units together."""
    total: dict[Bottleneck, float] = {}
    for parts in blocked.values():
        for what, seconds in parts.items():
            total[what] = total.get(what, 0.0) + seconds / HOUR
    return total
