"""Snapshots of the engine, turned into what the debug API answers.

Pure: an engine goes in (under its lock, or a fork), frozen pydantic models come out; their
fields are the API's contract and make `/openapi.json`. Amounts are canonical quantities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from pydantic import BaseModel, ConfigDict

from queue_scheduler.decision import Refusal
from queue_scheduler.engine import Engine
from queue_scheduler.insight.wording import full_message
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_decision import QuotaView
from queue_scheduler.unit_record import Standing, UnitRecord
from shared_api.quantity import format_amount
from shared_api.resource_list import Amounts


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class View(BaseModel):
    """Frozen, camelCase as everything in Kubernetes."""

    model_config = ConfigDict(frozen=True, alias_generator=_camel, populate_by_name=True)


class RefusalView(View):
    """Why a unit waits: the reason, the numbers, and both in words."""

    reason: str
    message: str
    quota: str = ""
    resource: str = ""
    limit: str = ""
    used: str = ""
    requested: str = ""
    missing: str = ""
    other: str = ""


class JobView(View):
    """The job behind a unit."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class UnitView(View):
    """One unit. `position` counts from 1 and is 0 for units that are not in line."""

    namespace: str
    name: str
    uid: str
    job: JobView
    queue: str
    quota: str
    phase: str
    standing: str
    position: int
    priority: int
    created: str
    demand: dict[str, str]
    charged: dict[str, str]
    refusal: RefusalView | None


class QueueView(View):
    """One queue."""

    name: str
    policy: str
    priority: int
    quotas: list[str]
    pending: int
    admitted: int
    head: UnitView | None
    last_refusal: RefusalView | None


class QueuePage(View):
    """Queues by name; `leader` says whether this replica decides or only follows."""

    leader: bool
    total: int
    offset: int
    limit: int
    items: list[QueueView]


class QueueDetail(View):
    """One queue with a page of its line."""

    leader: bool
    queue: QueueView
    offset: int
    limit: int
    units: list[UnitView]


class QuotaNode(View):
    """One quota of the tree; a key missing in `limits` is unlimited."""

    name: str
    namespace: str
    parent: str
    is_parent: bool
    lends: bool
    usable: bool
    min: dict[str, str]
    scaled_min: dict[str, str]
    max: dict[str, str]
    runtime: dict[str, str]
    limits: dict[str, str]
    used: dict[str, str]
    booked: dict[str, str]
    foreign: dict[str, str]
    demand: dict[str, str]
    request: dict[str, str]
    protected: dict[str, str]
    problems: list[str]
    children: list[QuotaNode]


class QuotaTreePage(View):
    """All quota trees, roots first."""

    leader: bool
    items: list[QuotaNode]


def view_refusal(refusal: Refusal) -> RefusalView:
    """Return a refusal with its amounts as quantities."""

    def shown(amount: int) -> str:
        return format_amount(refusal.resource, amount) if refusal.resource else ""

    return RefusalView(
        reason=refusal.reason.value,
        message=full_message(refusal),
        quota=refusal.quota,
        resource=refusal.resource,
        limit=shown(refusal.limit),
        used=shown(refusal.used),
        requested=shown(refusal.requested),
        missing=shown(refusal.missing),
        other=refusal.other,
    )


def view_unit(engine: Engine, record: UnitRecord, position: int) -> UnitView:
    """Return one unit; `position` 0 where it is not in line."""
    unit, info = record.unit, record.info
    consumer = unit.spec.consumer_ref
    refusal = engine.refusal_of(record.key)
    charge = engine.charge_of(record.uid)
    job = JobView()
    if consumer is not None:
        job = JobView(api_version=consumer.api_version, kind=consumer.kind, name=consumer.name)
    return UnitView(
        namespace=unit.metadata.namespace,
        name=unit.metadata.name,
        uid=record.uid,
        job=job,
        queue=info.queue if info is not None else unit.spec.queue,
        quota=info.quota if info is not None else "",
        phase=unit.status.phase,
        standing=record.standing.value,
        position=position,
        priority=unit.spec.priority or 0,
        created=unit.metadata.creation_timestamp,
        demand=_quantities(info.demand.total) if info is not None else {},
        charged=_quantities(charge.amounts) if charge is not None else {},
        refusal=view_refusal(refusal) if refusal is not None else None,
    )


