"""Puts the scheduler together: the only module that knows every part.

Decisions::

    informers --> event_handlers --> shared_engine --> engine
                                           |
    queue_worker (one per queue) <---------+
        +--> dequeue_cycle, preemption_cycle --> write_dispatcher --> client

In addition: `unit_controllers` (what follows from one unit and the time), `queue_objects` (queues
of quotas, their status, drains), `reporting` (pending reasons, events, metrics), and `debug_api`.
What other packages add is loaded by name (`additions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from starlette.applications import Starlette

from queue_scheduler.account_store.account_keeper import AccountKeeper
from queue_scheduler.account_store.account_metrics import AccountMetrics
from queue_scheduler.account_store.config_maps import AccountConfigMaps
from queue_scheduler.configuration import Flags, KoordQueueConfiguration
from queue_scheduler.cycles.budget_calendars import BudgetCalendars
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.dequeue_cycle import DequeueCycle
from queue_scheduler.cycles.event_handlers import EventHandlers
from queue_scheduler.cycles.limit_slices import LimitSlices
from queue_scheduler.cycles.passing_time import PassingTime
from queue_scheduler.cycles.preemption_cycle import PreemptionCycle
from queue_scheduler.cycles.queue_worker import QueueWorker, QueueWorkers
from queue_scheduler.cycles.reservation_schedules import ReservationSchedules
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.cycles.undecided_units import UndecidedUnits
from queue_scheduler.decision import Dequeue, Preempt
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.queue_objects.queue_reconciler import QueueReconciler, QueuesAndQuotas
from queue_scheduler.queue_objects.queue_reservation_status import QueueReservationStatuses
from queue_scheduler.queue_objects.queue_status import QueueStatuses
from queue_scheduler.queue_objects.quota_policy_status import QuotaPolicyStatuses
from queue_scheduler.queue_objects.status_writer import StatusWriter
from queue_scheduler.reporting.events import EventReporter, ObjectEvents
from queue_scheduler.reporting.fair_metrics import FairMetrics
from queue_scheduler.reporting.metrics import SchedulerMetrics, StateCollector, UnitMetrics
from queue_scheduler.reporting.pending_reason import PendingReasonWriter
from queue_scheduler.reporting.queue_heads import QueueHeads
from queue_scheduler.reporting.undecodable_objects import UndecodableObjects
from queue_scheduler.reporting.unit_progress import UnitProgress
from queue_scheduler.setup.additions import Attachment, Request, SchedulerParts
from queue_scheduler.setup.engine_building import build_engine
from queue_scheduler.setup.object_caches import ObjectCaches, build_caches, compacting
from queue_scheduler.setup.optional_kind import OptionalKind
from queue_scheduler.setup.plugin_handle import PluginHandle, StoreCaches
from queue_scheduler.setup.quota_sources import QuotaSources
from queue_scheduler.setup.threads import Threads
from queue_scheduler.unit_controllers.admission_checks import AdmissionCheckCycle
from queue_scheduler.unit_controllers.queue_drain import QueueDrain
from queue_scheduler.unit_controllers.self_audit import SelfAudit, Stores
from queue_scheduler.unit_controllers.setup import (
    UnitControllers,
    UnitParts,
    follow_kind,
    watch_admission_checks,
)
from shared_api.backoff import Backoff
from shared_api.client.discovery import KindProbe
from shared_api.client.event_recorder import EventRecorder
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import (
    ELASTIC_QUOTAS,
    QUEUE_RESERVATIONS,
    QUEUE_UNITS,
    QUEUES,
    QUOTA_POLICIES,
)
from shared_api.client.write_dispatcher import WriteDispatcher
from shared_api.debug_api.access import list_units_there
from shared_api.debug_api.server import DebugServer, GuardOf, open_debug_server
from shared_api.informer.indexed_store import ApiObject, IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.leader_warmup import LeaderWarmup
from shared_api.local_program import Check
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread, stop_all
from shared_api.program import Program
from shared_api.quota_names import QuotaNamespaces
from shared_api.version import VERSION

WRITER: Final = "writer"
"""Name of the threads that write, in metrics."""

RETRY_BACKOFF: Final = Backoff(base_seconds=0.2, cap_seconds=30.0, jitter=0.2)
"""Between attempts of the same work: less frequent while the API server is down."""

log = structlog.get_logger("wiring")

ObjectT = TypeVar("ObjectT", bound=ApiObject)


def build_scheduler(
    program: Program,
    flags: Flags,
    configuration: KoordQueueConfiguration,
    requests: Sequence[Request] = (),
) -> Scheduler:
    """Return the scheduler's work, ready to start.

    Args:
        program: The process.
        flags: The command line.
        configuration: The configuration file.
        requests: What the command line asks of additions.

    Raises:
        FlagError: The configuration names an unknown plugin, or arguments that a plugin refuses.
        AddressError: The debug address or its TLS settings are unusable.
    """
    if flags.without_effect:
        log.warning("settings without effect", settings=flags.without_effect)
    return Scheduler(program, flags, configuration, requests)


class Scheduler:
    """The `Work` of koord-queue-scheduler."""

    def __init__(
        self,
        program: Program,
        flags: Flags,
        configuration: KoordQueueConfiguration,
        requests: Sequence[Request],
    ) -> None:
        self._program, self._clock, self._is_started = program, program.clock, False
        self._threads = Threads(program, RETRY_BACKOFF)
        self._workers = QueueWorkers(self._build_worker, self._start_worker)
        settings = self._settings = _engine_settings(flags, configuration)
        sources = QuotaSources(
            configuration.plugin_names(),
            flags,
            lambda kind, settings: self._informer(kind, settings=settings, store=IndexedStore()),
            lambda kind: KindProbe(program.client, kind, program.clock),
            checks_namespaces=settings.checks_namespaces,
        )
        caches = self._caches = build_caches(self._informer, sources, flags.queue_namespace)
        self._policies = self._build_optional(QUOTA_POLICIES, flags.queue_namespace)
        self._reservations = self._build_optional(QUEUE_RESERVATIONS, flags.queue_namespace)
        self._metrics = SchedulerMetrics(program.metrics.registry, has_check=caches.has_check)
        self._warmup = self._build_warmup()
        self._warmup_thread = self._threads.run("takeover", self._warmup.step)
        self._dispatcher = self._build_dispatcher(flags.program.writers)
        events = self._build_events()
        stores = StoreCaches(caches.queues, caches.units, caches.quotas, caches.pods, caches.nodes)
        handle = PluginHandle(stores, flags.oversell_rate, events, self._dispatcher)
        calls = CallLog(self._clock.now) if any(each.records_calls for each in requests) else None
        engine = build_engine(settings, handle)
        self._shared = SharedEngine(engine, self._workers.wake, calls, self._clock.now)
        self._limit_slices = LimitSlices(self._shared)
        handle.attach(self._shared)
        parts = _BuiltParts(
            program=program,
            threads=self._threads,
            caches=caches,
            policies=self._policies,
            reservations=self._reservations,
            shared=self._shared,
            dispatcher=self._dispatcher,
            events=events,
            warmup=self._warmup,
            metrics=self._metrics,
        )
        self._cycle = _build_dequeue_cycle(parts)
        self._undecided = _build_undecided(parts)
        reporter = _build_event_reporter(parts)
        self._preemptions = _build_preemption_cycle(parts, reporter)
        handlers = self._build_reporting(parts, reporter, flags)
        checks = _build_unit_controllers(parts, flags, configuration, reporter)
        _build_self_audit(parts, reporter, repairs=flags.audit_repairs)
        self._accounts = _build_account_keeper(parts, flags, configuration, reporter)
        self._check_watch = self._watch_checks(handlers, checks)
        self._attached = self._attach(requests, parts, flags, calls, reporter)
        self._debug = self._build_debug(flags, handle)
        self._debug_threads = self._debug.threads(
            lambda name, step: program.spawn(name, step, unblock=self._debug.end)
        )

    # --- parts --------------------------------------------------------------------------------

    def _informer(
        self,
        resource_type: ResourceType[ObjectT],
        *,
        settings: InformerSettings | None = None,
        store: IndexedStore[ObjectT] | None = None,
    ) -> SharedInformer[ObjectT]:
        program = self._program
        if store is None:
            store = IndexedStore(transform=compacting())
        return SharedInformer(
            program.client,
            resource_type,
            clock=program.clock,
            rng=program.rng,
            settings=settings,
            store=store,
            observer=program.metrics.informers.of_resource(resource_type.plural),
        )

    def _build_optional(self, kind: ResourceType[ObjectT], namespace: str) -> OptionalKind[ObjectT]:
        """Build the cache of a kind that the cluster may lack."""
        settings = InformerSettings(namespace=namespace)
        return OptionalKind(
            kind,
            self._program.client,
            lambda kind: self._informer(kind, settings=settings),
            self._start_informer,
            self._clock,
        )

    def _build_warmup(self) -> LeaderWarmup:
        return LeaderWarmup(
            self._program.leadership,
            are_caches_ready=self._are_caches_ready,
            caches=lambda: [each for each in self._followed() if each.has_synced()],
            on_open=self._wake_all,
            on_prepared=self._on_prepared,
            clock=self._program.clock,
        )

    def _on_prepared(self, seconds: float) -> None:
        """Tell the engine what its decisions may depend on: limits, and the stored accounts."""
        self._limit_slices.finish()
        if self._accounts is not None:
            self._accounts.tell()
        self._program.on_prepared(seconds)

    def _build_dispatcher(self, writers: int) -> WriteDispatcher:
        program = self._program
        dispatcher = WriteDispatcher(
            program.client,
            flow=program.flow,
            clock=program.clock,
            writable_seconds=program.leadership.writable_seconds,
            on_room=self._workers.wake_all,
            on_error=partial(program.metrics.process.on_loop_error, WRITER),
        )
        for number in range(writers):
            writer = dispatcher.new_worker()
            writer.wake = self._threads.run(f"{WRITER}/{number}", writer.step).wake
        return dispatcher

    def _build_events(self) -> ObjectEvents:
        program = self._program
        recorder = EventRecorder(
            self._dispatcher,
            self._clock,
            reporting_controller=f"koord-queue/{program.component}",
            reporting_instance=program.identity,
        )
        recorder.wake = self._threads.run("event-recorder", recorder.step).wake
        return ObjectEvents(recorder, self._warmup.is_open)

    def _build_reporting(
        self, parts: _BuiltParts, reporter: EventReporter, flags: Flags
    ) -> EventHandlers:
        """Build the writers of conditions, status and metrics; connect the caches to the engine."""
        caches = parts.caches
        reasons = _build_pending_reasons(parts, reporter)
        reconciler = _build_queue_reconciler(parts, flags.queue_namespace)
        _build_queue_writers(parts)
        _build_collectors(parts, flags.queue_labels)
        _build_undecodable(parts)
        slices = self._threads.run("limit-slices", self._limit_slices.step)
        handlers = EventHandlers(
            self._shared,
            self._workers,
            reasons.on_unit_seen,
            caches.units.is_rewound,
            reasons.on_unit_left,
            slices.wake,
        )
        for quotas in (caches.quotas, *caches.sources.informers.values()):
            quotas.add_handler(handlers.on_quota)
        caches.queues.add_handler(handlers.on_queue)
        caches.quotas.add_handler(reconciler.on_quota)
        caches.queues.add_handler(reconciler.on_queue)
        caches.nodes.add_handler(handlers.on_node)
        caches.units.add_handler(handlers.on_queue_unit)
        caches.pods.add_handler(handlers.on_pod)
        calendars = BudgetCalendars(self._shared, self._clock)
        parts.policies.add_handler(calendars.on_quota_policy)  # before the policy itself
        parts.policies.add_handler(handlers.on_quota_policy)
        parts.policies.add_handler(reconciler.on_quota_policy)  # after the engine knows it
        self._threads.run("budget-calendars", calendars.step)
        served = follow_kind(
            parts.policies.watch,
            self._shared,
            Engine.on_quota_policies_served,
            reconciler.reconcile_all,
        )
        self._threads.run("quota-policy-kind", served)
        self._follow_reservations(parts, handlers)
        return handlers

    def _follow_reservations(self, parts: _BuiltParts, handlers: EventHandlers) -> None:
        schedules = ReservationSchedules(self._shared, self._clock)
        parts.reservations.add_handler(schedules.on_reservation)  # before the reservation itself
        parts.reservations.add_handler(handlers.on_reservation)
        self._threads.run("reservation-schedules", schedules.step)
        served = follow_kind(parts.reservations.watch, self._shared, Engine.on_reservations_served)
        self._threads.run("queue-reservation-kind", served)

    def _watch_checks(
        self, handlers: EventHandlers, checks: AdmissionCheckCycle
    ) -> KindWatch[AdmissionCheck]:
        """Watch Kueue's AdmissionChecks if the cluster serves them; no part waits for that."""

        def make(version: ResourceType[AdmissionCheck]) -> SharedInformer[AdmissionCheck]:
            informer = self._informer(version, store=self._caches.checks)
            informer.add_handler(handlers.on_admission_check)
            informer.add_handler(checks.on_admission_check)
            return informer

        watch = watch_admission_checks(
            self._program.client, make, self._start_informer, self._clock
        )
        served = follow_kind(watch, self._shared, Engine.on_admission_checks_served)
        self._threads.run("admission-check-kind", served)
        return watch

    def _attach(
        self,
        requests: Sequence[Request],
        parts: _BuiltParts,
        flags: Flags,
        calls: CallLog | None,
        reporter: EventReporter,
    ) -> list[Attachment]:
        """Build what the command line asks of additions."""
        own = SchedulerParts(
            program=parts.program,
            flags=flags,
            settings=self._settings,
            shared=parts.shared,
            calls=calls,
            caches=parts.caches,
            are_caches_ready=self._are_caches_ready,
            threads=parts.threads,
            report=reporter.report,
        )
        return [each.attach(own) for each in requests]

    def _build_debug(self, flags: Flags, handle: PluginHandle) -> DebugServer:
        def build(guard_of: GuardOf) -> Starlette:
            # FastAPI takes 13 MB: imported at the first request only.
            from queue_scheduler.debug_api.app import build_app  # noqa: PLC0415 - as said
            from queue_scheduler.debug_api.state_answers import (  # noqa: PLC0415 - as said
                StateAnswers,
            )

            is_leader = self._program.leadership.is_leader
            state = StateAnswers(self._shared, is_leader, self._clock.now)
            access = guard_of(list_units_there)
            added = [each.debug_additions(state) for each in self._attached]
            return build_app(state, access, handle.debug_routes(access), VERSION, added)

        return open_debug_server(self._program, flags.debug, build)

    def _build_worker(self, queue: str) -> QueueWorker:
        return QueueWorker(
            queue,
            self._shared,
            self._carry_out,
            self._may_decide,
            self._undecided,
            self._clock,
            self._metrics,
        )

    def _carry_out(self, decision: Dequeue | Preempt) -> None:
        if isinstance(decision, Preempt):
            self._preemptions.carry_out(decision)
        else:
            self._cycle.carry_out(decision)

    def _start_worker(self, queue: str, worker: QueueWorker) -> LoopThread:
        thread = self._program.spawn(f"queue/{queue}", worker.step)
        thread.start()
        return thread

    # --- the Work -----------------------------------------------------------------------------

    @property
    def informers(self) -> Sequence[SharedInformer[Any]]:
        """The informers; for callers that run all steps on one thread (tests)."""
        checks = self._check_watch.informer
        known = self._followed()
        return known if checks is None else (*known, checks)

    def _followed(self) -> Sequence[SharedInformer[Any]]:
        """Return the informers of what decisions depend on from the first one."""
        optional = (self._policies.informer, self._reservations.informer)
        return (*self._caches.in_order(), *(each for each in optional if each is not None))

    def start(self) -> None:
        """Fill the caches and start all threads; decisions wait for `LeaderWarmup`."""
        self._is_started = True
        self._threads.start()
        for informer in self._caches.in_order():
            self._start_informer(informer)
        for thread in self._debug_threads:
            thread.start()

    def _start_informer(self, informer: SharedInformer[Any]) -> None:
        if self._is_started:  # else the caller of all steps runs it
            informer.start(self._program.metrics.process.on_loop_error)

    def stop(self) -> None:
        """End decisions first, then writes, then the caches."""
        self._workers.stop()
        self._dispatcher.stop()
        informers = self.informers
        followers = [each.thread for each in informers if each.thread is not None]
        for each in self._attached:
            each.end()
        stop_all([*self._threads, *followers, *self._debug_threads], self._clock)
        if self._accounts is not None:
            self._accounts.save()
        self._debug.close()
        for each in self._attached:
            each.close()
        for informer in informers:
            informer.stop(0.0)

    def on_started_leading(self) -> None:
        """Let `LeaderWarmup` check whether the caches are complete."""
        self._warmup_thread.wake()

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per cache."""
        return {
            **self._caches.ready_checks(),
            "quotapolicies-synced": self._policies.check,
            "queuereservations-synced": self._reservations.check,
        }

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""
        return (*self._threads, *self._workers.threads())

    def _are_caches_ready(self) -> bool:
        return all(check()[0] for check in self.ready_checks().values())

    def _may_decide(self) -> bool:
        return self._warmup.is_open() and self._dispatcher.has_room()

    def _wake_all(self) -> None:
        self._workers.wake_all()
        self._threads.wake()


@dataclass(frozen=True)
class _BuiltParts:
    """The parts that all others are built on."""

    program: Program
    threads: Threads
    caches: ObjectCaches
    policies: OptionalKind[QuotaPolicy]
    reservations: OptionalKind[QueueReservation]
    shared: SharedEngine
    dispatcher: WriteDispatcher
    events: ObjectEvents
    warmup: LeaderWarmup
    metrics: SchedulerMetrics

    @property
    def clock(self) -> Clock:
        """The program's clock."""
        return self.program.clock

    def count_errors(self, name: str) -> Callable[[], None]:
        """Return what counts exceptions about single objects in the loop of this name."""
        return self.program.metrics.work_queues.count_errors(name)

    def read_unit(self, namespace: str, name: str) -> QueueUnit:
        """Return a unit as the API server has it."""
        return self.program.client.get(QUEUE_UNITS, namespace, name)


