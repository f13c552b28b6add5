"""Puts the scheduler together: the only module that knows every part.

Decisions::

    informers --> event_handlers --> shared_engine --> engine
                                           |
    queue_worker (one per queue) <---------+
        +--> dequeue_cycle, preemption_cycle --> write_dispatcher --> client

In addition: `unit_controllers` (what follows from one unit and the time), `queue_objects` (queues
of quotas, their status, drains), `reporting` (pending reasons, events, metrics), and `debug_api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog
from starlette.applications import Starlette

from queue_scheduler.configuration import Flags, KoordQueueConfiguration
from queue_scheduler.cycles.dequeue_cycle import DequeueCycle
from queue_scheduler.cycles.event_handlers import EventHandlers
from queue_scheduler.cycles.preemption_cycle import PreemptionCycle
from queue_scheduler.cycles.queue_worker import QueueWorker, QueueWorkers
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, Notice, Preempt
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.queue_objects.queue_drain import QueueDrain
from queue_scheduler.queue_objects.queue_reconciler import BY_NAME, QueueReconciler, QueuesAndQuotas
from queue_scheduler.queue_objects.queue_status import QueueStatusWriter
from queue_scheduler.reporting.events import EventReporter, ObjectEvents
from queue_scheduler.reporting.metrics import SchedulerMetrics, StateCollector, UnitMetrics
from queue_scheduler.reporting.pending_reason import PendingReasonWriter
from queue_scheduler.reporting.undecodable_objects import UndecodableObjects
from queue_scheduler.setup.plugin_handle import PluginHandle, StoreCaches
from queue_scheduler.setup.plugin_loading import Switches, build_plugins, load_policies
from queue_scheduler.setup.quota_sources import QUOTA_READERS, QuotaSources, find_quotas
from queue_scheduler.unit_controllers.admission_checks import AdmissionCheckCycle
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
    NAMESPACES,
    NODES,
    PODS,
    QUEUE_UNITS,
    QUEUES,
)
from shared_api.client.write_dispatcher import WriteDispatcher
from shared_api.debug_api.access import list_units_there
from shared_api.debug_api.server import DebugServer, GuardOf, open_debug_server
from shared_api.informer.indexed_store import ApiObject, IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.leader_warmup import LeaderWarmup
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.compactor import Compactor
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.loop_thread import LoopThread, Step, stop_all
from shared_api.program import VERSION, Check, Program
from shared_api.quota_names import QuotaNamespaces
from shared_api.work_queue import WorkQueue

PODS_SECONDS: Final = 0.05
"""How long pod changes are gathered: they are the most frequent ones, and none starts a unit except
the end of a unit's last pod."""

RETRY_BACKOFF: Final = Backoff(base_seconds=0.2, cap_seconds=30.0, jitter=0.2)
"""Between attempts of the same work; while a server is down, attempts become less frequent."""

log = structlog.get_logger("wiring")

ObjectT = TypeVar("ObjectT", bound=ApiObject)


def build_scheduler(
    program: Program, flags: Flags, configuration: KoordQueueConfiguration
) -> Scheduler:
    """Return the scheduler's work, ready to start.

    Raises:
        FlagError: The configuration names an unknown plugin, or arguments that a plugin refuses.
        AddressError: The debug address or its TLS settings are unusable.
    """
    if flags.without_effect:
        log.warning("settings without effect", settings=flags.without_effect)
    return Scheduler(program, flags, configuration)


