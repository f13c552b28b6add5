"""What this queue would have decided: the record's arrivals and run times, in virtual time. Pure.

The engine is the one that decides in a cluster. Its books are its own: a job that it lets start
occupies its quota from then on for as long as it really ran, whenever that was. While that is not
known, since the job still runs, or waits in truth, it occupies its quota.

- A job that runs when the record begins runs here as well, from its real start.
- A job that was taken back before it could run to its end leaves here at the same time.
- Time ends with the record.

A report knows all run times before it begins, and so is exact. The program that watches learns of a
run time when the job really ends; if it has let the job start earlier than it really did, the job
leaves later than it would have. `docs/shadow.md` says so to users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_insight.insight.queue_source import find_made_for
from queue_insight.insight.virtual_cluster import Event, EventKind, Outside, VirtualCluster
from queue_insight.replay.quota_files import QUOTA_KINDS, Objects, Quota
from queue_insight.replay.replayed_world import World, build_engine, find_queues, top_limits
from queue_insight.shadow.lines import JobEnded, JobSeen, Line, ObjectGone, ObjectSeen
from queue_insight.shadow.quota_mapping import QuotaMapping
from queue_insight.shadow.story import JobStory, Run
from queue_scheduler.configuration import KoordQueueConfiguration
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_questions import list_quotas
from queue_scheduler.queueing.managed_queues import policy_differences
from queue_scheduler.refusal_texts import full_message
from queue_scheduler.tenants.periods import find_calendars
from queue_scheduler.unit_writes.applied_patches import merged, with_status
from queue_scheduler.unit_writes.run_patches import build_running
from shared_api.objects.meta import Condition, ObjectMeta, Uid
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import ADOPTED, condition_body
from shared_api.resource_list import Amounts, add, format_amounts, scale
from shared_api.timestamps import rfc3339

RecordedObject = Quota | QuotaPolicy | Node | Queue

KINDS: Final[Mapping[str, type[RecordedObject]]] = {
    **QUOTA_KINDS,
    "QuotaPolicy": QuotaPolicy,
    "Node": Node,
    "Queue": Queue,
}
"""The kinds of objects that a record has."""

STAND_IN: Final = "all-quotas"
"""The node of a cluster of which no node is known."""

_ADOPTED: Final = Condition(
    type=ADOPTED, status="True", reason="RanBefore", message="It ran before the record began"
)


class Fate(msgspec.Struct, kw_only=True):
    """What becomes of one job.

    Attributes:
        queue: Its queue; "" if it has none.
        quota: What is charged; "" if it has none.
        priority: Its priority.
        runs: From when until when it runs, in seconds since the epoch.
        ended: Whether the last run was its last one.
        adopted: Whether it ran already when the record began.
    """

    queue: str = ""
    quota: str = ""
    priority: int = 0
    runs: list[Run] = []
    ended: bool = False
    adopted: bool = False

    @property
    def started(self) -> float | None:
        """When it starts first, or None if it does not."""
        return self.runs[0].start if self.runs else None


class Counterfactual:
    """Plays a record, or what is seen now.

    Args:
        world: Quotas, their policies, queues and nodes at the beginning, and the settings.
        places: The quotas of jobs that name none.
        began: The beginning, in seconds since the epoch.
        jobs: What is known of the jobs, by uid; read when it is needed, so it may grow.
        on_start: Called with a job's uid when it starts.

    Attributes:
        fates: What has become of the jobs so far, by uid.

    Raises:
        ConfigurationError: The plugins cannot be built.
        TraceError: There is a quota whose plugin is not configured.
    """

    def __init__(
        self,
        world: World,
        places: QuotaMapping,
        began: float,
        jobs: Mapping[str, JobStory],
        on_start: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.fates: dict[str, Fate] = {}
        self._world = world
        self._mapping = places
        self._began = began
        self._jobs = jobs
        self._on_start = on_start
        self._keys: dict[str, str] = {}
        self._objects = {key_of_object(each): each for each in objects_of(world)}
        moment = Moment(0.0, datetime.fromtimestamp(began, UTC))
        outside = Outside(run_seconds=self._run_seconds)
        engine = build_engine(world, moment.wall)
        self._cluster = _Cluster(engine, moment, outside, on_event=self._on_event)
        self._quotas = frozenset(list_quotas(engine.plugins))

    @property
    def engine(self) -> Engine:
        """The engine; for reading."""
        return self._cluster.engine

    def add(self, line: Line) -> None:
        """Plan what a line says for the time that it states; at once if that has passed."""
        agenda = self._cluster.agenda
        agenda.call_at(self._time_of(line) - self._began, lambda: self._play(line))

    def advance(self, until: float) -> None:
        """Advance time; `now` is in seconds since the epoch."""
        self._cluster.run(max(0.0, until - self._began))

    def why_waiting(self, uid: str) -> str:
        """Return why a job waits; "" if it does not, or was not tried."""
        refusal = refusal_of_unit(self.engine, self._keys.get(uid, ""))
        return "" if refusal is None else full_message(refusal)

    # --- what is told -------------------------------------------------------------------------

    def _time_of(self, line: Line) -> float:
        if isinstance(line, JobSeen) and self._jobs[line.uid].seen is line:
            return line.submitted
        return line.at

    def _play(self, line: Line) -> None:
        match line:
            case ObjectSeen(body=body):
                self._put(body)
            case ObjectGone(kind=kind, key=key):
                self._drop(kind, key)
            case JobSeen():
                self._see(line)
            case JobEnded(uid=uid):
                self._end(uid)
            case _:
                pass

    def _put(self, body: dict[str, object]) -> None:
        changed = convert_object(body)
        self._objects[key_of_object(changed)] = changed
        cluster = self._cluster
        match changed:
            case Node():
                cluster.apply(lambda engine: engine.on_node(changed))
            case Queue():
                policy = self._world.policy or changed.spec.queue_policy
                queue = replace(changed, spec=replace(changed.spec, queue_policy=policy))
                cluster.apply(lambda engine: engine.on_queue(queue))
            case QuotaPolicy():
                self._put_policy(changed)
            case _:
                cluster.apply(lambda engine: engine.on_quota(changed))
                self._make_queues(changed)
        self._on_objects()

    def _put_policy(self, policy: QuotaPolicy) -> None:
        """Take a policy: it counts, in whichever namespace the cluster has its queues."""
        place = replace(policy.metadata, namespace=self.engine.policies.namespace)
        calendars = find_calendars(policy.spec.budgets, int(self._cluster.wall.timestamp()))
        self._cluster.apply(lambda engine: engine.on_calendars(calendars))
        self._cluster.apply(lambda engine: engine.on_quota_policy(replace(policy, metadata=place)))
        self._let_queues_follow()

    def _let_queues_follow(self) -> None:
        """Give the queues that the scheduler makes for quotas what policies state now."""
        engine = self.engine
        for queue in [each.rules.api_object for each in engine.queues]:
            quota = find_made_for(engine, queue)
            body = policy_differences(engine.policies.statement_of(quota), queue) if quota else None
            if body:
                after = msgspec.convert(merged(msgspec.to_builtins(queue), body), Queue)
                self._cluster.apply(partial(Engine.on_queue, queue=after))

    def _make_queues(self, quota: Quota) -> None:
        """Make the queues that the scheduler makes for a new quota."""
        world = replace(self._world, objects=Objects(quotas=(quota,)))
        known = {queue.name for queue in self.engine.queues}
        for queue in find_queues(world, self.engine.policies):
            if queue.metadata.name not in known:
                self._cluster.apply(partial(Engine.on_queue, queue=queue))

    def _drop(self, kind: str, key: str) -> None:
        gone = self._objects.pop((kind, key), None)
        cluster = self._cluster
        match gone:
            case None:
                return
            case Node():
                cluster.apply(lambda engine: engine.on_node_gone(gone.metadata.name))
            case Queue():
                cluster.apply(lambda engine: engine.on_queue_gone(gone.metadata.name))
            case QuotaPolicy():
                cluster.apply(lambda engine: engine.on_quota_policy_gone(gone.metadata.name))
                self._let_queues_follow()
            case _:
                cluster.apply(lambda engine: engine.on_quota_gone(gone))
        self._on_objects()

    def _on_objects(self) -> None:
        """Follow a change of quotas or nodes."""
        self._quotas = frozenset(list_quotas(self.engine.plugins))
        stand_in = stand_in_for_nodes(self._objects.values())
        if stand_in is None:
            self._cluster.apply(lambda engine: engine.on_node_gone(STAND_IN))
        else:
            self._cluster.apply(lambda engine: engine.on_node(stand_in))

    def _see(self, line: JobSeen) -> None:
        key = self._keys.get(line.uid)
        unit = self._unit_of(line)
        if key is not None:
            self.fates[line.uid].priority = unit.spec.priority or 0
            self._cluster.change(key, unit)
            return
        fate = self.fates[line.uid] = Fate(priority=unit.spec.priority or 0)
        if self.engine.record(unit.metadata.key) is not None:
            # An earlier job of the name still waits or runs here.
            name = f"{unit.metadata.name}-{line.uid}"
            unit = replace(unit, metadata=replace(unit.metadata, name=name))
        self._keys[line.uid] = unit.metadata.key
        started = self._jobs[line.uid].started
        if started is not None and started < self._began:
            fate.adopted = True
            fate.runs.append(Run(started))
            self._cluster.adopt(unit, datetime.fromtimestamp(started, UTC))
            self._note_place(fate, unit)
        else:
            self._cluster.arrive(unit)

    def _unit_of(self, line: JobSeen) -> QueueUnit:
        unit = msgspec.convert(line.unit, QueueUnit)
        created = rfc3339(datetime.fromtimestamp(line.submitted, UTC))
        meta = replace(unit.metadata, uid=Uid(line.uid), creation_timestamp=created)
        unit = replace(unit, metadata=meta)
        return self._mapping.place(unit, line.kueue_queue, self._quotas.__contains__)

    def _end(self, uid: str) -> None:
        key = self._keys.get(uid)
        if key is None or self.fates[uid].ended:
            return
        if self._jobs[uid].canceled is not None:
            self._close_run(self.fates[uid])
            self._cluster.leave(key)
        else:
            self._cluster.plan_anew(key)

    # --- what happens -------------------------------------------------------------------------

    def _run_seconds(self, unit: QueueUnit, ran: float) -> float:
        seconds = self._jobs[unit.metadata.uid].run_seconds
        return inf if seconds is None else seconds - ran

    def _on_event(self, event: Event) -> None:
        uid = event.unit.metadata.uid
        fate = self.fates[uid]
        match event.kind:
            case EventKind.ARRIVED:
                self._note_place(fate, event.unit)
            case EventKind.ADMITTED:
                fate.runs.append(Run(self._began + event.now))
                if len(fate.runs) == 1:
                    self._on_start(uid)
            case EventKind.FREED:
                self._close_run(fate)
            case EventKind.FINISHED:
                self._close_run(fate)
                fate.ended = True
            case _:
                pass

    def _close_run(self, fate: Fate) -> None:
        if fate.runs and fate.runs[-1].end is None:
            fate.runs[-1].end = self._began + self._cluster.agenda.now

    def _note_place(self, fate: Fate, unit: QueueUnit) -> None:
        record = self.engine.record(unit.metadata.key)
        if record is not None and record.info is not None:
            fate.queue, fate.quota = record.info.queue, record.info.quota


class _Cluster(VirtualCluster):
    """A virtual cluster to which events are applied as they happen."""

    def apply(self, what: Callable[[Engine], tuple[str, ...]]) -> None:
        """Apply a fact to the engine that is not about units."""
        self._wake(what(self.engine))

    def arrive(self, unit: QueueUnit) -> None:
        """Take a new unit that waits."""
        meta = replace(unit.metadata, resource_version=str(self._next_version()))
        unit = replace(unit, metadata=meta)
        self._update(unit)
        self._report(EventKind.ARRIVED, unit)

    def adopt(self, unit: QueueUnit, since: datetime) -> None:
        """Take a unit whose pods have run since then."""
        status = {"admissions": _admissions_of(unit), "conditions": [condition_body(_ADOPTED)]}
        admitted = with_status(unit, status, self._next_version())
        running = with_status(admitted, build_running(admitted, since), self._next_version())
        self._update(running)
        self._started[unit.metadata.key] = self.agenda.at(since)
        self._plan_by(unit.metadata.key)

    def change(self, key: str, unit: QueueUnit) -> None:
        """Take what has changed of a unit; nothing, if it is not there any more."""
        record = self.engine.record(key)
        if record is None:
            return
        meta = replace(
            record.unit.metadata,
            resource_version=str(self._next_version()),
            labels=unit.metadata.labels,
            annotations=unit.metadata.annotations,
        )
        self._update(replace(record.unit, metadata=meta, spec=unit.spec))
        self._plan_by(key)

    def plan_anew(self, key: str) -> None:
        """Plan the end of a unit by what is known now of its run."""
        self._plan_by(key)

    def leave(self, key: str) -> None:
        """Remove a unit, whatever its state."""
        record = self.engine.record(key)
        if record is not None:
            self._end_pods(key)
            self._started.pop(key, None)
            self.agenda.void(key)
            self._wake(self.engine.on_queue_unit_gone(record.unit))


def convert_object(body: dict[str, object]) -> RecordedObject:
    """Return an object of a record.

    Raises:
        msgspec.ValidationError: It is of no known kind, or has a field of another type.
    """
    kind = KINDS.get(str(body.get("kind")))
    if kind is None:
        msg = f"kind is {body.get('kind')!r}, want one of {', '.join(KINDS)}"
        raise msgspec.ValidationError(msg)
    return msgspec.convert(body, kind)


def build_world(
    objects: list[dict[str, object]], configuration: KoordQueueConfiguration | None, policy: str
) -> World:
    """Return the world at the beginning of a record.

    Args:
        objects: The objects that are there then.
        configuration: The scheduler's, or None for the plugins that the quotas need.
        policy: The policy of all queues; "": each has its own.
    """
    present = [convert_object(body) for body in objects]
    stand_in = stand_in_for_nodes(present)
    if configuration is None and not any(isinstance(each, Quota) for each in present):
        # Quotas may come later, and then need a plugin that has them.
        configuration = KoordQueueConfiguration()
    nodes = tuple(each for each in present if isinstance(each, Node))
    return World(
        objects=Objects(
            quotas=tuple(each for each in present if isinstance(each, Quota)),
            policies=tuple(each for each in present if isinstance(each, QuotaPolicy)),
            queues=tuple(each for each in present if isinstance(each, Queue)),
            nodes=nodes if stand_in is None else (stand_in,),
        ),
        configuration=configuration,
        policy=policy,
        counts_use=True,
    )


def objects_of(world: World) -> Iterator[RecordedObject]:
    """Yield the objects that users have created, without the stand-in for nodes."""
    objects = world.objects
    yield from objects.quotas
    yield from objects.policies
    yield from objects.queues
    yield from (each for each in objects.nodes if each.metadata.name != STAND_IN)


def stand_in_for_nodes(objects: Iterable[RecordedObject]) -> Node | None:
    """Return a node as large as the quotas without a parent, or None if there are nodes.

    Where nothing is known of nodes, quotas are not divided for want of them.
    """
    known = list(objects)
    if any(isinstance(each, Node) for each in known):
        return None
    quotas = tuple(each for each in known if isinstance(each, Quota))
    allocatable = format_amounts(top_limits(Objects(quotas=quotas)))
    return Node(
        metadata=ObjectMeta(name=STAND_IN, uid=Uid(STAND_IN)),
        status=NodeStatus(allocatable=allocatable),
    )


def key_of_object(changed: RecordedObject) -> tuple[str, str]:
    """Return kind and key of an object."""
    return type(changed).__name__, changed.metadata.key


def amounts_of(unit: QueueUnit) -> Amounts:
    """Return what all pods of a unit request together; nothing of those that cannot be read."""
    total: Amounts = {}
    for pod_set in unit.spec.pod_set:
        try:
            total = add(total, scale(pod_requests(pod_set.template.spec), pod_set.count))
        except QuantityError:
            continue
    return total


def _admissions_of(unit: QueueUnit) -> list[dict[str, object]]:
    assignments: list[dict[str, object]] = []
    for pod_set in unit.spec.pod_set:
        alone = replace(unit, spec=replace(unit.spec, pod_set=(pod_set,)))
        amounts = dict(format_amounts(amounts_of(alone)))
        assignments.append({"name": pod_set.name, "replicas": pod_set.count, "resources": amounts})
    return assignments
