"""Builders for tests of the engine, and workers without threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from queue_scheduler.cache.unit_demand import build_demand, build_grants
from queue_scheduler.decision import BEGINNING, Decision, Dequeue, Grant, Preempt, Refused, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Plugin
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES, QueuePolicy
from queue_scheduler.queueing.strict_mode import NOT_STRICT, StrictMode
from shared_api.objects.admission_check import AdmissionCheck, AdmissionCheckStatus
from shared_api.objects.elastic_quota import ElasticQuota, ElasticQuotaSpec
from shared_api.objects.meta import Condition, ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from shared_api.objects.queue import Queue, QueueSpec
from shared_api.objects.queue_unit import (
    Admission,
    ConsumerReference,
    PodSet,
    QueueUnit,
    QueueUnitSpec,
)
from shared_api.objects.quota_policy import (
    QuotaPolicy,
    QuotaPolicySpec,
    QuotaPolicyStatus,
    UserLimit,
)
from shared_api.resource_list import format_amounts
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    DEFAULT_QUEUE_NAMESPACE,
    QUOTA_IS_PARENT,
    QUOTA_NAME,
    QUOTA_NAMESPACES,
    QUOTA_PARENT,
    RELATED_QUEUE_UNIT,
)
from tests.properties.naive_quota import NaiveQuota


def new_engine(
    *plugins: Plugin,
    policies: Iterable[QueuePolicy] = BUILT_IN_POLICIES,
    strict: StrictMode = NOT_STRICT,
) -> tuple[Engine, NaiveQuota]:
    """Return an engine with naive quotas, and these."""
    quotas = NaiveQuota()
    return Engine(PluginRunner([quotas, Priority(), *plugins]), policies, strict), quotas


PodsOf = tuple[str, int, int] | tuple[str, int, int, int | None]
"""Name, count, CPU of each, and the least count where the job can start with fewer."""


# --- builders -----------------------------------------------------------------------------------


def build_info(unit: QueueUnit, quota: str = "a", **changes: Any) -> QueueUnitInfo:
    """Return what plugins are told of a unit in queue q, with other values of some fields."""
    info = QueueUnitInfo(
        key=unit.metadata.key,
        uid=unit.metadata.uid,
        unit=unit,
        queue="q",
        quota=quota,
        demand=UnitDemand((), {}),
        non_preemptible=False,
        priority=unit.spec.priority,
        order_key=(unit.metadata.namespace, unit.metadata.name),
        class_key=(quota,),
    )
    return replace(info, **changes)


def moment(second: int) -> Timestamp:
    """Return the time this many seconds into the day of the tests."""
    return Timestamp(f"2026-11-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z")


def build_queue(
    name: str,
    policy: str = "",
    *,
    priority: int | None = None,
    takes: str = "",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Queue:
    """Return a Queue; `takes` lists the quotas in addition to its own."""
    written = dict(annotations or {})
    if takes:
        written[AVAILABLE_QUOTA[0]] = takes
    return Queue(
        metadata=ObjectMeta(
            name=name, namespace="kq", uid=Uid(f"queue-{name}"), annotations=written
        ),
        spec=QueueSpec(queue_policy=policy, priority=priority, **spec),
    )


def build_check(name: str, active: str = "", message: str = "") -> AdmissionCheck:
    """Return an AdmissionCheck; `active` is the status of its condition, if it has one."""
    conditions = (Condition(type="Active", status=active, message=message),) if active else ()
    return AdmissionCheck(
        metadata=ObjectMeta(name=name), status=AdmissionCheckStatus(conditions=conditions)
    )


def build_policy(
    name: str,
    quotas: Sequence[str] = ("a",),
    *limits: UserLimit,
    second: int = 0,
    in_force: Sequence[UserLimit] = (),
    **meta: Any,
) -> QuotaPolicy:
    """Return a QuotaPolicy that was created at that second; `in_force`: what its status says."""
    return QuotaPolicy(
        metadata=ObjectMeta(
            **{
                "name": name,
                "namespace": DEFAULT_QUEUE_NAMESPACE,
                "uid": Uid(f"policy-{name}"),
                "creation_timestamp": moment(second),
                "generation": 1,
                **meta,
            }
        ),
        spec=QuotaPolicySpec(quotas=tuple(quotas), user_limits=limits),
        status=QuotaPolicyStatus(user_limits_in_force=tuple(in_force)),
    )


def build_quota(
    name: str,
    *,
    cpu: int | None = None,
    guaranteed: int | None = None,
    parent: str = "",
    namespaces: str = "",
) -> ElasticQuota:
    """Return an ElasticQuota with this max and min in whole cores; without cpu, unlimited."""
    limits: dict[str, Any] = {} if cpu is None else {"cpu": cpu}
    least: dict[str, Any] = {} if guaranteed is None else {"cpu": guaranteed}
    return ElasticQuota(
        metadata=ObjectMeta(
            name=name,
            namespace="kq",
            uid=Uid(f"quota-{name}"),
            labels={QUOTA_PARENT: parent} if parent else {QUOTA_IS_PARENT: "true"},
            annotations={QUOTA_NAMESPACES: namespaces} if namespaces else {},
        ),
        spec=ElasticQuotaSpec(max=limits, min=least),
    )


def build_unit(
    name: str,
    quota: str = "",
    *,
    cpu: int | str | None = 1,
    queue: str = "",
    priority: int = 0,
    created: int = 0,
    version: int = 1,
    uid: str = "",
    namespace: str = "ns",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    pods: tuple[PodsOf, ...] = (),
    job: str = "",
    active: bool | None = None,
    deleted: bool = False,
) -> QueueUnit:
    """Return a pending unit; `pods`: (name, count, cpu of each[, minCount]) instead of a total."""
    return QueueUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=Uid(uid or f"uid-{name}"),
            resource_version=str(version),
            creation_timestamp=moment(created),
            deletion_timestamp=moment(0) if deleted else None,
            labels={**({QUOTA_NAME: quota} if quota else {}), **(labels or {})},
            annotations=annotations or {},
        ),
        spec=QueueUnitSpec(
            queue=queue,
            priority=priority,
            active=active,
            request={} if pods or cpu is None else {"cpu": cpu},
            pod_set=tuple(_pod_set(*each) for each in pods),
            consumer_ref=ConsumerReference(kind="Job", name=name, uid=Uid(job)) if job else None,
        ),
    )


def some_pods(a: int, b: int) -> tuple[PodsOf, ...]:
    """Return pod sets, some of which may have fewer pods."""
    if a % 4 == 0:
        return (("main", 2, 1),)
    return (("main", 2 + a % 3, 1, 1 + b % 2), ("more", 1 + b % 2, 1, 1))[: 1 + a % 2]


def _pod_set(name: str, count: int, cpu: int, least: int | None = None) -> PodSet:
    template = replace(PodSet().template, spec=_pod_spec(cpu))
    return PodSet(name=name, count=count, min_count=least, template=template)


def _pod_spec(cpu: int | str) -> PodSpec:
    return PodSpec(containers=(Container(resources=ResourceRequirements(requests={"cpu": cpu})),))


def changed(unit: QueueUnit, version: int, phase: str = "", **status: Any) -> QueueUnit:
    """Return the unit with another status, one version later."""
    if phase:
        status["phase"] = phase
    return replace(
        unit,
        metadata=replace(unit.metadata, resource_version=str(version)),
        status=replace(unit.status, **status),
    )


def admitted(
    unit: QueueUnit,
    version: int,
    phase: str = "Dequeued",
    grants: tuple[Grant, ...] | None = None,
) -> QueueUnit:
    """Return the unit after a decision to start it, in whole or in part, has been written."""
    admissions = tuple(
        Admission(name=grant.name, replicas=grant.replicas, resources=format_amounts(grant.amounts))
        for grant in (build_grants(build_demand(unit)) if grants is None else grants)
    )
    return changed(unit, version, phase, admissions=admissions)


def declaring(unit: QueueUnit, seconds: int | None) -> QueueUnit:
    """Return the unit with a maximum execution time."""
    return replace(unit, spec=replace(unit.spec, maximum_execution_time_seconds=seconds))


def running(
    unit: QueueUnit, version: int, *, since: Timestamp, grants: tuple[Grant, ...] | None = None
) -> QueueUnit:
    """Return the unit when its pods, or those that it was granted, run."""
    ready = Condition(type="PodsReady", status="True", last_transition_time=since)
    started = admitted(unit, version, "Running", grants)
    return replace(started, status=replace(started.status, conditions=(ready,)))


def condition(kind: str, status: str) -> Condition:
    """Return a condition with the fields that are read."""
    return Condition(type=kind, status=status)


def build_pod(
    name: str,
    *,
    cpu: int | str = 1,
    unit: str = "",
    owner: str = "",
    quota: str | None = None,
    phase: str = "Running",
    created: int = 0,
    uid: str = "",
    node: str = "node",
    namespace: str = "ns",
) -> Pod:
    """Return a pod; `unit` is the key of the unit it names, in quota "a" unless given."""
    quota = ("a" if unit else "") if quota is None else quota
    owners = (OwnerReference(kind="Job", uid=Uid(owner), controller=True),) if owner else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=Uid(uid or f"pod-{name}"),
            creation_timestamp=moment(created),
            labels={QUOTA_NAME: quota} if quota else {},
            annotations={RELATED_QUEUE_UNIT: unit} if unit else {},
            owner_references=owners,
        ),
        spec=replace(_pod_spec(cpu), node_name=node),
        status=PodStatus(phase=phase),
    )


WALL = 1_800_000_000
"""Wall time of all decisions, unless a test advances it."""


# --- workers without threads --------------------------------------------------------------------


def wall_time(seconds: int | None) -> datetime:
    """Return the wall time in seconds since the epoch, as the engine gets it; None: unknown."""
    return BEGINNING if seconds is None else datetime.fromtimestamp(seconds, UTC)


class Workers:
    """Asks only the queues that the engine says may move, as the threads do.

    A queue is asked when it was added or named in a `wake`, and then until it rests. The caller
    chooses the order among queues to ask (`choose`), as the machine does in production. The engine
    is validated after each question, unless time is measured (`validates`).
    """

    def __init__(
        self,
        engine: Engine,
        choose: Callable[[list[str]], str] = min,
        *,
        validates: bool = True,
    ) -> None:
        self.engine = engine
        self.now = 0.0
        self.wall: int | None = WALL
        self.alarms: dict[str, float] = {}
        self.decided: list[Dequeue | Refused | Preempt] = []
        self._choose = choose
        self._validates = validates
        self._going: dict[str, None] = {}

    def wake(self, queues: Iterable[str]) -> None:
        """Let these queues be asked."""
        self._going.update(dict.fromkeys(queues))

    def is_quiet(self) -> bool:
        """Return whether no queue is to be asked."""
        return not self._going

    def step(self) -> Decision:
        """Ask one queue once."""
        name = self._choose(list(self._going))
        decision = self.engine.decide_next(name, self.now, wall_time(self.wall))
        if self._validates:
            self.engine.validate()
        if isinstance(decision, Rest):
            del self._going[name]
            self.alarms.pop(name, None)
            if decision.until is not None:
                self.alarms[name] = decision.until
        else:
            self.decided.append(decision)
        self.wake(decision.wake)
        return decision

    def run(self, most: int = 10_000) -> list[Decision]:
        """Ask until all queues rest; return what was decided."""
        decisions: list[Decision] = []
        for _ in range(most):
            if self.is_quiet():
                return decisions
            decision = self.step()
            if not isinstance(decision, Rest):
                decisions.append(decision)
        raise AssertionError(f"no rest after {most} questions: {decisions[-5:]}")

    def let_pass(self, seconds: float, ask: Callable[[], None]) -> None:
        """Let time pass; wake queues at the times they named, and call `ask` then."""
        ask()
        until = self.now + seconds
        while self.alarms and min(self.alarms.values()) <= until:
            self.now = max(self.now, min(self.alarms.values()))
            due = [name for name, at in self.alarms.items() if at <= self.now]
            for name in due:
                del self.alarms[name]
            self.wake(due)
            ask()
        self.now = until

    def ring(self) -> None:
        """Let time pass until the last alarm."""
        self.now = max([self.now, *self.alarms.values()])
        self.wake(self.alarms)
        self.alarms.clear()


def started(decisions: Iterable[Decision]) -> list[str]:
    """Return the names of the units that were started, in order."""
    return [d.unit.partition("/")[2] for d in decisions if isinstance(d, Dequeue)]


def refused(decisions: Iterable[Decision]) -> list[tuple[str, str]]:
    """Return (name, reason) of the units that were refused, in order."""
    found = [d for d in decisions if isinstance(d, Refused)]
    return [(d.unit.partition("/")[2], d.refusal.reason.value) for d in found]
