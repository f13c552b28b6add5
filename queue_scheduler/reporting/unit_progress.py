"""What becomes of admitted units, without a series per unit: run times, open checks, missing pods.

It follows the objects: a unit is looked at when it changes, and a scrape reads only those that
stand still. Times are those in the objects, so that they are the same after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.cache.admission_check_rules import PENDING
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reporting.metrics import MAX_CHECK_NAMES
from shared_api.metrics import OTHER
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import (
    ADMITTED,
    FINAL_PHASES,
    FINISHED,
    PODS_READY,
    RELEASED_PHASES,
    Phase,
)
from shared_api.timestamps import read_time

_BEFORE_PODS: Final = RELEASED_PHASES - {Phase.RUNNING}

ValueT = TypeVar("ValueT")


class UnitProgress(Collector):
    """Follows units. Written by the thread of the informer; scrapes read copies.

    Args:
        shared: The engine, asked for the queue of a unit that has ended.
        on_run_ended: Takes the queue and the seconds of a run that has ended by itself.
        clock: The time.
        has_check: Returns whether there is an AdmissionCheck of a name; others count as `OTHER`.
    """

    def __init__(
        self,
        shared: SharedEngine,
        on_run_ended: Callable[[str, float], None],
        clock: Clock,
        has_check: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._shared = shared
        self._on_run_ended = on_run_ended
        self._clock = clock
        self._has_check = has_check
        # By unit: its open checks, each with the time of its last answer.
        self._open_checks: dict[str, Mapping[str, datetime]] = {}
        self._without_pods: dict[str, datetime] = {}

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Take a unit that was added, changed or deleted, before the engine does."""
        if new is None:
            if old is not None:
                self._open_checks.pop(old.metadata.key, None)
                self._without_pods.pop(old.metadata.key, None)
            return
        key, phase = new.metadata.key, new.status.phase
        if phase in FINAL_PHASES and old is not None and old.metadata.uid == new.metadata.uid:
            self._count_run(old, new)
        _put(self._open_checks, key, self._checks_of(new) if phase == Phase.RESERVED else None)
        _put(self._without_pods, key, self._podless_since(new) if phase in _BEFORE_PODS else None)

    def collect(self) -> Iterator[Metric]:
        """Return the families (prometheus calls this)."""
        now = self._clock.now()
        yield from self._check_families(now)
        units = GaugeMetricFamily(
            "koord_queue_units_without_pods",
            "Units that are admitted, and of whose job no pod exists yet",
        )
        oldest = GaugeMetricFamily(
            "koord_queue_units_without_pods_seconds",
            "How long the one of them that was admitted first has had no pod, in seconds",
        )
        ages = _ages(self._without_pods.copy().values(), now)
        units.add_metric([], len(ages))
        oldest.add_metric([], max(ages, default=0.0))
        yield from (units, oldest)

    def describe(self) -> list[Metric]:
        """Nothing: names of checks are known only at the scrape, and none is registered twice."""
        return []

    def _check_families(self, now: datetime) -> Iterator[Metric]:
        units = GaugeMetricFamily(
            "koord_queue_admission_check_open_units",
            "Units whose quota is reserved, and that wait for the check",
            labels=["check"],
        )
        oldest = GaugeMetricFamily(
            "koord_queue_admission_check_open_seconds",
            "How long the one of them that waits longest has had no verdict, in seconds",
            labels=["check"],
        )
        waits: dict[str, list[datetime]] = {}
        for checks in self._open_checks.copy().values():
            for name, since in checks.items():
                waits.setdefault(name, []).append(since)
        shown: dict[str, list[datetime]] = {}
        for name, times in sorted(waits.items()):
            is_named = len(shown) < MAX_CHECK_NAMES and self._has_check(name)
            shown.setdefault(name if is_named else OTHER, []).extend(times)
        for name, times in shown.items():
            ages = _ages(times, now)
            units.add_metric([name], len(ages))
            oldest.add_metric([name], max(ages))
        yield from (units, oldest)

    def _count_run(self, old: QueueUnit, new: QueueUnit) -> None:
        """Count the run that has ended, if its pods were seen to run."""
        if old.status.phase != Phase.RUNNING:
            return
        began, ended = _since(old, PODS_READY), _since(new, FINISHED) or self._clock.now()
        if began is not None:
            queue = self._shared.ask(_queue_of, new)
            self._on_run_ended(queue, max(0.0, (ended - began).total_seconds()))

    def _checks_of(self, unit: QueueUnit) -> Mapping[str, datetime] | None:
        """Return the open checks of a reserved unit, each with the time of its last answer."""
        reserved = _since(unit, ADMITTED) or self._clock.now()
        return {
            each.name: read_time(each.last_transition_time) or reserved
            for each in unit.status.admission_checks
            if each.state == PENDING
        } or None

    def _podless_since(self, unit: QueueUnit) -> datetime | None:
        """Return since when a released unit is admitted; None if it has pods."""
        status = unit.status
        pods = sum(each.running + (each.pending or 0) for each in status.admissions)
        if status.pod_state is not None:
            pods += status.pod_state.running + status.pod_state.pending
        return None if pods else _since(unit, ADMITTED) or self._clock.now()


def _put(kept: dict[str, ValueT], key: str, value: ValueT | None) -> None:
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


def _ages(times: Iterable[datetime], now: datetime) -> list[float]:
    return [max(0.0, (now - time).total_seconds()) for time in times]


def _since(unit: QueueUnit, condition: str) -> datetime | None:
    found = find_condition(unit.status.conditions, condition)
    return None if found is None else read_time(found.last_transition_time)


def _queue_of(engine: Engine, unit: QueueUnit) -> str:
    record = engine.record(unit.metadata.key)
    return unit.spec.queue if record is None else record.queue_name