class Scheduler:
    """The `Work` of koord-queue-scheduler."""

    def __init__(
        self, program: Program, flags: Flags, configuration: KoordQueueConfiguration
    ) -> None:
        self._program = program
        self._clock = program.clock
        self._threads: list[LoopThread] = []
        self._is_started = False
        self._metrics = SchedulerMetrics(
            program.metrics.registry,
            has_check=lambda name: self._has_check(name),  # noqa: PLW0108 - asks what is made below
        )
        self._checks = IndexedStore[AdmissionCheck](transform=_compacting())
        self._workers = QueueWorkers(self._build_worker, self._start_worker)
        named = flags.quota_namespaces or configuration.quota_namespaces
        checks_namespaces = named is QuotaNamespaces.LISTED
        self._sources = QuotaSources(
            configuration.plugin_names(),
            flags,
            lambda kind, settings: self._informer(kind, settings=settings, store=IndexedStore()),
            lambda kind: KindProbe(program.client, kind, program.clock),
            checks_namespaces=checks_namespaces,
        )
        self._build_informers(flags.queue_namespace)
        self._takeover = LeaderWarmup(
            program.leadership,
            are_caches_ready=self._are_caches_ready,
            caches=lambda: [each for each in self._informers if each.has_synced()],
            on_open=self._on_deciding,
        )
        self._takeover_thread = self._thread_of("takeover", self._takeover.step)
        self._dispatcher = WriteDispatcher(
            program.client,
            flow=program.flow,
            clock=program.clock,
            writable_seconds=program.leadership.writable_seconds,
            on_room=self._workers.wake_all,
        )
        for number in range(flags.program.writers):
            writer = self._dispatcher.new_worker()
            writer.wake = self._thread_of(f"writer-{number}", writer.step).wake
        self._events = self._build_events()
        caches = StoreCaches(self._queues, self._units, self._quotas, self._pods, self._nodes)
        handle = PluginHandle(caches, flags.oversell_rate, self._events, self._dispatcher)
        engine = _build_engine(flags, configuration, handle, checks_namespaces=checks_namespaces)
        self._shared = SharedEngine(engine, self._workers.wake)
        handle.attach(self._shared)
        self._cycle = self._build_cycle()
        notices = self._build_notices(self._takeover.is_open)
        self._build_beside_the_line(flags.queue_namespace, notices)
        self._build_unit_shells(flags, configuration.admission_check_seconds, notices.report)
        self._debug = self._build_debug(flags, handle)
        self._debug_threads = self._debug.threads(
            lambda name, step: program.spawn(name, step, unblock=self._debug.end)
        )

    # --- parts --------------------------------------------------------------------------------

    def _build_informers(self, queue_namespace: str) -> None:
        own = InformerSettings(namespace=queue_namespace)
        by_name = {BY_NAME: lambda quota: (quota.metadata.name,)}
        self._queues = self._informer(QUEUES, settings=own)
        self._units = self._informer(QUEUE_UNITS)
        self._quotas = self._informer(
            ELASTIC_QUOTAS,
            settings=self._sources.settings_of(ELASTIC_QUOTAS),
            store=IndexedStore(indexes=by_name, transform=_compacting()),
        )
        self._pods = self._informer(PODS, settings=InformerSettings(gather_seconds=PODS_SECONDS))
        self._nodes = self._informer(NODES)
        # Some plugins map units by namespaces; the others need them only to drop series of metrics.
        followed = self._sources.informers.get(NAMESPACES)
        self._namespaces = self._informer(NAMESPACES) if followed is None else followed
        self._quota_checks = self._sources.checks(self._quotas)
        # Started in this order: what maps and orders units comes before the units.
        self._informers: list[SharedInformer[Any]] = [
            self._quotas,
            *self._sources.informers.values(),
            self._queues,
            self._nodes,
            self._units,
            self._pods,
        ]
        if followed is None:
            self._informers.append(self._namespaces)

    def _informer(
        self,
        resource_type: ResourceType[ObjectT],
        *,
        settings: InformerSettings | None = None,
        store: IndexedStore[ObjectT] | None = None,
    ) -> SharedInformer[ObjectT]:
        program = self._program
        if store is None:
            store = IndexedStore(transform=_compacting())
        return SharedInformer(
            program.client,
            resource_type,
            clock=program.clock,
            rng=program.rng,
            settings=settings,
            store=store,
            observer=program.metrics.informers.of_resource(resource_type.plural),
        )

    def _build_events(self) -> ObjectEvents:
        program = self._program
        recorder = EventRecorder(
            self._dispatcher,
            self._clock,
            reporting_controller=f"koord-queue/{program.component}",
            reporting_instance=program.identity,
        )
        recorder.wake = self._thread_of("event-recorder", recorder.step).wake
        return ObjectEvents(recorder, self._takeover.is_open)

    def _build_cycle(self) -> DequeueCycle:
        run, unsettled = self._work_queue("unsettled-writes")
        cycle = DequeueCycle(
            self._shared,
            self._dispatcher,
            self._read_unit,
            self._units.note_written,
            self._clock,
            unsettled,
            self._metrics,
        )
        run(cycle.step)
        return cycle

    def _read_unit(self, namespace: str, name: str) -> QueueUnit:
        return self._program.client.get(QUEUE_UNITS, namespace, name)

    def _build_beside_the_line(self, queue_namespace: str, notices: EventReporter) -> None:
        """Build what follows the decisions: reasons, queues of quotas, counts, events, metrics."""
        may_write = self._takeover.is_open
        run, due = self._work_queue("waiting-reporter")
        reporter = PendingReasonWriter(
            self._shared,
            self._dispatcher,
            self._units,
            notices.report,
            may_write,
            self._clock,
            due,
        )
        run(reporter.step)
        run, names = self._work_queue("queue-reconciler")
        self._reconciler = QueueReconciler(
            self._program.client,
            queue_namespace,
            QueuesAndQuotas(
                quotas=self._quotas.store,
                queues=self._queues.store,
                are_quotas_known=self._quotas.has_synced,
                is_readable=self._queues.is_readable,
                are_elastic=self._sources.are_elastic,
                others=self._sources.build_queue_sources(self._queues, queue_namespace, names.add),
            ),
            names,
            self._takeover.may_write,
        )
        run(self._reconciler.step)
        status = QueueStatusWriter(
            self._shared,
            self._dispatcher,
            self._queues,
            self._takeover.may_write,
            self._clock,
        )
        self._thread_of("queue-status", status.step)
        drains = QueueDrain(
            self._shared, self._dispatcher, self._units.note_written, may_write, self._clock
        )
        self._thread_of("queue-drains", drains.step)
        registry = self._program.metrics.registry
        registry.register(StateCollector(self._shared, self._metrics, find_quotas))
        unit_metrics = UnitMetrics(
            self._shared, self._units.has_synced, self._clock, self._has_namespace
        )
        registry.register(unit_metrics)
        self._units.add_handler(unit_metrics.on_queue_unit)
        self._build_unreadable(may_write)
        self._handlers = EventHandlers(
            self._shared,
            self._workers,
            reporter.on_unit_seen,
            self._units.is_rewound,
            reporter.on_unit_left,
        )
        self._subscribe(self._handlers)

    def _has_check(self, name: str) -> bool:
        """Return whether a check exists, or a queue lets its units pass without it."""
        if self._checks.get(name) is not None:
            return True
        listed = (
            each for queue in self._queues.store.list() for each in queue.spec.admission_checks
        )
        return any(each.name == name for each in listed)

    def _has_namespace(self, name: str) -> bool:
        known = self._namespaces
        return not known.has_synced() or known.store.get(name) is not None

    def _build_unit_shells(
        self, flags: Flags, check_seconds: float, report: Callable[[Notice], None]
    ) -> None:
        """Build the controllers of single units; they get news after the engine."""
        shells = UnitControllers(
            UnitParts(
                shared=self._shared,
                writes=self._dispatcher,
                units=self._units,
                read_unit=self._read_unit,
                may_write=self._takeover.is_open,
                clock=self._clock,
                rng=self._program.rng,
                report=report,
            ),
            self._work_queue,
        )
        shells.follow_backoffs()
        shells.follow_growth()
        shells.follow_evictions(self._pods)
        shells.follow_nodes(self._queues, flags.verdict_seconds, self._metrics.on_without_nodes)
        checks = shells.follow_checks(self._queues, check_seconds, self._metrics)
        self._check_watch = self._watch_checks(checks)

    def _watch_checks(self, checks: AdmissionCheckCycle) -> KindWatch[AdmissionCheck]:
        """Watch Kueue's AdmissionChecks if the cluster serves them; no part waits for that."""

        def make(version: ResourceType[AdmissionCheck]) -> SharedInformer[AdmissionCheck]:
            informer = self._informer(version, store=self._checks)
            informer.add_handler(self._handlers.on_admission_check)
            informer.add_handler(checks.on_admission_check)
            return informer

        watch = watch_admission_checks(
            self._program.client, make, self._start_informer, self._clock
        )
        self._thread_of("admission-check-kind", follow_kind(watch, self._shared))
        return watch

    def _build_notices(self, may_write: Callable[[], bool]) -> EventReporter:
        notices = EventReporter(self._shared, self._events, may_write, self._clock)
        self._thread_of("notice-events", notices.step)
        self._preemptions = PreemptionCycle(
            self._shared,
            self._dispatcher,
            self._units.note_written,
            notices.report,
            self._clock,
            self._metrics,
        )
        return notices

    def _build_unreadable(self, may_write: Callable[[], bool]) -> None:
        followed: dict[str, SharedInformer[Any]] = {
            QUEUES.kind: self._queues,
            QUEUE_UNITS.kind: self._units,
            ELASTIC_QUOTAS.kind: self._quotas,
            **{kind.kind: each for kind, each in self._sources.informers.items()},
        }
        run, due = self._work_queue("unreadable-objects")
        unreadable = UndecodableObjects(
            {kind: informer.undecodable for kind, informer in followed.items()},
            self._events,
            self._dispatcher,
            self._program.client.get_raw,
            may_write,
            self._clock,
            due,
        )
        run(unreadable.step)
        for kind, informer in followed.items():
            informer.add_undecodable_handler(unreadable.on_undecodable(kind))

    def _subscribe(self, handlers: EventHandlers) -> None:
        self._quotas.add_handler(handlers.on_quota)
        self._quotas.add_handler(self._reconciler.on_quota)
        for source in self._sources.informers.values():
            source.add_handler(handlers.on_quota)
        self._queues.add_handler(handlers.on_queue)
        self._queues.add_handler(self._reconciler.on_queue)
        self._nodes.add_handler(handlers.on_node)
        self._units.add_handler(handlers.on_queue_unit)
        self._pods.add_handler(handlers.on_pod)

    def _work_queue(self, name: str) -> tuple[Callable[[Step], LoopThread], WorkQueue[Any]]:
        """Return a queue of keys, and a function that builds the thread that works on them."""
        threads: list[LoopThread] = []

        def wake() -> None:
            for thread in threads:
                thread.wake()

        queue: WorkQueue[Any] = WorkQueue(
            self._clock,
            backoff=lambda attempt: RETRY_BACKOFF.seconds(attempt, self._program.rng),
            observer=self._program.metrics.work_queues.of_queue(name),
            on_ready=wake,
        )

        def run(step: Step) -> LoopThread:
            threads.append(self._thread_of(name, step))
            return threads[0]

        return run, queue

    def _build_debug(self, flags: Flags, handle: PluginHandle) -> DebugServer:
        is_leader = self._program.leadership.is_leader

        def build(guard_of: GuardOf) -> Starlette:
            # FastAPI takes 13 MB: imported at the first question only.
            from queue_scheduler.debug_api.app import DebugApi, build_app  # noqa: PLC0415 - as said

            api = DebugApi(self._shared, QUOTA_READERS, is_leader, self._clock.now)
            access = guard_of(list_units_there)
            return build_app(api, access, handle.debug_routes(access), VERSION)

        return open_debug_server(self._program, flags.debug, build)

    def _thread_of(self, name: str, step: Step) -> LoopThread:
        thread = self._program.spawn(name, step)
        self._threads.append(thread)
        return thread

    def _build_worker(self, queue: str) -> QueueWorker:
        return QueueWorker(
            queue,
            self._shared,
            self._carry_out,
            self._may_decide,
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
        return tuple(self._informers) if checks is None else (*self._informers, checks)

    def start(self) -> None:
        """Fill the caches and start all threads; decisions wait for `LeaderWarmup`."""
        self._is_started = True
        for thread in self._threads:
            thread.start()
        for informer in self._informers:
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
        stop_all([*self._threads, *followers, *self._debug_threads], self._clock)
        self._debug.close()
        for informer in informers:
            informer.stop(0.0)

    def on_started_leading(self) -> None:
        """Let `LeaderWarmup` check whether the caches are complete."""
        self._takeover_thread.wake()

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per cache."""
        return {
            "queues-synced": self._queues.check_synced,
            "queueunits-synced": self._units.check_synced,
            **self._quota_checks,
            "pods-synced": self._pods.check_synced,
            "nodes-synced": self._nodes.check_synced,
        }

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""
        return (*self._threads, *self._workers.threads())

    def _are_caches_ready(self) -> bool:
        return all(check()[0] for check in self.ready_checks().values())

    def _may_decide(self) -> bool:
        return self._takeover.is_open() and self._dispatcher.has_room()

    def _on_deciding(self) -> None:
        self._workers.wake_all()
        for thread in self._threads:
            thread.wake()


def _compacting() -> Callable[[Any, Any], Any]:
    """Return a function by which cached objects share equal parts: saves 1/3 memory at 100,000."""
    return Compactor().compact


def _build_engine(
    flags: Flags,
    configuration: KoordQueueConfiguration,
    handle: PluginHandle,
    *,
    checks_namespaces: bool,
) -> Engine:
    switches = Switches(
        oversell_rate=flags.oversell_rate,
        checks_available_quota=flags.checks_available_quota,
        checks_namespaces=checks_namespaces,
    )
    return Engine(
        PluginRunner(build_plugins(configuration, switches, handle)),
        load_policies(),
        flags.strict,
        configuration.protect_seconds,
        flags.queue_namespace,
    )
