"""The engine of a replay: the plugins, quotas and queues of a cluster, and the units of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from queue_insight.replay.jobs import Job, TraceError
from queue_insight.replay.quota_files import Objects
from queue_scheduler.configuration import KoordQueueConfiguration, PluginEntry
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Mapped
from queue_scheduler.framework.offline_handle import OfflineHandle
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.plugins.elastic_quota_tree import NAME as ELASTIC_QUOTA_TREE
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.plugins.resource_quota import NAME as RESOURCE_QUOTA
from queue_scheduler.queue_objects.queue_reconciler import (
    CreateQueue,
    QueueAction,
    decide_queue,
    state_for_queue,
)
from queue_scheduler.queue_objects.tree_queues import DefaultQueue, TreeQueues
from queue_scheduler.refusal_texts import full_message
from queue_scheduler.setup.plugin_loading import Switches, build_plugins, load_policies
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.periods import find_calendars
from queue_scheduler.tenants.quota_policies import QuotaPolicies
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.pod import Container, PodSpec, PodTemplate, ResourceRequirements
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import PodSet, QueueUnit, QueueUnitSpec
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, add, format_amounts, parse_amounts
from shared_api.well_known_labels import (
    DEFAULT_QUEUE,
    DEFAULT_QUEUE_NAMESPACE,
    MANAGED_BY,
    PREEMPTIBLE,
    QUOTA_NAME,
    QUOTA_PARENT,
    ROOT_QUOTA,
    USER,
)

PLUGINS: Final[tuple[tuple[type, str], ...]] = (
    (ElasticQuota, ELASTIC_QUOTA),
    (ElasticQuotaTree, ELASTIC_QUOTA_TREE),
    (ResourceQuota, RESOURCE_QUOTA),
)
"""The plugin that has the quotas of a kind."""

BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The zero of a trace that does not say when it began."""

MOST_NAMED: Final = 5
"""Wrong names that an error lists; there may be thousands."""

