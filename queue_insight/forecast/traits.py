"""What a unit's run time is guessed by: whose it is, and what it is. Pure."""

from __future__ import annotations

import msgspec

from queue_insight.insight.finished_run import FinishedRun, user_of
from queue_scheduler.cache.unit_state import CachedUnit
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.pod import Container, PodSpec, PodTemplate, ResourceRequirements
from shared_api.objects.queue_unit import ConsumerReference, PodSet, QueueUnit, QueueUnitSpec
from shared_api.resource_list import Amounts, format_amounts
from shared_api.well_known_labels import MANAGED_BY, QUOTA_NAME, USER


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What is known of a unit before it runs.

    Attributes:
        tenant: Its quota; without one its namespace.
        user: Who submitted it; "": not known.
        kind: The kind of its job and what it requests, as text.
        declared: The maximum execution time that it declares, in seconds; None: none.
    """

    tenant: str
    user: str
    kind: str
    declared: float | None = None


def traits_of_run(run: FinishedRun) -> Traits:
    """Return the traits of a unit that has ended."""
    return Traits(
        tenant=run.quota or run.unit.partition("/")[0],
        user=run.user,
        kind=_kind(run.kind, run.charge),
        declared=run.declared_seconds,
    )


def traits_of_record(record: CachedUnit) -> Traits:
    """Return the traits of a unit that the engine knows."""
    unit, info = record.unit, record.info
    return _traits(
        unit,
        "" if info is None else info.quota,
        {} if info is None else info.demand.total,
    )


def _traits(unit: QueueUnit, quota: str, demand: Amounts) -> Traits:
    reference = unit.spec.consumer_ref
    return Traits(
        tenant=quota or unit.metadata.namespace,
        user=user_of(unit),
        kind=_kind("" if reference is None else reference.kind, demand),
        declared=unit.spec.maximum_execution_time_seconds,
    )


def unit_of_run(run: FinishedRun) -> QueueUnit:
    """Return a unit like one that has ended: it requests the same, of the same quota and queue."""
    namespace, _, name = run.unit.partition("/")
    requests = ResourceRequirements(requests=format_amounts(run.charge))
    template = PodTemplate(spec=PodSpec(containers=(Container(resources=requests),)))
    labels = {key: text for key, text in ((QUOTA_NAME, run.quota), (USER, run.user)) if text}
    declared = run.declared_seconds
    return QueueUnit(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=Uid(run.uid),
            labels=labels,
            annotations={MANAGED_BY: "koord-queue-controllers"},
        ),
        spec=QueueUnitSpec(
            consumer_ref=ConsumerReference(kind=run.kind) if run.kind else None,
            queue=run.queue,
            priority=run.priority,
            pod_set=(PodSet(template=template),),
            maximum_execution_time_seconds=None if declared is None else int(declared),
        ),
    )


def _kind(kind: str, demand: Amounts) -> str:
    return f"{kind} {sorted(demand.items())}"
