"""An engine as a dump. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from queue_insight.dump.beyond_objects import read_beyond_objects
from queue_insight.dump.contents import (
    FORMAT,
    KIND,
    Checks,
    CountedPod,
    Dump,
    Policies,
    Reservations,
)
from queue_insight.dump.settle import settle
from queue_scheduler.cache.moved_pods import unit_of_group
from queue_scheduler.cache.pod_accounting import is_stray
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_decision import PodStage
from queue_scheduler.reservations.queue_reservations import StatedReservation
from queue_scheduler.tenants.quota_policies import StatedPolicy
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import NO_UID, ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.pod import PodTemplate
from shared_api.objects.queue import Queue, QueueStatus
from shared_api.objects.queue_reservation import QueueReservation, QueueReservationStatus
from shared_api.objects.queue_unit import QueueUnit, SalvagedUnit
from shared_api.objects.quota_policy import QuotaPolicy, QuotaPolicyStatus
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.resource_list import format_amounts
from shared_api.well_known_labels import ALL_KEYS, POD_SET_UPDATES, TEMPLATE_DIFFERENCES, spellings

KEPT_ANNOTATIONS: Final = frozenset(
    spelled
    for key in ALL_KEYS - {POD_SET_UPDATES, TEMPLATE_DIFFERENCES}
    for spelled in spellings(key)
)
"""Annotations that stay. Users put anything into all others, and what the API server said about a
template may quote it."""

ObjectT = TypeVar(
    "ObjectT",
    ElasticQuota,
    ElasticQuotaTree,
    ResourceQuota,
    Namespace,
    Node,
    Queue,
    QuotaPolicy,
    QueueReservation,
)


def take_dump(
    engine: Engine, moment: Moment, settings: EngineSettings, version: str, *, leader: bool
) -> Dump:
    """Return everything that an engine believes.

    Args:
        engine: A fork; it must not be used afterwards.
        moment: The time.
        settings: With what the program was started.
        version: The program's version.
        leader: Whether the replica decides.
    """
    settle(engine, moment)
    objects = engine.objects
    return Dump(
        kind=KIND,
        format=FORMAT,
        version=version,
        taken_at=moment.wall,
        monotonic=moment.now,
        leader=leader,
        left_out=tuple(f"plugin {name}" for name in engine.plugins.without_fork),
        settings=settings,
        elastic_quotas=_pared(objects.of_kind(ElasticQuota)),
        elastic_quota_trees=_pared(objects.of_kind(ElasticQuotaTree)),
        resource_quotas=_pared(objects.of_kind(ResourceQuota)),
        namespaces=_pared(objects.of_kind(Namespace)),
        nodes=_pared(objects.of_kind(Node)),
        checks=_read_checks(engine),
        policies=_read_policies(engine),
        reservations=_read_reservations(engine),
        queues=_pared(_read_queue(each) for each in engine.queues),
        units=tuple(_read_unit(record.unit) for record in engine.units),
        pods=(*_read_pods(engine), *_read_held(engine)),
        beyond_objects=read_beyond_objects(engine),
    )


def _pared(objects: Iterable[ObjectT]) -> tuple[ObjectT, ...]:
    return tuple(replace(each, metadata=pared_meta(each.metadata)) for each in objects)


def pared_meta(meta: ObjectMeta) -> ObjectMeta:
    """Return metadata with the annotations that the program reads."""
    return replace(meta, annotations=_kept(meta.annotations))


def _kept(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key in KEPT_ANNOTATIONS}


def _read_checks(engine: Engine) -> Checks:
    known = engine.units.checks
    return Checks(are_served=known.are_served, names=known.names(), inactive=dict(known.inactive))


def _read_policies(engine: Engine) -> Policies:
    policies = engine.policies
    objects = _pared(_read_policy(each) for each in policies)
    return Policies(are_served=policies.are_served, objects=objects)


def _read_policy(stated: StatedPolicy) -> QuotaPolicy:
    """Return a policy whose status says what is in force, as a new process reads it."""
    status = QuotaPolicyStatus(
        user_limits_in_force=stated.user_limits, budgets_in_force=stated.budgets
    )
    return replace(stated.api_object, status=status)


def _read_reservations(engine: Engine) -> Reservations:
    known = engine.reservations
    objects = _pared(_read_reservation(each) for each in known)
    return Reservations(are_served=known.are_served, objects=objects)


def _read_reservation(stated: StatedReservation) -> QueueReservation:
    """Return a reservation whose status says what is in force, as a new process reads it."""
    in_force = () if stated.spec is None else (stated.spec,)
    return replace(stated.api_object, status=QueueReservationStatus(in_force=in_force))


def _read_queue(queue: SchedulingQueue) -> Queue:
    """Return a queue whose status says what is in force, as a new process reads it."""
    rules = queue.rules
    status = QueueStatus(
        policy_in_force=rules.policy.name,
        stop_policy_in_force=rules.options.stop.value,
        fair_share_in_force=rules.options.fair.stated,
    )
    return replace(rules.api_object, status=status)


def _read_unit(unit: QueueUnit) -> SalvagedUnit:
    pod_sets = tuple(
        replace(each, template=_pared_template(each.template)) for each in unit.spec.pod_set
    )
    status = unit.status
    checks = tuple(replace(each, pod_set_updates=()) for each in status.admission_checks)
    return SalvagedUnit(
        metadata=pared_meta(unit.metadata),
        spec=replace(unit.spec, pod_set=pod_sets),
        status=replace(status, admission_checks=checks),
        unreadable=unit.unreadable if isinstance(unit, SalvagedUnit) else "",
    )


def _pared_template(template: PodTemplate) -> PodTemplate:
    meta = template.metadata
    return replace(template, metadata=replace(meta, annotations=_kept(meta.annotations)))


def _read_pods(engine: Engine) -> Iterator[CountedPod]:
    living = {record.uid for record in engine.units}
    pods = engine.living_pods
    for key in pods:
        facts, group, _, _ = pods.find(key, None)
        assert facts is not None, f"{key} is counted, and nothing is kept of it"
        uid = NO_UID if is_stray(group) else unit_of_group(group)
        is_left = uid != NO_UID and uid not in living
        yield CountedPod(
            pod=key,
            uid=facts.uid,
            unit=facts.unit_key,
            owner=facts.owner,
            created=facts.created,
            labels=facts.labels,
            requests=format_amounts(facts.request),
            node=facts.node,
            stage=facts.stage,
            is_tried=facts.is_tried,
            pod_set=facts.pod_set,
            ends=facts.ends,
            counted_for=uid if is_left else NO_UID,
        )


def _read_held(engine: Engine) -> Iterator[CountedPod]:
    held = engine.pods.held
    for key in held:
        pod = held.find(key)
        assert pod is not None, f"{key} is held, and nothing is kept of it"
        yield CountedPod(
            pod=key,
            uid=pod.uid,
            labels=pod.labels,
            requests=format_amounts(pod.request),
            stage=PodStage.HELD,
            held_for=pod.job,
        )