def _build_dequeue_cycle(parts: _BuiltParts) -> DequeueCycle:
    run, unsettled = parts.threads.work_queue("unsettled-writes")
    cycle = DequeueCycle(
        parts.shared,
        parts.dispatcher,
        parts.read_unit,
        parts.caches.units.note_written,
        parts.clock,
        unsettled,
        parts.metrics,
    )
    run(cycle.step)
    return cycle


def _build_undecided(parts: _BuiltParts) -> UndecidedUnits:
    run, due = parts.threads.work_queue("undecided-units")
    undecided = UndecidedUnits(parts.shared, due)
    run(undecided.step)
    return undecided


def _build_event_reporter(parts: _BuiltParts) -> EventReporter:
    reporter = EventReporter(parts.shared, parts.events, parts.warmup.is_open, parts.clock)
    parts.threads.run("notice-events", reporter.step)
    parts.threads.run("wall-time", PassingTime(parts.shared, parts.clock).step)
    return reporter


def _build_preemption_cycle(parts: _BuiltParts, reporter: EventReporter) -> PreemptionCycle:
    return PreemptionCycle(
        parts.shared,
        parts.dispatcher,
        parts.caches.units.note_written,
        reporter.report,
        parts.clock,
        parts.metrics,
    )


def _build_pending_reasons(parts: _BuiltParts, reporter: EventReporter) -> PendingReasonWriter:
    run, due = parts.threads.work_queue("waiting-reporter")
    reasons = PendingReasonWriter(
        parts.shared,
        parts.dispatcher,
        parts.caches.units,
        reporter.report,
        parts.warmup.is_open,
        parts.clock,
        due,
    )
    run(reasons.step)
    return reasons


