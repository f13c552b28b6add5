"""Builds the controllers of units (`unit_reconciler`).

Each has its own queue of keys and its own thread. It must get changes after the engine: handlers
are called in the order in which they are added.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from queue_scheduler.cycles.dequeue_cycle import UnitReader
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.unit_controllers.admission_checks import AdmissionCheckCycle, CheckObserver
from queue_scheduler.unit_controllers.eviction import UnitEvictions
from queue_scheduler.unit_controllers.node_timeout import NodeTimeouts
from queue_scheduler.unit_controllers.pods_elsewhere import PodsElsewhere
from queue_scheduler.unit_controllers.requeue import BackoffRequeue
from queue_scheduler.unit_controllers.scale_up import ScaleUp
from queue_scheduler.unit_controllers.spent_budgets import SpentBudgets
from queue_scheduler.unit_controllers.unit_reconciler import UnitAccess
from queue_scheduler.unit_controllers.window_evictions import WindowEvictions
from shared_api.client.discovery import served_version
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.client.resource_types import ADMISSION_CHECK_VERSIONS
from shared_api.client.writes import WriteSink
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.work_queue import WorkQueue

NewWorkQueue = Callable[[str], tuple[Callable[[Step], LoopThread], WorkQueue[Any]]]
"""Returns, for a name, a queue of keys and a function that makes the thread for its step."""


@dataclass(frozen=True)
class UnitParts:
    """What the controllers have in common."""

    shared: SharedEngine
    writes: WriteSink
    units: SharedInformer[QueueUnit]
    read_unit: UnitReader
    may_write: Callable[[], bool]
    clock: Clock
    rng: random.Random
    report: Callable[[Notice], None]


class UnitControllers:
    """Builds the controllers, one method each."""

    def __init__(self, parts: UnitParts, new_work_queue: NewWorkQueue) -> None:
        self._parts = parts
        self._new_work_queue = new_work_queue

    def follow_backoffs(self) -> None:
        """Requeue units whose backoff is over."""
        run, access = self._access("backoff-returns")
        returns = BackoffRequeue(access, self._parts.clock)
        run(returns.step)
        self._parts.units.add_handler(returns.on_queue_unit)

    def follow_growth(self) -> None:
        """Grant running units what they have grown by."""
        run, access = self._access("growth-cycle")
        growth = ScaleUp(access, self._parts.clock)
        run(growth.step)
        self._parts.units.add_handler(growth.on_queue_unit)

    def report_pods_elsewhere(self) -> None:
        """Tell of living pods that name another quota than their unit."""
        run, access = self._access("pods-elsewhere")
        told = PodsElsewhere(access, self._parts.clock)
        run(told.step)
        self._parts.units.add_handler(told.on_queue_unit)

    def follow_budgets(self) -> None:
        """Tell of spent budgets, and evict units where a budget asks for that."""
        run, access = self._access("spent-budgets")
        run(SpentBudgets(access, self._parts.clock).step)

    def follow_windows(self) -> None:
        """Evict what runs as a window begins, where its reservation asks for that."""
        run, access = self._access("window-evictions")
        run(WindowEvictions(access, self._parts.clock).step)

    def follow_evictions(self, pods: SharedInformer[Pod]) -> None:
        """Do the job's side for units without controllers."""
        run, access = self._access("unit-evictions")
        evictions = UnitEvictions(access, self._parts.clock, self._parts.rng)
        run(evictions.step)
        self._parts.units.add_handler(evictions.on_queue_unit)
        pods.add_handler(evictions.on_pod)

    def follow_checks(
        self,
        queues: SharedInformer[Queue],
        timeout_seconds: float,
        observer: CheckObserver,
    ) -> AdmissionCheckCycle:
        """Act on admission checks; return the controller, whose handler takes AdmissionChecks."""
        parts = self._parts
        run, access = self._access("admission-checks")
        checks = AdmissionCheckCycle(access, parts.clock, parts.rng, timeout_seconds, observer)
        run(checks.step)
        parts.units.add_handler(checks.on_queue_unit)
        queues.add_handler(checks.on_queue)
        return checks

    def follow_nodes(
        self,
        queues: SharedInformer[Queue],
        timeout_seconds: float,
        count: Callable[[str], None],
    ) -> None:
        """Requeue units that get no nodes, or whose queue is stopped before they do."""
        parts = self._parts
        run, access = self._access("node-verdicts")
        verdicts = NodeTimeouts(
            access, count, parts.clock, parts.rng, timeout_seconds=timeout_seconds
        )
        run(verdicts.step)
        parts.units.add_handler(verdicts.on_queue_unit)
        queues.add_handler(verdicts.on_queue)

    def _access(self, name: str) -> tuple[Callable[[Step], LoopThread], UnitAccess]:
        run, due = self._new_work_queue(name)
        parts = self._parts
        return run, UnitAccess(
            shared=parts.shared,
            writes=parts.writes,
            note_written=parts.units.note_written,
            may_write=parts.may_write,
            due=due,
            read_unit=parts.read_unit,
            report=parts.report,
        )


# --- admission checks as far as their kind is served ----------------------------------------------
# Watches Kueue's AdmissionChecks in the version that the cluster serves, if it serves any.


def watch_admission_checks(
    client: ResourceClient,
    make_informer: Callable[[ResourceType[AdmissionCheck]], SharedInformer[AdmissionCheck]],
    start: Callable[[SharedInformer[AdmissionCheck]], None],
    clock: Clock,
) -> KindWatch[AdmissionCheck]:
    """Return the watch of the kind. Few clusters serve it, so that it is missing is no warning.

    A Queue that lists checks says in its condition what is missing.
    """
    return KindWatch(
        "AdmissionCheck (kueue.x-k8s.io)",
        find=lambda: served_version(client, ADMISSION_CHECK_VERSIONS),
        make_informer=make_informer,
        clock=clock,
        start=start,
        is_expected=False,
    )


def follow_kind(
    watch: KindWatch[Any],
    shared: SharedEngine,
    on_served: Callable[..., tuple[str, ...]],
    then: Callable[[], None] = lambda: None,
) -> Step:
    """Return the step that looks for a kind, and reports to the engine whether it is served.

    `then` is called after each report.
    """
    told: bool | None = None

    def step() -> float:
        nonlocal told
        rest = watch.step()
        # Only when it changes: whoever follows the engine looks again after each call.
        if watch.is_ready() and (are_served := watch.is_served()) != told:
            shared.apply(on_served, are_served=are_served)
            told = are_served
            then()
        return rest

    return step
