"""A virtual cluster with real quotas, for tests: what happened, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from msgspec.structs import replace

from queue_insight.insight.virtual_cluster import Arrival, Event, Outside, VirtualCluster
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.strict_mode import NOT_STRICT, StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota
from shared_api.testing.virtual_clock import EPOCH
from shared_api.well_known_labels import MANAGED_BY
from tests.properties.engine_kit import build_queue, build_unit
from tests.properties.real_quotas import new_engine

START = Moment(0.0, EPOCH)
RUN = 100.0


def town_engine(
    *queues: Queue, cpu: int = 4, mode: QuotaMode = QuotaMode.MAX, strict: StrictMode = NOT_STRICT
) -> Engine:
    """Return an engine with quota "a" of this many cores, and these queues (default: "a")."""
    engine = new_engine(QuotaSettings(mode=mode), strict)
    engine.on_quota(elastic_quota("a", namespace="kq", min={"cpu": cpu}, max={"cpu": cpu}))
    for queue in queues or (build_queue("a", "FIFO"),):
        engine.on_queue(queue)
    return engine


def job(name: str, cpu: int = 1, *, managed: bool = True, **more: Any) -> QueueUnit:
    """Return the unit of a job of quota "a"."""
    marks = {MANAGED_BY: "koord-queue-controllers"} if managed else {}
    unit = build_unit(name, "a", cpu=None, pods=(("main", cpu, 1),), annotations=marks, **more)
    return replace(unit, metadata=replace(unit.metadata, resource_version="0"))


class Story:
    """Notes what happens in a virtual cluster.

    Args:
        engine: The engine.
        arrivals: (time, unit), in order.
        seconds: How long pods run, by name of the job; the others run for `RUN`.
        moment: The beginning.
        **outside: Of `Outside`.
    """

    def __init__(
        self,
        engine: Engine,
        arrivals: Iterable[tuple[float, QueueUnit]] = (),
        *,
        seconds: Mapping[str, float] | None = None,
        moment: Moment = START,
        **outside: Any,
    ) -> None:
        runs = seconds or {}

        def run_seconds(unit: QueueUnit, ran: float) -> float:
            return runs.get(unit.metadata.name, RUN) - ran

        self.lines: list[str] = []
        self.events: list[Event] = []
        self.cluster = VirtualCluster(
            engine,
            moment,
            Outside(
                run_seconds=lambda unit, ran: runs.get(unit.metadata.name, RUN) - ran, **outside
            ),
            [Arrival(now, unit) for now, unit in arrivals],
            self._note,
        )

    def run(self, until: float = inf) -> list[str]:
        """Let time pass; return what has happened until now: `seconds name what`."""
        self.cluster.run(until)
        return self.lines

    def of(self, name: str) -> list[str]:
        """Return what happened to one job: `seconds what`."""
        split = (line.split(" ", 2) for line in self.lines)
        return [f"{at} {what}" for at, of, what in split if of == name]

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self.lines.append(f"{event.now:g} {event.unit.metadata.name} {event.kind}")