def _build_queue_reconciler(parts: _BuiltParts, queue_namespace: str) -> QueueReconciler:
    caches = parts.caches
    run, names = parts.threads.work_queue("queue-reconciler")
    reconciler = QueueReconciler(
        parts.program.client,
        queue_namespace,
        QueuesAndQuotas(
            quotas=caches.quotas.store,
            queues=caches.queues.store,
            are_quotas_known=caches.quotas.has_synced,
            is_readable=caches.queues.is_readable,
            are_elastic=caches.sources.are_elastic,
            others=caches.sources.build_queue_sources(caches.queues, queue_namespace, names.add),
            are_policies_known=parts.policies.watch.is_ready,
            stated_for=lambda quota: parts.shared.ask(
                lambda engine: engine.policies.statement_of(quota)
            ),
        ),
        names,
        parts.warmup.may_write,
    )
    run(reconciler.step)
    return reconciler


def _build_queue_writers(parts: _BuiltParts) -> None:
    """Build what writes statuses of queues, policies and reservations, and what drains queues."""
    status = StatusWriter(
        QueueStatuses(),
        parts.shared,
        parts.dispatcher,
        parts.caches.queues,
        parts.warmup.may_write,
        parts.clock,
        parts.count_errors("queue-status"),
    )
    parts.threads.run("queue-status", status.step)
    policies = StatusWriter(
        QuotaPolicyStatuses(),
        parts.shared,
        parts.dispatcher,
        parts.policies,
        parts.warmup.may_write,
        parts.clock,
        parts.count_errors("quota-policy-status"),
    )
    parts.threads.run("quota-policy-status", policies.step)
    reservations = StatusWriter(
        QueueReservationStatuses(),
        parts.shared,
        parts.dispatcher,
        parts.reservations,
        parts.warmup.may_write,
        parts.clock,
        parts.count_errors("queue-reservation-status"),
    )
    parts.threads.run("queue-reservation-status", reservations.step)
    drains = QueueDrain(
        parts.shared,
        parts.dispatcher,
        parts.caches.units.note_written,
        parts.warmup.is_open,
        parts.clock,
        parts.count_errors("queue-drains"),
    )
    parts.threads.run("queue-drains", drains.step)


