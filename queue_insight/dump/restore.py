"""An engine from a dump. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from queue_insight.dump.beyond_objects import put_beyond_objects, put_charges
from queue_insight.dump.contents import CountedPod, Dump
from queue_scheduler.cache.held_pods import HeldPod
from queue_scheduler.cache.pod_accounting import UNSCHEDULABLE
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import QuotaSource
from queue_scheduler.quota.quota_decision import PodStage
from shared_api.objects.admission_check import ACTIVE, AdmissionCheck, AdmissionCheckStatus
from shared_api.objects.meta import Condition, ObjectMeta, OwnerReference, Timestamp
from shared_api.objects.pod import (
    SCHEDULED,
    Container,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from shared_api.objects.queue_unit import QueueUnit, SalvagedUnit
from shared_api.resource_list import parse_amounts
from shared_api.well_known_labels import RELATED_POD_SET, RELATED_QUEUE_UNIT


def moment_of(dump: Dump) -> Moment:
    """Return the time of a dump."""
    return Moment(dump.monotonic, dump.taken_at)


def restore_engine(engine: Engine, dump: Dump) -> None:
    """Bring an engine without facts into the state of a dump."""
    sources: tuple[QuotaSource, ...] = (
        *dump.namespaces,
        *dump.elastic_quota_trees,
        *dump.resource_quotas,
    )
    for quota in (*sources, *dump.elastic_quotas):
        engine.on_quota(quota)
    for node in dump.nodes:
        engine.on_node(node)
    _restore_checks(engine, dump)
    engine.on_calendars(dump.beyond_objects.calendars)
    _restore_policies(engine, dump)
    engine.on_schedules(dump.beyond_objects.schedules)
    _restore_reservations(engine, dump)
    for queue in dump.queues:
        engine.on_queue(queue)
    for unit in dump.units:
        engine.on_queue_unit(_read_unit(unit))
    for pod in dump.pods:
        if pod.held_for:
            engine.pods.held.put(pod.pod, _build_held(pod))
        else:
            engine.living_pods.on_pod(_build_pod(pod), pod.counted_for)
    put_charges(engine, dump.beyond_objects)
    _refresh(engine)
    engine.on_time(dump.taken_at)
    if dump.beyond_objects.accounts is not None:
        engine.on_edges(dump.beyond_objects.edges)
        engine.on_accounts(dump.beyond_objects.accounts)
    # After the accounts, which may change the order, and so the turns.
    put_beyond_objects(engine, dump.beyond_objects, moment_of(dump))
    _refresh(engine)
    engine.take_notices()
    engine.units.take_held_lately()


def _refresh(engine: Engine) -> None:
    """Bring turns, charges and plugins in line with what was changed outside the engine's facts."""
    engine.forget_pod("")  # There is no such pod: only what follows every fact is done.


def _restore_checks(engine: Engine, dump: Dump) -> None:
    checks = dump.checks
    if checks.are_served is not None:
        engine.on_admission_checks_served(are_served=checks.are_served)
    for check in _build_checks(dump):
        engine.on_admission_check(check)


def _restore_policies(engine: Engine, dump: Dump) -> None:
    policies = dump.policies
    if policies.are_served is not None:
        engine.on_quota_policies_served(are_served=policies.are_served)
    for policy in policies.objects:
        engine.on_quota_policy(policy)


def _restore_reservations(engine: Engine, dump: Dump) -> None:
    reservations = dump.reservations
    if reservations.are_served is not None:
        engine.on_reservations_served(are_served=reservations.are_served)
    for reservation in reservations.objects:
        engine.on_reservation(reservation)


def _build_checks(dump: Dump) -> Iterator[AdmissionCheck]:
    for name in dump.checks.names:
        why = dump.checks.inactive.get(name)
        conditions = () if why is None else (Condition(type=ACTIVE, status="False", message=why),)
        yield AdmissionCheck(
            metadata=ObjectMeta(name=name), status=AdmissionCheckStatus(conditions=conditions)
        )


def _read_unit(unit: SalvagedUnit) -> QueueUnit:
    if unit.unreadable:
        return unit
    return QueueUnit(metadata=unit.metadata, spec=unit.spec, status=unit.status)


def _build_held(pod: CountedPod) -> HeldPod:
    return HeldPod(
        uid=pod.uid,
        job=pod.held_for,
        namespace=pod.pod.partition("/")[0],
        labels=pod.labels,
        request=parse_amounts(pod.requests),
    )


def _build_pod(pod: CountedPod) -> Pod:
    namespace, _, name = pod.pod.rpartition("/")
    owner = (OwnerReference(uid=pod.owner, controller=True),) if pod.owner else ()
    requests_of_pod = ResourceRequirements(requests=dict(pod.requests))
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=pod.uid,
            creation_timestamp=Timestamp(pod.created),
            labels=pod.labels,
            deletion_timestamp=Timestamp(pod.created) if pod.ends else None,
            annotations=_marks_of(pod),
            owner_references=owner,
        ),
        spec=PodSpec(containers=(Container(resources=requests_of_pod),), node_name=pod.node),
        status=PodStatus(conditions=(_verdict_of(pod),) if pod.is_tried else ()),
    )


def _verdict_of(pod: CountedPod) -> PodCondition:
    is_stuck = pod.stage is PodStage.STUCK
    return PodCondition(type=SCHEDULED, reason=UNSCHEDULABLE if is_stuck else "")


def _marks_of(pod: CountedPod) -> dict[str, str]:
    """Return the annotations of a pod that count."""
    marks = {RELATED_QUEUE_UNIT: pod.unit, RELATED_POD_SET: pod.pod_set}
    return {key: name for key, name in marks.items() if name}
