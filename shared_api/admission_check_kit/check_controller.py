"""Assembles a check controller: the `Work` of its program.

units, AdmissionChecks ──► informers ──► work queues ──► UnitChecks, CheckActivity ──► client
further kinds (follow) ──────┘ which units and checks      ▲
                               to reconcile              judge

No unit is judged before this process leads and all caches are complete, or while AdmissionChecks
are not served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from shared_api.admission_check_kit.check_activity import CheckActivity
from shared_api.admission_check_kit.check_notices import CheckNotices
from shared_api.admission_check_kit.judging import CleansUpUnits, Judge, NeedsContext
from shared_api.admission_check_kit.unit_checks import UnitChecks
from shared_api.backoff import Backoff
from shared_api.client.discovery import served_version
from shared_api.client.event_recorder import EventRecorder
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.client.resource_types import ADMISSION_CHECK_VERSIONS, QUEUE_UNITS
from shared_api.client.write_dispatcher import WriteDispatcher
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import (
    WAIT_SECONDS,
    Handler,
    InformerSettings,
    SharedInformer,
)
from shared_api.leader_warmup import LeaderWarmup
from shared_api.local_program import Check
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread, Step, stop_all
from shared_api.program import Host
from shared_api.work_queue import WorkQueue

DEFAULT_WORKERS: Final = 4
"""Number of units that are judged at once."""

RETRY_BACKOFF: Final = Backoff(base_seconds=0.2, cap_seconds=60.0, jitter=0.2)
"""Pauses between retries of a unit or check whose reconcile failed."""

OPENING_SECONDS: Final = 0.1
OPEN_SECONDS: Final = 1.0
"""Intervals between checks whether units may be judged: while a cache is filling, and otherwise."""

BY_CHECK: Final = "check"
EVENT_WRITER: Final = "event-writer"
"""Name of the thread that writes events, in metrics."""

log = structlog.get_logger("check_controller")


class CheckController:
    """The `Work` of a check controller, and the `CheckContext` of its judge.

    Args:
        host: The process.
        controller_name: `spec.controllerName` of the AdmissionChecks of this controller.
        judge: The rule.
        workers: Number of units that are judged at once.
        informer_wait_seconds: How long a step of an informer waits for events; 0 if one thread
            calls all `steps`.
    """

    def __init__(
        self,
        host: Host,
        controller_name: str,
        judge: Judge,
        *,
        workers: int = DEFAULT_WORKERS,
        informer_wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._host = host
        self._controller_name = controller_name
        self._judge = judge
        self._informer_wait_seconds = informer_wait_seconds
        self._threads: list[LoopThread] = []
        self._steps: list[Step] = []
        self._watches: list[KindWatch[Any]] = []
        self._runs_threads = False
        self._units_store: IndexedStore[QueueUnit] = IndexedStore(
            indexes={BY_CHECK: _check_names}, transform=slim_unit
        )
        self._checks_store: IndexedStore[AdmissionCheck] = IndexedStore()
        self._notices = CheckNotices(
            host.metrics.registry,
            self._build_events(),
            lambda name: self._checks_store.get(name) is not None,
        )
        self._units = self._informer(QUEUE_UNITS, self._units_store, InformerSettings())
        self._checks = self.follow(
            ADMISSION_CHECK_VERSIONS, self._on_check, store=self._checks_store
        )
        self._warmup = LeaderWarmup(
            host.leadership,
            are_caches_ready=self._are_caches_ready,
            caches=self._caches,
            on_open=lambda: self._wake("opening"),
            on_prepared=host.on_prepared,
            clock=host.clock,
        )
        self._is_open = False
        self._run("takeover", self._warmup.step)
        self._run("opening", self.step)
        self._unit_keys = self._work_queue("admission-check-units")
        self._check_names = self._work_queue("admission-checks")
        self._build_reconcilers(workers)
        if isinstance(judge, NeedsContext):
            judge.attach(self)

    # --- for the judge --------------------------------------------------------------------------

    @property
    def client(self) -> ResourceClient:
        """The client of the API server."""
        return self._host.client

    @property
    def clock(self) -> Clock:
        """The clock of the process."""
        return self._host.clock

    def is_open(self) -> bool:
        """Return whether units and checks are judged now."""
        return self._is_open

    def may_write(self) -> bool:
        """Return whether a write that begins now ends while this process leads."""
        return self._warmup.may_write()

    def follow(
        self,
        versions: Sequence[ResourceType[Any]],
        on_change: Handler[Any],
        *,
        store: IndexedStore[Any] | None = None,
        settings: InformerSettings | None = None,
    ) -> KindWatch[Any]:
        """Keep a cache of a kind; see `CheckContext`."""
        kept: IndexedStore[Any] = IndexedStore() if store is None else store
        chosen = InformerSettings() if settings is None else settings

        def make(version: ResourceType[Any]) -> SharedInformer[Any]:
            informer = self._informer(version, kept, chosen)
            informer.add_handler(on_change)
            return informer

        def start(informer: SharedInformer[Any]) -> None:
            self._start_informer(informer)
            self.recheck_all()  # the judge may depend on whether the kind is served

        best = versions[0]
        watch: KindWatch[Any] = KindWatch(
            f"{best.kind} ({best.group or 'v1'})",
            find=lambda: served_version(self._host.client, versions),
            make_informer=make,
            clock=self._host.clock,
            start=start,
            on_gone=self.recheck_all,
        )
        self._watches.append(watch)
        self._notices.show_kind(best.kind, watch.is_served)
        self._run(f"kind-{best.plural}", watch.step)
        return watch

    def recheck_unit(self, key: str) -> None:
        """Queue a unit to be judged again."""
        self._unit_keys.add(key)

    def recheck_check(self, name: str) -> None:
        """Queue an AdmissionCheck, and all units that need it, to be judged again."""
        self._check_names.add(name)
        for unit in self._units_store.by_index(BY_CHECK, name):
            self._unit_keys.add(unit.metadata.key)

    def recheck_all(self) -> None:
        """Queue all units and checks to be judged again."""
        for check in self._checks_store.list():
            self._check_names.add(check.metadata.name)
        for unit in self._units_store.list():
            if unit.status.admission_checks:
                self._unit_keys.add(unit.metadata.key)
        if isinstance(self._judge, CleansUpUnits):
            for key in self._judge.units_to_clean_up():
                self._unit_keys.add(key)

    # --- parts ----------------------------------------------------------------------------------

    def _informer(
        self, version: ResourceType[Any], store: IndexedStore[Any], settings: InformerSettings
    ) -> SharedInformer[Any]:
        host = self._host
        return SharedInformer(
            host.client,
            version,
            clock=host.clock,
            rng=host.rng,
            settings=msgspec.structs.replace(settings, wait_seconds=self._informer_wait_seconds),
            store=store,
            observer=host.metrics.informers.of_resource(version.plural),
        )

    def _start_informer(self, informer: SharedInformer[Any]) -> None:
        if self._runs_threads:
            informer.start(self._host.metrics.process.on_loop_error)

    def _build_events(self) -> EventRecorder:
        host = self._host
        self._dispatcher = WriteDispatcher(
            host.client,
            flow=host.flow,
            clock=host.clock,
            writable_seconds=host.leadership.writable_seconds,
            on_error=partial(host.metrics.process.on_loop_error, EVENT_WRITER),
        )
        writer = self._dispatcher.new_worker()
        writer.wake = self._run(EVENT_WRITER, writer.step).wake
        recorder = EventRecorder(
            self._dispatcher,
            host.clock,
            reporting_controller=self._controller_name,
            reporting_instance=host.identity,
        )
        recorder.wake = self._run("event-recorder", recorder.step).wake
        return recorder

    def _work_queue(self, name: str) -> WorkQueue[str]:
        host = self._host
        return WorkQueue(
            host.clock,
            backoff=lambda attempt: RETRY_BACKOFF.seconds(attempt, host.rng),
            observer=host.metrics.work_queues.of_queue(name),
            on_ready=lambda: self._wake(name),
        )

    def _build_reconcilers(self, workers: int) -> None:
        units = UnitChecks(
            self._judge,
            units=self._units_store,
            own_check=self._own_check,
            queue=self._unit_keys,
            client=self._host.client,
            gate=self,
            clock=self._host.clock,
            observer=self._notices,
        )
        self._units.add_handler(units.on_unit)
        activity = CheckActivity(
            self._judge,
            checks=self._checks_store,
            own_check=self._own_check,
            served=lambda: self._checks.resource_type,
            queue=self._check_names,
            client=self._host.client,
            gate=self,
            clock=self._host.clock,
            observer=self._notices,
        )
        for number in range(workers):
            self._run(f"admission-check-units/{number}", units.step)
        self._run("admission-checks", activity.step)

    def _own_check(self, name: str) -> AdmissionCheck | None:
        check = self._checks_store.get(name)
        own = check is not None and check.spec.controller_name == self._controller_name
        return check if own else None

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new if new is not None else old
        if check is not None and check.spec.controller_name == self._controller_name:
            self.recheck_check(check.metadata.name)

    def _run(self, name: str, step: Step) -> LoopThread:
        thread = self._host.spawn(name, step)
        self._threads.append(thread)
        self._steps.append(step)
        return thread

    def _wake(self, name: str) -> None:
        for thread in self._threads:
            if thread.name.partition("/")[0] == name:
                thread.wake()

    def _running_informers(self) -> list[SharedInformer[Any]]:
        followed = (watch.informer for watch in self._watches)
        return [self._units, *(each for each in followed if each is not None)]

    def _are_caches_ready(self) -> bool:
        return self._units.has_synced() and all(watch.is_ready() for watch in self._watches)

    def _caches(self) -> list[SharedInformer[Any]]:
        return [each for each in self._running_informers() if each.has_synced()]

    # --- the Work -------------------------------------------------------------------------------

    def step(self) -> float | None:
        """Check whether units may be judged; return the seconds to rest (None: until woken)."""
        if not self._warmup.is_open():
            return None
        informer = self._checks.informer
        was_open = self._is_open
        self._is_open = informer is not None and informer.has_synced()
        if self._is_open and not was_open:
            # Keys that were queued until now were dropped.
            log.info("judging units", controller=self._controller_name)
            self.recheck_all()
        return OPENING_SECONDS if informer is not None and not self._is_open else OPEN_SECONDS

    def start(self) -> None:
        """Fill the caches and start all threads; judging waits for `LeaderWarmup`."""
        self._runs_threads = True
        self._start_informer(self._units)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the workers, then the events, then the caches."""
        self._unit_keys.shut_down()
        self._check_names.shut_down()
        stop_all(self.threads(), self._host.clock)
        self._dispatcher.stop()
        for informer in self._running_informers():
            informer.stop(0.0)

    def on_started_leading(self) -> None:
        """Make `LeaderWarmup` check at once."""
        self._wake("takeover")

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one readiness check per cache, by name."""
        checks: dict[str, Check] = {"queueunits-synced": self._units.check_synced}
        for watch in self._watches:
            plural = watch.name.partition(" ")[0].lower()
            checks[f"{plural}s-synced"] = watch.check
        return checks

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""
        running = (each.thread for each in self._running_informers())
        return (*self._threads, *(thread for thread in running if thread is not None))

    def steps(self) -> list[Step]:
        """Return all current steps, for callers that run them on a single thread."""
        return [*(each.step for each in self._running_informers()), *self._steps]


def slim_unit(unit: QueueUnit, _before: QueueUnit | None) -> QueueUnit:
    """Return a unit without checks stripped of fields that are not read; most units have none."""
    if unit.status.admission_checks:
        return unit
    status = QueueUnitStatus(phase=unit.status.phase)
    return QueueUnit(metadata=unit.metadata.identity(), status=status)


def _check_names(unit: QueueUnit) -> tuple[str, ...]:
    return tuple(state.name for state in unit.status.admission_checks)