def _build_collectors(parts: _BuiltParts, queue_labels: Mapping[str, str]) -> None:
    """Build the metrics that are computed at a scrape; they see a unit before the engine does."""
    registry, units = parts.program.metrics.registry, parts.caches.units
    registry.register(StateCollector(parts.shared, parts.metrics))
    unit_metrics = UnitMetrics(
        parts.shared, units.has_synced, parts.clock, parts.caches.has_namespace
    )
    progress = UnitProgress(
        parts.shared, parts.metrics.on_run_ended, parts.clock, parts.caches.has_check
    )
    for each in (unit_metrics, progress):
        registry.register(each)
        units.add_handler(each.on_queue_unit)
    registry.register(QueueHeads(parts.shared, parts.clock, queue_labels))
    registry.register(FairMetrics(parts.shared))


def _build_undecodable(parts: _BuiltParts) -> None:
    """Report the objects that cannot be decoded."""
    caches = parts.caches
    followed: dict[str, SharedInformer[Any]] = {
        QUEUES.kind: caches.queues,
        QUEUE_UNITS.kind: caches.units,
        ELASTIC_QUOTAS.kind: caches.quotas,
        **{kind.kind: each for kind, each in caches.sources.informers.items()},
    }
    run, due = parts.threads.work_queue("unreadable-objects")
    unreadable = {kind: informer.undecodable for kind, informer in followed.items()}
    optional: tuple[OptionalKind[Any], ...] = (parts.policies, parts.reservations)
    undecodable = UndecodableObjects(
        {**unreadable, **{each.kind.kind: each.undecodable for each in optional}},
        parts.events,
        parts.dispatcher,
        parts.program.client.get_raw,
        parts.warmup.is_open,
        parts.clock,
        due,
    )
    run(undecodable.step)
    for kind, informer in followed.items():
        informer.add_undecodable_handler(undecodable.on_undecodable(kind))
    for each in optional:
        each.add_undecodable_handler(undecodable.on_undecodable(each.kind.kind))