NO_NAMESPACE: Final = "default"


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay is about, besides its jobs.

    Attributes:
        objects: Quotas, nodes, and the queues of users; other queues are made as in a cluster.
        configuration: The scheduler's configuration; None: the plugins that the quotas need.
        policy: The policy of all queues; "": each has its own.
        counts_use: Whether use is counted from the beginning, as budgets may come later.
    """

    objects: Objects
    configuration: KoordQueueConfiguration | None = None
    policy: str = ""
    counts_use: bool = False


def build_engine(world: World, began: datetime = BEGINNING) -> Engine:
    """Return an engine that knows quotas, nodes and queues.

    Raises:
        ConfigurationError: The plugins cannot be built.
        TraceError: There is a quota whose plugin is not configured.
    """
    configuration = _configure(world)
    plugins = build_plugins(configuration, Switches(), OfflineHandle())
    protect_seconds = configuration.protect_seconds
    budgets = [each for policy in world.objects.policies for each in policy.spec.budgets]
    engine = Engine(
        PluginRunner(plugins),
        load_policies(),
        protect_seconds=protect_seconds,
        ledger=Ledger() if budgets or world.counts_use else None,
    )
    engine.queue_state.limit_evictions(configuration.evictions_per_hour)
    engine.usage.boost_per_eviction = configuration.boost_per_eviction
    if budgets or world.counts_use:
        engine.on_time(began)
        engine.on_calendars(find_calendars(budgets, int(began.timestamp())))
    for quota in world.objects.quotas:
        engine.on_quota(quota)
    for policy in world.objects.policies:
        # Those of the file count, in whichever namespace the cluster has its queues.
        place = replace(policy.metadata, namespace=engine.policies.namespace)
        engine.on_quota_policy(replace(policy, metadata=place))
    for node in world.objects.nodes:
        engine.on_node(node)
    for queue in find_queues(world, engine.policies):
        engine.on_queue(queue)
    return engine


def policy_names() -> tuple[str, ...]:
    """Return the names of the queue policies that are installed."""
    return tuple(policy.name for policy in load_policies())


def _configure(world: World) -> KoordQueueConfiguration:
    quotas = world.objects.quotas
    needed = [name for kind, name in PLUGINS if any(isinstance(each, kind) for each in quotas)]
    configuration = world.configuration
    if configuration is None:
        entries = tuple(PluginEntry(name) for name in (Priority.name, *needed))
        configuration = KoordQueueConfiguration(plugins=entries)
    for name in needed:
        if name not in configuration.plugin_names():
            raise TraceError(f"the quotas need plugin {name}, which --config does not list")
    if ELASTIC_QUOTA not in needed or world.objects.nodes:
        return configuration
    arguments = dict(configuration.plugin_configs.get(ELASTIC_QUOTA, {}))
    arguments.setdefault("expectedCapacity", format_amounts(top_limits(world.objects)))
    configs = {**configuration.plugin_configs, ELASTIC_QUOTA: arguments}
    return replace(configuration, plugin_configs=configs)


def top_limits(objects: Objects) -> Amounts:
    """Return the sum of max of the ElasticQuotas without a parent: as much as there are nodes for.

    It stands in for nodes, where the file has none.
    """
    total: Amounts = {}
    for quota in objects.quotas:
        if isinstance(quota, ElasticQuota):
            parent = quota.metadata.labels.get(QUOTA_PARENT, ROOT_QUOTA)
            if parent in ("", ROOT_QUOTA):
                total = add(total, _read_max(quota))
    return total


def _read_max(quota: ElasticQuota) -> Amounts:
    try:
        return parse_amounts(quota.spec.max)
    except QuantityError as error:
        raise TraceError(f"ElasticQuota {quota.metadata.name}: spec.max: {error}") from error


# --- queues -------------------------------------------------------------------------------------


def find_queues(world: World, policies: QuotaPolicies) -> list[Queue]:
    """Return the queues of the file, and those that the scheduler makes for quotas.

    Args:
        world: What the replay is about.
        policies: Those of the world: what they state, the queues made for quotas have.
    """
    queues = {queue.metadata.name: queue for queue in world.objects.queues}
    for body in _bodies(world.objects, policies):
        queue = msgspec.convert(body, Queue)
        queues.setdefault(queue.metadata.name, queue)
    found = []
    for name, queue in queues.items():
        spec = queue.spec
        if world.policy:
            spec = replace(spec, queue_policy=world.policy)
        meta = queue.metadata
        meta = meta if meta.uid else replace(meta, uid=Uid(f"queue/{name}"))
        found.append(replace(queue, metadata=meta, spec=spec))
    return found


def _bodies(objects: Objects, policies: QuotaPolicies) -> Iterable[dict[str, Any]]:
    """Yield what the scheduler creates, if no user did."""
    namespace = DEFAULT_QUEUE_NAMESPACE
    for quota in objects.quotas:
        match quota:
            case ElasticQuota():
                name = quota.metadata.name
                action = decide_queue(name, namespace, quota, None)
                yield from _created(action, policies, name)
            case ElasticQuotaTree():
                yield from _bodies_of_nodes(quota, namespace, policies)
            case ResourceQuota():
                action = DefaultQueue().decide(DEFAULT_QUEUE, namespace, None)
                yield from _created(action, policies, "")


def _created(action: QueueAction, policies: QuotaPolicies, quota: str) -> Iterable[dict[str, Any]]:
    """Yield the body of a queue that is created for a quota, with what a policy states."""
    action = state_for_queue(action, None, policies.statement_of(quota))
    if isinstance(action, CreateQueue):
        yield action.body


def _bodies_of_nodes(
    tree: ElasticQuotaTree, namespace: str, policies: QuotaPolicies
) -> Iterable[dict[str, Any]]:
    trees: IndexedStore[ElasticQuotaTree] = IndexedStore()
    trees.put_observed(tree)
    source = TreeQueues(trees, lambda: True, lambda _: None, "")
    names: list[str] = []
    source.on_tree(names.append)(None, tree)
    for name in dict.fromkeys(names):
        action = source.decide(name, namespace, None)
        yield from _created(action, policies, source.quota_of(name))


# --- units --------------------------------------------------------------------------------------


class UnitMaker:
    """Makes the units of jobs; jobs that request the same share their templates.

    Args:
        default_quota: The quota of jobs that name none.
    """

    def __init__(self, default_quota: str = "") -> None:
        self._default_quota = default_quota
        self._templates: dict[tuple[tuple[str, str], ...], PodTemplate] = {}

    def tenant_of(self, job: Job) -> str:
        """Return the tenant of a job."""
        return job.tenant or self._default_quota

    def make(self, number: int, job: Job) -> QueueUnit:
        """Return the unit of the job with this number; units of one moment are in this order."""
        tenant = self.tenant_of(job)
        labels = {QUOTA_NAME: tenant} if tenant else {}
        if not job.preemptible:
            labels[PREEMPTIBLE] = "false"
        if job.user:
            labels[USER] = job.user
        return QueueUnit(
            metadata=ObjectMeta(
                name=f"job-{number:08}",
                namespace=job.namespace or tenant or NO_NAMESPACE,
                uid=Uid(str(number)),
                labels=labels,
                annotations={MANAGED_BY: "koord-queue-controllers"},
            ),
            spec=QueueUnitSpec(
                queue=job.queue,
                priority=job.priority,
                pod_set=(PodSet(count=job.pods, template=self._template(job.requests)),),
                maximum_execution_time_seconds=job.limit,
            ),
        )

    def _template(self, requests: Mapping[str, str]) -> PodTemplate:
        key = tuple(requests.items())
        template = self._templates.get(key)
        if template is None:
            container = Container(resources=ResourceRequirements(requests=dict(requests)))
            template = PodTemplate(spec=PodSpec(containers=(container,)))
            self._templates[key] = template
        return template


def check_quotas_and_queues(
    engine: Engine, jobs: Sequence[Job], maker: UnitMaker, path: str
) -> None:
    """Check that every job has a quota and a queue.

    Raises:
        TraceError: Some have not; the text has the first line of each, and how many there are.
    """
    first: dict[tuple[str, str, str], Job] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for job in jobs:
        place = (maker.tenant_of(job), job.queue, job.namespace)
        first.setdefault(place, job)
        counts[place] = counts.get(place, 0) + 1
    wrong = []
    for place, job in first.items():
        mapped = engine.placing.map_unit(maker.make(0, job), engine.queues)
        if not isinstance(mapped, Mapped):
            why = full_message(mapped.refusal) if place[0] else NO_TENANT
            wrong.append(f"{path}, line {job.line}: {why} ({counts[place]} jobs)")
    if wrong:
        more = f"\nand {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        raise TraceError("\n".join(wrong[:MOST_NAMED]) + more)


NO_TENANT: Final = "it names no quota; --default-quota gives such jobs one"
