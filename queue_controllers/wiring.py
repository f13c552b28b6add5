"""Builds the controllers: the only module that knows every part.

informers ──► extension_server (one per kind) ──► work queue ──► reconciler ──► client
                      ▲                                             │
   cluster context ───┘                              event recorder ┴─► write dispatcher

In strict mode, beside them: informers ──► reservation_controller ──► client
Readers: debug_api ──► reconciler, which decides and writes nothing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from starlette.applications import Starlette

from queue_controllers.configuration import (
    PROGRAM,
    Configuration,
    Flags,
    checks_namespaces,
    reservation_settings,
    settings_of,
)
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.owners import NotReadError
from queue_controllers.extension_server import STEP_SECONDS, ExtensionServer, ServerParts
from queue_controllers.job_families.gated_pods import GatedPods, PodGroup, Sizer
from queue_controllers.jobframework.generic_job import ApiJob, GenericJob, JobKind, OtherObject
from queue_controllers.lost_pods.lost_nodes import WatchedNode, slim_node
from queue_controllers.lost_pods.lost_pod_controller import (
    LOST_PODS,
    LostPodCaches,
    LostPodController,
)
from queue_controllers.lost_pods.pod_deleter import WATCHED_NODES, PodDeleter
from queue_controllers.lost_pods.stated_times import StatedTimes
from queue_controllers.metrics import ControllersMetrics
from queue_controllers.reconcile.execute import Executor
from queue_controllers.reconcile.gated_pod_executor import HELD_PODS, GatedPodExecutor
from queue_controllers.reconcile.job_reader import Lookups, Sources, unit_indexes
from queue_controllers.reconcile.reconciler import JobReconciler, SharedParts
from queue_controllers.reservations.execute import ReservationExecutor
from queue_controllers.reservations.reservation_controller import (
    ReservationCaches,
    ReservationController,
    reservation_indexes,
)
from queue_controllers.watches.admission_caches import (
    BY_NAMESPACE,
    AdmissionCaches,
    AdmissionInformers,
    namespace_index,
    slim_account,
)
from queue_controllers.watches.cluster_context import (
    ClusterContextReader,
    ContextCaches,
    WhileServed,
)
from queue_controllers.watches.event_lookup import EventReader
from queue_controllers.watches.informers import InformerFactory, unreadable_recorder
from queue_controllers.watches.job_sizes import JobSizes
from queue_controllers.watches.job_trimming import JobTrimmer
from queue_controllers.watches.kind_election import KindTurn, take_turns
from queue_controllers.watches.kueue_presence import KueuePresence
from queue_controllers.watches.owner_lookup import (
    JobFinder,
    OwnerJudge,
    OwnerReader,
    OwnersOf,
    RecalledOwners,
)
from queue_controllers.watches.pod_groups import PodGroupCache, PodsFollowed
from queue_controllers.watches.pod_preview import PodPreviews
from queue_controllers.watches.pod_usage import (
    FOLLOWED_PODS,
    PAUSE_SECONDS,
    pod_indexes,
    pods_of_job,
    slimmer_for,
)
from queue_controllers.watches.preview_changes import PreviewChanges
from queue_controllers.watches.related_objects import RelatedObjectReader
from shared_api.backoff import Backoff
from shared_api.client.event_recorder import EventRecorder
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import (
    ELASTIC_QUOTAS,
    LIMIT_RANGES,
    NAMESPACES,
    PRIORITY_CLASSES,
    QUEUE_UNITS,
    RESERVATIONS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    OnlyMetadata,
)
from shared_api.client.write_dispatcher import WriteDispatcher
from shared_api.debug_api.debug_flags import DebugFlags
from shared_api.debug_api.server import DebugServer, GuardOf, open_debug_server
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import WAIT_SECONDS, SharedInformer
from shared_api.leader_warmup import LeaderWarmup
from shared_api.objects.compactor import Compactor
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.limit_range import LimitRange
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.runtime_class import RuntimeClass
from shared_api.process.loop_thread import LoopThread, Step, stop_all
from shared_api.program import Host, Program
from shared_api.program_flags import FlagError
from shared_api.version import VERSION
from shared_api.well_known_labels import UNIT_UID
from shared_api.work_queue import WorkQueue

if TYPE_CHECKING:
    from queue_controllers.debug_api.app import JobDebugApi

RETRY_BACKOFF: Final = Backoff(base_seconds=0.05, cap_seconds=60.0, jitter=0.2)
"""Between reconciles of a job that could not be acted on."""

EVENT_WRITER: Final = "event-writer"
"""Name of the threads that write events, in metrics."""

EVENT_WRITERS: Final = 1
"""Connections for events: they have a fifth of the budget, and nothing waits for them."""

JobT = TypeVar("JobT", bound=ApiJob)

Check = Callable[[], tuple[bool, str]]

log = structlog.get_logger("wiring")


def build_controllers(
    host: Host,
    flags: Flags,
    configuration: Configuration,
    extensions: Mapping[str, GenericJob[Any]],
    *,
    informer_wait_seconds: float = WAIT_SECONDS,
) -> Controllers:
    """Return the controllers' work, ready to start.

    Args:
        host: The process.
        flags: The command line.
        configuration: The file.
        extensions: All adapters, by key, except those that the file declares.
        informer_wait_seconds: 0 if `steps` are called on one thread.

    Raises:
        FlagError: An extension is enabled that does not exist, or two for one kind in one version.
    """
    unknown = [key for key in flags.enabled_extensions if key not in extensions]
    if unknown:
        known = ", ".join(sorted(extensions))
        raise FlagError(f"--enabled-extensions: {', '.join(unknown)} not known; there are: {known}")
    if flags.without_effect:
        log.warning("settings without effect", settings=dict(flags.without_effect))
    enabled = {key: extensions[key] for key in flags.enabled_extensions}
    if flags.enable_job_extensions:
        enabled |= {each.kind.key: each for each in configuration.declared}
    informers = InformerFactory(host, informer_wait_seconds)
    return Controllers(host, flags, configuration, enabled, informers, makers=extensions.values())


def serve_debug_api(program: Program, flags: DebugFlags, controllers: Controllers) -> None:
    """Open the port of the controllers' debug API.

    Raises:
        AddressError: The debug address, or what it is served with.
    """

    def build(guard_of: GuardOf) -> Starlette:
        # FastAPI takes 13 MB: imported at the first request only.
        from queue_controllers.debug_api.app import build_app  # noqa: PLC0415 - as said

        api = controllers.debug_api()
        return build_app(api, guard_of(api.right_of), VERSION)

    controllers.attach(open_debug_server(program, flags, build))


class Controllers:
    """The `Work` of koord-queue-controllers."""

    def __init__(
        self,
        host: Host,
        flags: Flags,
        configuration: Configuration,
        adapters: Mapping[str, GenericJob[Any]],
        informers: InformerFactory,
        *,
        makers: Iterable[GenericJob[Any]],
    ) -> None:
        self._host = host
        self._makers = tuple(makers)
        self._debug: tuple[DebugServer, list[LoopThread]] | None = None
        self._threads: list[LoopThread] = []
        self._steps: list[Step] = []
        self._informers = informers
        self._metrics = ControllersMetrics(host.metrics.registry)
        kinds = tuple(adapters.values())
        turns = take_turns(each.kind for each in kinds)
        self._units = self._follow_units(by_namespace=configuration.general.report_unqueued_jobs)
        self._slimmer = JobTrimmer()
        by_node = configuration.general.delete_lost_pods
        self._pods = _follow_pods(self._informers, kinds, self._slimmer, by_node=by_node)
        self._sizes = self._follow_sizes(kinds)
        self._namespaces = self._informers.make(NAMESPACES, IndexedStore())
        self._classes = self._informers.make(PRIORITY_CLASSES, IndexedStore())
        self._events = self._build_events()
        self._kueue = self._build_kueue(flags, configuration)
        quotas: IndexedStore[ElasticQuota] = IndexedStore()
        self._quotas = self._informers.follow(
            ELASTIC_QUOTAS,
            quotas,
            on_made=lambda informer: informer.add_handler(self._context_reader.on_quota),
            on_gone=lambda: self._context_reader.on_quotas_gone(),  # noqa: PLW0108 - made below
        )
        self._admission = self._build_admission_caches()
        self._previews = self._build_previews(configuration)
        self._context_reader = self._build_context_reader(quotas, flags, configuration)
        lookups, self._recall = _build_lookups(
            host, self._units.store, self._makers, self._previews, self._find_job
        )
        self._shared = self._build_shared(lookups)
        self._warmup = LeaderWarmup(
            host.leadership,
            are_caches_ready=self._are_caches_ready,
            caches=self._caches,
            on_open=self._wake_all,
            on_prepared=host.on_prepared,
            clock=host.clock,
        )
        self._run("takeover", self._warmup.step)
        self._run("quota-kind", self._quotas.step)
        self._run("kueue", self._kueue.step)
        if self._sizes.watches:
            self._run("job-sizes", self._sizes.step)
        parts = self._built_parts(turns)
        self.servers = _build_servers(parts, kinds, flags, configuration)
        self.reservations = _build_reservations(parts, self.servers, flags, configuration)
        self.lost_pods = _build_lost_pods(parts, self.servers, configuration)
        self._subscribe()

    # --- parts --------------------------------------------------------------------------------

    def _built_parts(self, turns: Mapping[tuple[str, str], KindTurn]) -> _BuiltParts:
        return _BuiltParts(
            host=self._host,
            informers=self._informers,
            units=self._units,
            pods=self._pods,
            sizes=self._sizes,
            slimmer=self._slimmer,
            turns=turns,
            events=self._events,
            shared=self._shared,
            warmup=self._warmup,
            metrics=self._metrics,
            run=self._run,
        )

    def _build_shared(self, lookups: Lookups) -> SharedParts:
        sources = Sources(
            units=self._units.store,
            pods=self._pods_of,
            context=self._context_reader,
            clock=self._host.clock,
            rng=self._host.rng,
        )
        return SharedParts(
            sources=sources,
            lookups=lookups,
            events=EventReader(self._host.client, self._children_of),
            observer=self._metrics,
        )

    def _follow_units(self, *, by_namespace: bool) -> SharedInformer[QueueUnit]:
        units: IndexedStore[QueueUnit] = IndexedStore(
            indexes=unit_indexes(by_namespace=by_namespace), transform=Compactor().compact
        )
        return self._informers.make(QUEUE_UNITS, units)

    def _follow_sizes(self, kinds: Sequence[GenericJob[Any]]) -> JobSizes:
        gated = (each for each in kinds if isinstance(each, GatedPods))
        sizing = dict.fromkeys(kind for each in gated for kind in each.sizing_kinds)
        return JobSizes(self._informers, sizing, on_resized=self._look_at_sized)

    def _build_context_reader(
        self, quotas: IndexedStore[ElasticQuota], flags: Flags, configuration: Configuration
    ) -> ClusterContextReader:
        return ClusterContextReader(
            ContextCaches(
                quotas=WhileServed(quotas, self._quotas.is_served),
                namespaces=self._namespaces.store,
                priority_classes=self._classes.store,
                admission=self._admission,
            ),
            only_classes=configuration.general.priority_from == "class",
            leaves_to_kueue=self._kueue.leaves_jobs,
            on_all_changed=self._enqueue_all,
            on_namespace_changed=self._look_at_namespace,
            checks_namespaces=checks_namespaces(flags, configuration),
        )

    def _build_kueue(self, flags: Flags, configuration: Configuration) -> KueuePresence:
        setting = flags.leave_to_kueue or configuration.general.leave_to_kueue
        host = self._host
        return KueuePresence(host.client, host.clock, setting, on_changed=self._enqueue_all)

    def _build_admission_caches(self) -> AdmissionCaches:
        make, slim = self._informers.make, self._slimmer.slim
        ranges = IndexedStore[LimitRange](indexes={BY_NAMESPACE: namespace_index}, transform=slim)
        self._admission_informers = AdmissionInformers(
            limit_ranges=make(LIMIT_RANGES, ranges),
            runtime_classes=make(RUNTIME_CLASSES, IndexedStore[RuntimeClass](transform=slim)),
            service_accounts=make(
                SERVICE_ACCOUNTS, IndexedStore[OnlyMetadata](transform=slim_account)
            ),
            priority_classes=self._classes,
        )
        return AdmissionCaches(
            self._admission_informers,
            on_demand_changed=self._look_in_turns,
            on_names_changed=self._look_at_namespace,
        )

    def _build_previews(self, configuration: Configuration) -> PodPreviews | None:
        """Return what previews pods, if that is enabled."""
        self._preview_news: PreviewChanges | None = None
        if not configuration.general.admission_preview:
            return None
        host = self._host
        previews = PodPreviews(
            host.client,
            host.clock,
            on_changed=self._look_in_turns,
            on_error=host.metrics.work_queues.count_errors("pod-previews"),
        )
        previews.wake = self._run("pod-previews", previews.step).wake
        self._preview_news = PreviewChanges(self._informers, on_news=previews.repeat_dry_runs)
        self._run("preview-kinds", self._preview_news.step)
        for informer in self._admission_informers.by_name().values():
            informer.add_handler(self._preview_news.on_change)
        return previews

    def _build_events(self) -> EventRecorder:
        host = self._host
        dispatcher = WriteDispatcher(
            host.client,
            flow=host.flow,
            clock=host.clock,
            writable_seconds=host.leadership.writable_seconds,
            on_error=partial(host.metrics.process.on_loop_error, EVENT_WRITER),
        )
        self._dispatcher = dispatcher
        for number in range(EVENT_WRITERS):
            writer = dispatcher.new_worker()
            writer.wake = self._run(f"{EVENT_WRITER}/{number}", writer.step).wake
        recorder = EventRecorder(
            dispatcher,
            host.clock,
            reporting_controller=f"koord-queue/{PROGRAM}",
            reporting_instance=host.identity,
        )
        recorder.wake = self._run("event-recorder", recorder.step).wake
        return recorder

    def _pods_of(self, kind: JobKind, job: ObjectMeta, unit_key: str) -> list[Pod]:
        return pods_of_job(self._pods.store, kind, job, unit_key)

    def _find_job(self, kind: JobKind, key: str) -> Any | None:  # noqa: ANN401 - of any kind
        """Return a job of a kind that is queued, from its cache; None if it is not there."""
        for server in self.servers:
            if server.adapter.kind == kind:
                return server.job_at(key)
        return None

    def _subscribe(self) -> None:
        self._namespaces.add_handler(self._context_reader.on_namespace)
        self._classes.add_handler(self._context_reader.on_priority_class)
        for server in self.servers:
            self._units.add_handler(server.on_unit)
            self._pods.add_handler(server.on_pod)
        if self.reservations is not None:
            self._units.add_handler(self.reservations.on_unit)
        recorder = unreadable_recorder(self._events, QUEUE_UNITS.api_version, QUEUE_UNITS.kind)
        self._units.add_undecodable_handler(recorder)

    def _run(self, name: str, step: Step) -> LoopThread:
        thread = self._host.spawn(name, step)
        self._threads.append(thread)
        self._steps.append(step)
        return thread

    # --- changes that concern all jobs ----------------------------------------------------------

    def _needed_informers(self) -> tuple[SharedInformer[Any], ...]:
        return (self._namespaces, self._units, self._pods)

    def _shared_informers(self) -> tuple[SharedInformer[Any], ...]:
        nodes = () if self.lost_pods is None else (self.lost_pods.nodes,)
        admission = self._admission_informers.by_name().values()
        return (*self._needed_informers(), *admission, *nodes)

    def _kind_watches(self) -> tuple[KindWatch[Any], ...]:
        served = (server.watch for server in self.servers)
        watches = (self._quotas, *(each for each in served if isinstance(each, KindWatch)))
        return watches if self.reservations is None else (*watches, self.reservations.watch)

    def _running_informers(self) -> list[SharedInformer[Any]]:
        news = () if self._preview_news is None else self._preview_news.watches
        watches = (*self._kind_watches(), *self._sizes.watches, *news)
        served = (watch.informer for watch in watches)
        return [*self._shared_informers(), *(each for each in served if each is not None)]

    def _are_caches_ready(self) -> bool:
        """Return whether the caches that all kinds need are complete; kinds wait for their own."""
        needed = all(informer.has_synced() for informer in self._needed_informers())
        admission = self._admission.are_ready()
        others = self._quotas.is_ready() and self._sizes.are_ready() and self._kueue.is_known()
        return needed and admission and others

    def _caches(self) -> list[SharedInformer[Any]]:
        served = (watch.informer for watch in self._kind_watches())
        synced = (each for each in served if each is not None and each.has_synced())
        readable = (*self._admission.readable(), *self._sizes.readable())
        return [*self._needed_informers(), *readable, *synced]

    def _children_of(self, job: ObjectMeta) -> list[tuple[str, ObjectMeta]]:
        return [child for server in self.servers for child in server.children_of(job)]

    def _enqueue_all(self) -> None:
        for server in self.servers:
            server.enqueue_all()

    def _look_at_namespace(self, namespace: str) -> None:
        for server in self.servers:
            server.enqueue_namespace(namespace)

    def _look_at_sized(self, sizer: Sizer, namespace: str) -> None:
        for server in self.servers:
            server.on_resized(sizer, namespace)

    def _look_in_turns(self, namespace: str) -> None:
        for server in self.servers:
            server.enqueue_gradually(namespace)

    def _wake_all(self) -> None:
        for thread in self._threads:
            thread.wake()

    # --- the debug API --------------------------------------------------------------------------

    def debug_api(self) -> JobDebugApi:
        """Return what answers questions about jobs."""
        from queue_controllers.debug_api.app import JobDebugApi  # noqa: PLC0415 - costly, see above

        return JobDebugApi(
            self.servers,
            (each.kind for each in self._makers),
            units=self._units.store,
            lookups=self._recall,
            is_leader=self._host.leadership.is_leader,
        )

    def attach(self, server: DebugServer) -> None:
        """Serve the debug API together with all else; before `start`."""
        threads = server.threads(
            lambda name, step: self._host.spawn(name, step, unblock=server.end)
        )
        self._debug = (server, threads)

    def _debug_threads(self) -> Sequence[LoopThread]:
        return () if self._debug is None else self._debug[1]

    # --- the Work -------------------------------------------------------------------------------

    def start(self) -> None:
        """Fill the caches and start all threads; acting on jobs waits for `LeaderWarmup`."""
        self._informers.runs_threads = True
        for informer in self._shared_informers():
            self._informers.start(informer)
        for thread in (*self._threads, *self._debug_threads()):
            thread.start()

    def stop(self) -> None:
        """End workers and caches, then events."""
        for server in self.servers:
            server.queue.shut_down()
        if self.reservations is not None:
            self.reservations.queue.shut_down()
        if self.lost_pods is not None:
            self.lost_pods.queue.shut_down()
        stop_all([*self.threads(), *self._debug_threads()], self._host.clock)
        self._dispatcher.stop()
        if self._debug is not None:
            self._debug[0].close()
        for informer in self._running_informers():
            informer.stop(0.0)

    def on_started_leading(self) -> None:
        """Let `LeaderWarmup` check at once."""
        self._wake_all()

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per cache."""
        checks: dict[str, Check] = {
            "namespaces-synced": self._namespaces.check_synced,
            "queueunits-synced": self._units.check_synced,
            "pods-synced": self._pods.check_synced,
            "elasticquotas-synced": self._quotas.check,
        }
        checks |= self._admission.ready_checks()
        checks |= self._sizes.ready_checks()
        if self.lost_pods is not None:
            checks["nodes-synced"] = self.lost_pods.nodes.check_synced
        for server in self.servers:
            checks[f"{server.name}-synced"] = server.watch.check
        if self.reservations is not None:
            checks["reservations-synced"] = self.reservations.watch.check
        return checks

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""
        running = (each.thread for each in self._running_informers())
        return (*self._threads, *(thread for thread in running if thread is not None))

    def steps(self) -> list[Step]:
        """Return every step there is now, for a caller that runs them on one thread."""
        return [*(each.step for each in self._running_informers()), *self._steps]