def _build_unit_controllers(
    parts: _BuiltParts,
    flags: Flags,
    configuration: KoordQueueConfiguration,
    reporter: EventReporter,
) -> AdmissionCheckCycle:
    """Build the controllers of single units; informers call their handlers after the engine's."""
    caches, metrics = parts.caches, parts.metrics
    controllers = UnitControllers(
        UnitParts(
            shared=parts.shared,
            writes=parts.dispatcher,
            units=caches.units,
            read_unit=parts.read_unit,
            may_write=parts.warmup.is_open,
            clock=parts.clock,
            rng=parts.program.rng,
            report=reporter.report,
        ),
        parts.threads.work_queue,
    )
    controllers.follow_backoffs()
    controllers.follow_growth()
    controllers.report_pods_elsewhere()
    controllers.follow_budgets()
    controllers.follow_windows()
    controllers.follow_evictions(caches.pods)
    controllers.follow_nodes(caches.queues, flags.verdict_seconds, metrics.on_without_nodes)
    return controllers.follow_checks(caches.queues, configuration.admission_check_seconds, metrics)


def _build_self_audit(parts: _BuiltParts, reporter: EventReporter, *, repairs: bool) -> None:
    """Build the comparison of the engine with the caches."""
    caches = parts.caches
    audit = SelfAudit(
        parts.shared,
        Stores(caches.units.store, caches.pods.store),
        lambda: caches.units.has_synced() and caches.pods.has_synced(),
        reporter.report,
        parts.metrics,
        parts.clock,
        repairs=repairs,
    )
    parts.threads.run("self-audit", audit.step)
    parts.metrics.show_audit_age(audit.age_seconds)


def _build_account_keeper(
    parts: _BuiltParts,
    flags: Flags,
    configuration: KoordQueueConfiguration,
    reporter: EventReporter,
) -> AccountKeeper | None:
    """Build what keeps the accounts; None if there are none."""
    settings = configuration.kept_accounts
    if settings is None:
        return None
    keeper = AccountKeeper(
        parts.shared,
        AccountConfigMaps(parts.program.client, flags.queue_namespace),
        settings,
        may_write=parts.warmup.may_write,
        report=reporter.report,
        clock=parts.clock,
    )
    parts.threads.run("accounts", keeper.step)
    parts.program.metrics.registry.register(AccountMetrics(parts.shared))
    return keeper


def _engine_settings(flags: Flags, configuration: KoordQueueConfiguration) -> EngineSettings:
    """Return what the engine is built from; its dumps have it as well."""
    named = flags.quota_namespaces or configuration.quota_namespaces
    return EngineSettings(
        configuration=configuration,
        oversell_rate=str(flags.oversell_rate),
        checks_available_quota=flags.checks_available_quota,
        checks_namespaces=named is QuotaNamespaces.LISTED,
        names_are_proved=flags.names_are_proved,
        strict=flags.strict,
        queue_namespace=flags.queue_namespace,
    )
