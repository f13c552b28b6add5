"""Rounds of eviction over time, with an engine and the units of a server."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.decision import Decision, Preempt, Refused, Rest, WriteFailure
from queue_scheduler.preemption.nomination import for_whom_mark
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Evictions, QueueUnit
from shared_api.testing.object_builders import elastic_quota
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    ENABLE_PREEMPTION,
    PREEMPT_RUNNING,
    RECLAIM_POLICY,
)
from tests.properties.engine_kit import (
    WALL,
    Workers,
    admitted,
    build_queue,
    build_unit,
    changed,
    wall_time,
)
from tests.properties.real_quotas import new_engine

TAKES_ALL = {AVAILABLE_QUOTA[0]: "*"}
PREEMPTS = TAKES_ALL | {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
BEGIN = 10.0
LONG = 5_000.0

Reports = list[tuple[float, str]]
"""What happened, with its second."""


class Times:
    """An engine, its workers' clock, and units as the server has them; writes succeed at once."""

    def __init__(self) -> None:
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.workers = Workers(self.engine)
        self.workers.now = BEGIN
        self.units: dict[str, QueueUnit] = {}
        self.version = 1
        self.reported: Reports = []
        self.writes = True

    # --- facts --------------------------------------------------------------------------------

    def quota(
        self,
        name: str,
        cpu: int,
        parent: str = "",
        guaranteed: int = 0,
        reclaims: str = "Any",
        *,
        said: dict[str, str] | None = None,
        is_parent: bool = False,
    ) -> None:
        """Write a quota; one with a guarantee reclaims it from any borrower."""
        is_parent = is_parent or name == "top"
        least = {"cpu": guaranteed} if guaranteed else {}
        quota = elastic_quota(
            name, namespace="kq", min=least, max={"cpu": cpu}, parent=parent, is_parent=is_parent
        )
        annotations = ({RECLAIM_POLICY: reclaims} if guaranteed else {}) | (said or {})
        quota = replace(quota, metadata=replace(quota.metadata, annotations=annotations))
        self.workers.wake(self.engine.on_quota(quota))

    def queue(
        self, name: str, said: dict[str, str], priority: int = 0, policy: str = "Priority"
    ) -> None:
        """Write a queue."""
        queue = build_queue(name, policy, priority=priority, annotations=said)
        self.workers.wake(self.engine.on_queue(queue))
        self.workers.wake([name])

    def put(self, unit: QueueUnit) -> None:
        """Write a unit."""
        self.version += 1
        meta = replace(unit.metadata, resource_version=str(self.version))
        self.units[unit.metadata.name] = unit = replace(unit, metadata=meta)
        self.workers.wake(self.engine.on_queue_unit(unit))

    def runs(self, name: str, quota: str, cpu: int, priority: int = 0, queue: str = "q") -> None:
        """Add a running unit."""
        unit = build_unit(name, quota, queue=queue, cpu=cpu, priority=priority)
        self.put(admitted(unit, 1, "Running"))

    def comes(self, name: str, quota: str, cpu: int, priority: int = 9, queue: str = "q") -> None:
        """Put a unit into the queue, and ask."""
        self.put(build_unit(name, quota, queue=queue, cpu=cpu, priority=priority))
        self.ask()

    def edit(self, name: str, **spec: object) -> None:
        """Edit a unit, and ask."""
        unit = self.units[name]
        self.put(replace(unit, spec=replace(unit.spec, **spec)))
        self.ask()

    def frees(self, name: str) -> None:
        """Let a unit be stopped, and ask; it is not requeued."""
        self.put(changed(self.units[name], 1, "TimeoutBackoff", admissions=(), conditions=()))
        self.ask()

    def returns(self, name: str) -> None:
        """Let an evicted unit be stopped, and ask; it is requeued."""
        back = Condition(type="Evicted", status="False", last_transition_time=self._wall())
        unit = self.units[name]
        self.put(changed(unit, 1, "Enqueued", admissions=(), conditions=(back,)))
        self.ask()

    def has_to_leave(
        self, name: str, message: str, reason: str = "Preempted", queue: str = ""
    ) -> None:
        """Write that a unit has to leave, for a unit of a queue."""
        asked = Condition(
            type="Evicted",
            status="True",
            reason=reason,
            message=message,
            last_transition_time=self._wall(),
        )
        unit = self.units[name]
        count = 0 if unit.status.evictions is None else unit.status.evictions.count
        evictions = Evictions(count=count + 1, last_time=self._wall(), queue=queue)
        self.put(changed(unit, 1, conditions=(asked,), evictions=evictions))

    def _wall(self) -> Timestamp:
        return Timestamp(rfc3339(wall_time(WALL + int(self.workers.now))))

    # --- time ---------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask the woken queues."""
        self.workers.wall = WALL + int(self.workers.now)
        while not self.workers.is_quiet():
            self.take(self.workers.step())

    def take(self, decision: Decision) -> None:
        """Note what was decided, and write it."""
        if isinstance(decision, Rest | Refused):
            return
        name = decision.unit.partition("/")[2]
        now = self.workers.now
        if isinstance(decision, Preempt):
            names = [victim.unit.partition("/")[2] for victim in decision.victims]
            self.reported.append((now, f"{name} evicts {' and '.join(names)}"))
            failed = () if self.writes else decision.victims
            for each in names if self.writes else ():
                self.has_to_leave(
                    each, f"{for_whom_mark(decision.unit)}(...)", queue=decision.queue
                )
            self.workers.wake(self.engine.on_preempted(decision, failed))
        elif self.writes:
            self.reported.append((now, f"{name} starts"))
            self.version += 1
            unit = admitted(self.units[name], self.version)
            self.units[name] = unit = changed(unit, self.version, last_allocate_time=self._wall())
            self.workers.wake(self.engine.on_written(decision, unit))
        else:
            failure = WriteFailure.REFUSED
            self.workers.wake(self.engine.on_write_failed(decision, failure, why="denied"))

    def wait(self, seconds: float) -> Reports:
        """Let time pass; return what happened since the last call."""
        self.workers.let_pass(seconds, self.ask)
        reported, self.reported = self.reported, []
        return reported