def _follow_pods(
    informers: InformerFactory,
    kinds: Sequence[GenericJob[Any]],
    slimmer: JobTrimmer,
    *,
    by_node: bool,
) -> SharedInformer[Pod]:
    pods: IndexedStore[Pod] = IndexedStore(
        indexes=pod_indexes(kinds, by_node=by_node),
        transform=slimmer_for(kinds, slimmer, keeps_nodes=by_node),
    )
    # Fields that affect a pod's placement are read only if pods are queued.
    queues_pods = any(kind.kind.held_by_gates for kind in kinds)
    pod_type: ResourceType[Any] = HELD_PODS if queues_pods else FOLLOWED_PODS
    return informers.make(pod_type, pods, gather_seconds=PAUSE_SECONDS)


def _build_lookups(
    host: Host,
    units: IndexedStore[QueueUnit],
    adapters: Iterable[GenericJob[Any]],
    previews: PodPreviews | None,
    find_job: JobFinder,
) -> tuple[Lookups, Lookups]:
    """Return the lookups of other objects, and the same without requests to the API server."""
    client, clock = host.client, host.clock
    reader, others = OwnerReader(client, clock), RelatedObjectReader(client, clock)
    judge = OwnerJudge(client, clock, adapters=adapters, find=find_job, units=units)
    asking = Lookups(
        owners=lambda namespace: OwnersOf(namespace, reader, judge),
        others=others,
        previews=previews,
    )

    def recall_other(job: ObjectMeta, other: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        found = others.recall(job, other)
        if found is None and not host.leadership.is_leader():
            raise NotReadError(f"{other.kind} {other.name}")
        return found

    recalling = Lookups(
        owners=lambda namespace: RecalledOwners(namespace, reader, judge),
        others=recall_other,
        previews=None if previews is None else previews.recall,
    )
    return asking, recalling


@dataclass(frozen=True)
class _BuiltParts:
    """The parts that the servers of all kinds are built on."""

    host: Host
    informers: InformerFactory
    units: SharedInformer[QueueUnit]
    pods: SharedInformer[Pod]
    sizes: JobSizes
    slimmer: JobTrimmer
    turns: Mapping[tuple[str, str], KindTurn]
    events: EventRecorder
    shared: SharedParts
    warmup: LeaderWarmup
    metrics: ControllersMetrics
    run: Callable[[str, Step], LoopThread]


def _build_servers(
    parts: _BuiltParts, kinds: Sequence[GenericJob[Any]], flags: Flags, configuration: Configuration
) -> tuple[ExtensionServer[Any], ...]:
    return tuple(
        _build_pod_server(parts, adapter, flags, configuration)
        if isinstance(adapter, GatedPods)
        else _build_server(parts, adapter, flags, configuration)
        for adapter in kinds
    )


def _build_server(
    parts: _BuiltParts, adapter: GenericJob[JobT], flags: Flags, configuration: Configuration
) -> ExtensionServer[JobT]:
    settings = settings_of(adapter.kind.key, flags, configuration)
    jobs: IndexedStore[JobT] = IndexedStore(transform=parts.slimmer.slim)
    executor = Executor(
        adapter,
        parts.host.client,
        parts.host.leadership,
        parts.events,
        jobs=jobs,
        units=parts.units,
        full_pod_templates=settings.full_pod_templates,
    )
    kind = adapter.kind
    watch = parts.informers.follow(
        executor.job_type,
        jobs,
        on_made=lambda informer: _follow(parts, server, informer),
        turn=parts.turns.get((kind.api_version, kind.kind)),
    )
    own = ServerParts(jobs=jobs, executor=executor, watch=watch)
    server = _assemble(parts, adapter, own, settings, flags.workers)
    return server


def _build_pod_server(
    parts: _BuiltParts, adapter: GatedPods, flags: Flags, configuration: Configuration
) -> ExtensionServer[PodGroup]:
    """Return the server of a kind whose jobs are made of pods."""
    settings = settings_of(adapter.kind.key, flags, configuration)
    groups = PodGroupCache(adapter, parts.pods.store, parts.sizes)
    executor = GatedPodExecutor(
        adapter,
        parts.host.client,
        parts.host.leadership,
        parts.events,
        groups=groups,
        units=parts.units,
        labels_opened=settings.schedule_admission_label,
    )
    watch = PodsFollowed(parts.pods)
    own = ServerParts(jobs=groups, executor=executor, watch=watch, groups=groups)
    return _assemble(parts, adapter, own, settings, flags.workers)


def _assemble(
    parts: _BuiltParts,
    adapter: GenericJob[JobT],
    own: ServerParts[JobT],
    settings: JobSettings,
    worker_count: int,
) -> ExtensionServer[JobT]:
    host, kind = parts.host, adapter.kind
    workers: list[LoopThread] = []
    queue: WorkQueue[str] = WorkQueue(
        host.clock,
        backoff=lambda attempt: RETRY_BACKOFF.seconds(attempt, host.rng),
        observer=host.metrics.work_queues.of_queue(kind.key),
        on_ready=lambda: _wake_resting(workers),
        on_delay=lambda: keeper.wake(),  # noqa: PLW0108 - the thread is made below
        delay_step_seconds=STEP_SECONDS,
    )
    reconciler = JobReconciler(
        adapter,
        own.executor,
        parts.shared,
        jobs=own.jobs,
        settings=settings,
        queue=queue,
        is_open=lambda: server.is_open(),  # noqa: PLW0108 - the server is made below
    )
    server = ExtensionServer(
        adapter,
        own,
        units=parts.units.store,
        reconciler=reconciler,
        queue=queue,
        clock=host.clock,
        may_decide=parts.warmup.is_open,
    )
    keeper = parts.run(f"extension-{kind.key}", server.step)
    names = [f"{kind.key}-worker-{number}" for number in range(worker_count)]
    workers += [parts.run(name, reconciler.step) for name in names]
    parts.metrics.show(kind.key, served=server.watch.is_served, jobs=own.jobs.__len__)
    return server


def _follow(
    parts: _BuiltParts, server: ExtensionServer[JobT], informer: SharedInformer[JobT]
) -> None:
    """Connect a server to the events of a new informer."""
    kind = server.adapter.kind
    informer.add_handler(server.on_job)
    informer.add_undecodable_handler(unreadable_recorder(parts.events, kind.api_version, kind.kind))


def _build_reservations(
    parts: _BuiltParts,
    servers: Sequence[ExtensionServer[Any]],
    flags: Flags,
    configuration: Configuration,
) -> ReservationController | None:
    if not flags.enable_reservation:
        return None
    host = parts.host
    store = IndexedStore(indexes=reservation_indexes())
    workers: list[LoopThread] = []
    controller = ReservationController(
        ReservationExecutor(
            host.client,
            host.leadership,
            parts.events,
            units=parts.units,
            note_reservation=store.note_written,
            clock=host.clock,
            settings=reservation_settings(configuration),
        ),
        ReservationCaches(
            units=parts.units.store,
            reservations=store,
            watch=parts.informers.follow(
                RESERVATIONS,
                store,
                on_made=lambda informer: informer.add_handler(controller.on_reservation),
                label_selector=UNIT_UID,
            ),
            kinds=lambda: [each for each in servers if each.watch.is_served()],
        ),
        queue=WorkQueue(
            host.clock,
            backoff=lambda attempt: RETRY_BACKOFF.seconds(attempt, host.rng),
            observer=host.metrics.work_queues.of_queue(RESERVATIONS.plural),
            on_ready=lambda: _wake_resting(workers),
        ),
        clock=host.clock,
        may_decide=parts.warmup.is_open,
        observer=parts.metrics,
    )
    parts.run("reservations", controller.keep)
    names = [f"reservations-worker-{number}" for number in range(flags.workers)]
    workers += [parts.run(name, controller.step) for name in names]
    parts.metrics.show_reservations(store.__len__)
    return controller


def _build_lost_pods(
    parts: _BuiltParts, servers: Sequence[ExtensionServer[Any]], configuration: Configuration
) -> LostPodController | None:
    if not configuration.general.delete_lost_pods:
        return None
    host, lookups = parts.host, parts.shared.lookups
    nodes: IndexedStore[WatchedNode] = IndexedStore(transform=slim_node)
    controller = LostPodController(
        PodDeleter(host.client, host.leadership, parts.events),
        StatedTimes(
            servers,
            parts.units.store,
            above=lambda namespace, owner: lookups.owners(namespace).above(owner),
        ),
        LostPodCaches(pods=parts.pods.store, nodes=parts.informers.make(WATCHED_NODES, nodes)),
        queue=WorkQueue(
            host.clock,
            backoff=lambda attempt: RETRY_BACKOFF.seconds(attempt, host.rng),
            observer=host.metrics.work_queues.of_queue(LOST_PODS),
            on_ready=lambda: worker.wake(),  # noqa: PLW0108 - the thread is made below
        ),
        clock=host.clock,
        may_decide=parts.warmup.is_open,
        observer=parts.metrics,
    )
    worker = parts.run(LOST_PODS, controller.step)
    controller.nodes.add_handler(controller.on_node)
    parts.pods.add_handler(controller.on_pod)
    return controller


def _wake_resting(workers: Sequence[LoopThread]) -> None:
    """Wake one resting worker; if none rests, the first to be done takes the key."""
    for worker in workers:
        if worker.is_resting:
            worker.wake()
            return
    for worker in workers:
        worker.wake()