def view_queue(engine: Engine, line: SchedulingQueue) -> QueueView:
    """Return one queue with its head and the refusal nearest to the front."""
    head = next(iter(engine.waiting(line.name)), None)
    refused = min(line.last_refusals(), default=None, key=lambda pair: pair[0])
    return QueueView(
        name=line.name,
        policy=line.policy.name,
        priority=line.queue.spec.priority or 0,
        quotas=sorted(line.quotas()),
        pending=engine.units.pending_count(line.name),
        admitted=engine.units.admitted_count(line.name),
        head=view_unit(engine, head, 1) if head is not None else None,
        last_refusal=view_refusal(refused[1]) if refused is not None else None,
    )


def view_queues(engine: Engine, *, leader: bool, offset: int, limit: int) -> QueuePage:
    """Return a page of all queues, by name."""
    lines = sorted(engine.queues, key=lambda line: line.name)
    page = [view_queue(engine, line) for line in lines[offset : offset + limit]]
    return QueuePage(leader=leader, total=len(lines), offset=offset, limit=limit, items=page)


def view_line(
    engine: Engine, name: str, *, leader: bool, offset: int, limit: int
) -> QueueDetail | None:
    """Return a queue with a page of its line, or None where there is no such queue."""
    line = engine.queues.line(name)
    if line is None:
        return None
    page = islice(engine.waiting(name), offset, offset + limit)
    units = [view_unit(engine, record, offset + n) for n, record in enumerate(page, start=1)]
    queue = view_queue(engine, line)
    return QueueDetail(leader=leader, queue=queue, offset=offset, limit=limit, units=units)


def view_one_unit(engine: Engine, key: str) -> UnitView | None:
    """Return one unit with its position, or None where it is unknown."""
    record = engine.record(key)
    if record is None:
        return None
    position = 0
    if record.standing is Standing.WAITING and record.info is not None:
        line = engine.queues.line(record.info.queue)
        if line is not None:
            position = line.count_before(record.info.order_key) + 1
    return view_unit(engine, record, position)


def view_quota_tree(views: Iterable[QuotaView], *, leader: bool) -> QuotaTreePage:
    """Return quotas nested by parent; those with an unknown parent stand at the top."""
    by_name = {view.name: view for view in views}
    children: dict[str, list[QuotaView]] = {}
    for view in by_name.values():
        children.setdefault(view.parent if view.parent in by_name else "", []).append(view)
    seen: set[str] = set()

    def node(view: QuotaView) -> QuotaNode:
        seen.add(view.name)
        below = [child for child in children.get(view.name, []) if child.name not in seen]
        return _quota_node(view, [node(child) for child in sorted(below, key=lambda v: v.name)])

    roots = [node(view) for view in sorted(children.get("", []), key=lambda v: v.name)]
    # Members of a cycle hang under nobody.
    roots += [node(view) for name, view in sorted(by_name.items()) if name not in seen]
    return QuotaTreePage(leader=leader, items=roots)


def _quota_node(view: QuotaView, children: list[QuotaNode]) -> QuotaNode:
    return QuotaNode(
        name=view.name,
        namespace=view.namespace,
        parent=view.parent,
        is_parent=view.is_parent,
        lends=view.lends,
        usable=view.usable,
        min=_quantities(view.min),
        scaled_min=_quantities(view.scaled_min),
        max=_quantities(view.max),
        runtime=_quantities(view.runtime),
        limits=_quantities(view.limits),
        used=_quantities(view.used),
        booked=_quantities(view.booked),
        foreign=_quantities(view.foreign),
        demand=_quantities(view.demand),
        request=_quantities(view.request),
        protected=_quantities(view.protected),
        problems=[f"{problem.kind}: {problem.text}" for problem in view.problems],
        children=children,
    )


def view_upstream_queues(engine: Engine, *, limit: int) -> dict[str, list[dict[str, object]]]:
    """Return what upstream's `/apis/v1/queue` means to show: each queue's first units."""
    return {
        line.name: [
            {
                "namespace": record.unit.metadata.namespace,
                "name": record.unit.metadata.name,
                "priority": record.unit.spec.priority or 0,
                "position": position,
            }
            for position, record in enumerate(islice(engine.waiting(line.name), limit), start=1)
        ]
        for line in sorted(engine.queues, key=lambda line: line.name)
    }


def view_upstream_quotas(
    engine: Engine, views: Mapping[str, QuotaView]
) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """Return what upstream's `/apis/v1/userquota` means to show: use per queue and quota."""
    return {
        line.name: {
            name: {
                "min": _quantities(views[name].min),
                "max": _quantities(views[name].max),
                "used": _quantities(views[name].used),
            }
            for name in sorted({*line.quotas(), line.name})
            if name in views
        }
        for line in sorted(engine.queues, key=lambda line: line.name)
    }


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {resource: format_amount(resource, amount) for resource, amount in amounts.items()}
