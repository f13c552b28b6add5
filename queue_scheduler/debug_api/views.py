"""Snapshots of the engine, turned into what the debug API answers.

Pure, and never under the engine's lock: facts go in (or a fork), frozen pydantic models come out;
their fields are the API's contract and make `/openapi.json`. Each field is declared together with
how it is read from the facts. Amounts are canonical quantities.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from pydantic_core import to_json

from queue_scheduler.cache.known_units import quotas_in_use
from queue_scheduler.cache.unit_demand import InvalidDemandError, build_demand
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.debug_api.fair_views import FairAccountsView
from queue_scheduler.debug_api.hiding import OF_OTHERS, OfUnit, Owner, Sentence, SumOf
from queue_scheduler.debug_api.snapshots import (
    QueueSnapshot,
    UnitFacts,
    WouldPreempt,
    quotas_of_queue,
)
from queue_scheduler.decision import Reason, Refusal, Trait, Victim, reasons_with
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas, without_views
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.refusal_texts import NAMES_UNIT, full_message, pods_message
from queue_scheduler.tenants.quota_policies import BUDGETS_NEED_ACCOUNTS
from shared_api.debug_api.views import FieldsOf, View
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit
from shared_api.quantity import amount, format_alike, format_amount
from shared_api.resource_list import Amounts
from shared_api.submitters import problems_of_names
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ALL_QUOTAS

BEHIND: Final = reasons_with(Trait.BACKFILL)
"""Reasons of units that wait so as not to delay another unit."""


class _RefusedAmounts(NamedTuple):
    """Amounts of a refusal as quantities of one unit of measure; "" without a resource."""

    limit: str = ""
    used: str = ""
    requested: str = ""
    missing: str = ""


class _ShownRefusal(NamedTuple):
    refusal: Refusal
    at: int | None
    amounts: _RefusedAmounts


_of_refusal = FieldsOf[_ShownRefusal]()
_of_consumer = FieldsOf[ConsumerReference]()
_of_victim = FieldsOf[Victim]()
_of_would = FieldsOf[WouldPreempt]()
_of_unit = FieldsOf[UnitFacts]()
_of_queue = FieldsOf[QueueSnapshot]()
_of_quota = FieldsOf[QuotaView]()


def _message_of(view: RefusalView) -> str:
    """Return the message of a refusal; it is made anew if the unit that it names is hidden."""
    if view.other or view.reason not in NAMES_UNIT:
        return view.message
    numbers = (view.limit, view.used, view.requested)
    limit, used, requested = (amount(view.resource, each or 0) for each in numbers)
    refusal = Refusal(
        reason=Reason(view.reason),
        quota=view.quota,
        quota_namespace=view.quota_namespace,
        resource=view.resource,
        limit=limit,
        used=used,
        requested=requested,
        other=OF_OTHERS,
    )
    return full_message(refusal)


def _is_about_user(view: RefusalView) -> bool:
    """Return whether `other` is a user or group; a user of an identity provider has slashes."""
    return view.reason == Reason.USER_LIMIT


class RefusalView(View):
    """Why a unit waits: the reason, the numbers, and both in words.

    `quota_namespace` is set if several quotas have the name: the namespace of the one that counts.
    `as_of` is when this was found, at the unit's last decision; "" if it is current.
    """

    reason: str = _of_refusal(lambda each: each.refusal.reason.value)
    message: Annotated[str, Sentence(_message_of)] = _of_refusal(
        lambda each: full_message(each.refusal)
    )
    quota: str = _of_refusal(lambda each: each.refusal.quota, default="")
    quota_namespace: str = _of_refusal(lambda each: each.refusal.quota_namespace, default="")
    resource: str = _of_refusal(lambda each: each.refusal.resource, default="")
    limit: str = _of_refusal(lambda each: each.amounts.limit, default="")
    used: str = _of_refusal(lambda each: each.amounts.used, default="")
    requested: str = _of_refusal(lambda each: each.amounts.requested, default="")
    missing: str = _of_refusal(lambda each: each.amounts.missing, default="")
    other: Annotated[str, OfUnit(is_other=_is_about_user)] = _of_refusal(
        lambda each: each.refusal.other, default=""
    )
    as_of: str = _of_refusal(lambda each: _moment(each.at) if each.at else "", default="")


class ConsumerView(View):
    """The job behind a unit."""

    api_version: str = _of_consumer(lambda job: job.api_version, default="")
    kind: str = _of_consumer(lambda job: job.kind, default="")
    name: str = _of_consumer(lambda job: job.name, default="")


class VictimView(View):
    """A unit that would be evicted.

    `lost_seconds`: how long its pods have run since its job last saved what it has computed.
    """

    namespace: Annotated[str, Owner()] = _of_victim(lambda each: each.unit.partition("/")[0])
    name: str = _of_victim(lambda each: each.unit.partition("/")[2])
    priority: int = _of_victim(lambda each: each.priority)
    lost_seconds: int = _of_victim(lambda each: each.lost_seconds)


class WouldPreemptView(View):
    """The units that a waiting unit would preempt now, the cheapest first.

    `enabled`: whether its queue, or its quota, allows it; if not, they are those that it would
    preempt if the queue did. `reason`: `Preempted` for its queue, `Reclaimed` for its quota. Rounds
    of evictions for other units are not considered.
    """

    enabled: bool = _of_would(lambda would: would.is_enabled)
    reason: str = _of_would(lambda would: would.found.reason)
    victims: Annotated[list[VictimView], OfUnit(counted="others")] = _of_would(
        lambda would: [VictimView.of(each) for each in would.found.victims]
    )
    others: int = 0
    """How many further victims are in namespaces that the caller may not read."""
    others_lost_seconds: Annotated[int | None, SumOf("victims", hidden="lost_seconds")] = 0
    """How long the pods of those have run, added up; null if they are of one or two namespaces."""


class PodSetView(View):
    """Pods of a unit that are alike.

    `asked` is the present count, `granted` the count of the admission, `given_back` how many of
    those have ended for good or were removed by a scale-down, and `held` the rest, which is
    charged. Of a unit that has ended `granted` and `given_back` are null: its object says them no
    more.
    """

    name: str
    asked: int
    granted: int | None
    given_back: int | None
    held: int


class UnitView(View):
    """One unit. `position` counts from 1 and is 0 for units that are not pending.

    `scheduler_state` is its state in the scheduler. `demand` is what it requests, whether a quota
    governs it or not; empty if it cannot be parsed.

    `refusal` says why it is pending; for a running unit, why it is not granted the pods that it has
    grown by. `pods_not_ready` says why the pods of an admitted unit do not run: its condition
    PodsReady. `checks` are the last answers of its admission checks, by name. `priority` is the one
    that counts; `spec_priority` is the unit's own, if the ceiling of its queue lowers it, or its
    annotation `koord-queue/priority-boost` changes it.

    In a queue that backfills: `backfill_behind` is the unit that this one must not delay;
    `promised_start` is when this unit, behind which others wait, fits at the latest, by declared
    run times; `promise_is_overdue` says that a unit that should have ended by now still runs.

    `would_preempt` is only in the answer about one waiting unit, if evictions would help.
    """

    namespace: Annotated[str, Owner()] = _of_unit(lambda each: each.unit.metadata.namespace)
    name: str = _of_unit(lambda each: each.unit.metadata.name)
    uid: str = _of_unit(lambda each: each.record.uid)
    job: ConsumerView = _of_unit(lambda each: _view_job(each.unit))
    queue: str = _of_unit(lambda each: each.record.queue_name)
    quota: str = _of_unit(lambda each: quota_of(each.record))
    phase: str = _of_unit(lambda each: each.unit.status.phase)
    scheduler_state: str = _of_unit(lambda each: each.record.state.value)
    position: int = _of_unit(lambda each: each.position)
    priority: int = _of_unit(lambda each: each.record.priority)
    spec_priority: int | None = _of_unit(lambda each: _own_priority(each.record), default=None)
    created: str = _of_unit(lambda each: each.unit.metadata.creation_timestamp)
    demand: dict[str, str] = _of_unit(lambda each: quantities(demand_of(each.record)))
    charged: dict[str, str] = _of_unit(
        lambda each: {} if each.charge is None else quantities(each.charge.amounts)
    )
    charged_elsewhere: dict[str, dict[str, str]] = _of_unit(
        lambda each: {quota: quantities(amounts) for quota, amounts in each.elsewhere.items()}
    )
    pod_sets: list[PodSetView] = _of_unit(
        lambda each: _view_pod_sets(
            each.unit,
            is_charged=each.charge is not None,
            has_ended=each.record.state is UnitState.ENDED,
        )
    )
    checks: dict[str, str] = _of_unit(
        lambda each: {check.name: check.state for check in each.unit.status.admission_checks}
    )
    refusal: RefusalView | None = _of_unit(
        lambda each: _view_refusal_or_none(each.refusal, each.refused_at)
    )
    pods_not_ready: str = _of_unit(lambda each: pods_message(each.unit))
    backfill_behind: Annotated[str, OfUnit()] = _of_unit(lambda each: _unit_ahead(each.refusal))
    promised_start: str = _of_unit(
        lambda each: "" if each.promise is None else _moment(each.promise.at)
    )
    promise_is_overdue: bool = _of_unit(
        lambda each: each.promise is not None and each.promise.is_overdue
    )
    would_preempt: WouldPreemptView | None = None


class QueueView(View):
    """One queue.

    `quotas` are the one of the queue's name, those that its annotation lists ("*" for all), and
    those of its pending and admitted units. `pending` includes units on hold. `head` is the first
    pending unit, without those that ask for more than their quota may ever have and hold back no
    others; null also if the caller may not read its namespace. `last_refusal` is the refusal of the
    first refused unit; if there is none, of a unit on hold; of a stopped queue, that it is stopped.
    `stop_policy` is the one in force, `backfill` whether the queue asks for it, `max_priority` the
    ceiling for its units, `problems` what cannot be parsed in its annotations. `share_used` is set
    where queues take turns by use (the setting `fairTurns`): how many times its share its quota has
    used; of several quotas, the one that has used the least.
    """

    name: str = _of_queue(lambda each: each.queue.metadata.name)
    policy: str = _of_queue(lambda each: each.policy)
    stop_policy: str = _of_queue(lambda each: each.options.stop.value)
    backfill: bool = _of_queue(lambda each: each.options.backfill)
    max_priority: int | None = _of_queue(lambda each: each.options.max_priority, default=None)
    problems: list[str] = _of_queue(lambda each: list(each.options.problems))
    priority: int = _of_queue(lambda each: each.queue.spec.priority or 0)
    quotas: list[str] = _of_queue(lambda each: each.quotas)
    pending: int = _of_queue(lambda each: each.pending)
    admitted: int = _of_queue(lambda each: each.admitted)
    head: UnitView | None = _of_queue(
        lambda each: None if each.head is None else view_unit(each.head)
    )
    last_refusal: RefusalView | None = _of_queue(
        lambda each: _view_refusal_or_none(each.refusal, each.refused_at)
    )
    share_used: float | None = _of_queue(
        lambda each: None if each.share_used is None else each.share_used / 100, default=None
    )


class QueuePage(View):
    """Queues by name; `leader` says whether this replica decides or only follows."""

    leader: bool
    total: int
    offset: int
    limit: int
    items: list[QueueView]


class QueueDetail(View):
    """One queue with a page of its units.

    First the pending ones, in order; then those on hold (position 0), by name, including units that
    name the queue and are not accepted by it. `others` counts those of the page that are not named,
    since the caller may not read their namespaces. `accounts` says who has used how much of a queue
    with the policy Fair, null with another policy.
    """

    leader: bool
    queue: QueueView
    offset: int
    limit: int
    units: Annotated[list[UnitView], OfUnit(counted="others")]
    others: int = 0
    accounts: FairAccountsView | None = None


class UpstreamUnit(View):
    """One pending unit, under upstream's path."""

    namespace: Annotated[str, Owner()] = _of_unit(lambda each: each.unit.metadata.namespace)
    name: str = _of_unit(lambda each: each.unit.metadata.name)
    job: ConsumerView = _of_unit(lambda each: _view_job(each.unit))
    priority: int = _of_unit(lambda each: each.record.priority)
    position: int = _of_unit(lambda each: each.position)


class QuotaUse(View):
    """One quota of a queue, under upstream's path."""

    min: dict[str, str] = _of_quota(lambda each: quantities(each.min))
    max: dict[str, str] = _of_quota(lambda each: quantities(each.max))
    used: dict[str, str] = _of_quota(lambda each: quantities(each.used))


UpstreamQueues = dict[str, list[UpstreamUnit]]
"""The units of each queue, by its name."""
UpstreamQuotas = dict[str, dict[str, QuotaUse]]
"""The use of each quota, by the names of queue and quota."""


class QuotaNodeView(View):
    """One quota of the tree; a key missing in `limits` is unlimited."""

    name: str = _of_quota(lambda each: each.name)
    namespace: str = _of_quota(lambda each: each.namespace)
    parent: str = _of_quota(lambda each: each.parent)
    is_parent: bool = _of_quota(lambda each: each.is_parent)
    lends: bool = _of_quota(lambda each: each.lends)
    usable: bool = _of_quota(lambda each: each.usable)
    min: dict[str, str] = _of_quota(lambda each: quantities(each.min))
    scaled_min: dict[str, str] = _of_quota(lambda each: quantities(each.scaled_min))
    max: dict[str, str] = _of_quota(lambda each: quantities(each.max))
    runtime: dict[str, str] = _of_quota(lambda each: quantities(each.runtime))
    limits: dict[str, str] = _of_quota(lambda each: quantities(each.limits))
    used: dict[str, str] = _of_quota(lambda each: quantities(each.used))
    charged: dict[str, str] = _of_quota(lambda each: quantities(each.charged))
    foreign: dict[str, str] = _of_quota(lambda each: quantities(each.foreign))
    demand: dict[str, str] = _of_quota(lambda each: quantities(each.demand))
    request: dict[str, str] = _of_quota(lambda each: quantities(each.request))
    protected: dict[str, str] = _of_quota(lambda each: quantities(each.protected))
    problems: list[str] = _of_quota(
        lambda each: [f"{problem.kind}: {problem.text}" for problem in each.problems]
    )
    children: list[QuotaNodeView]


class QuotaTreePage(View):
    """All quota trees, roots first.

    `problems`: the plugins whose quotas are not among them, and what is wrong with QuotaPolicies.
    """

    leader: bool
    items: list[QuotaNodeView]
    problems: list[str]


def view_refusal(refusal: Refusal, at: int | None = None) -> RefusalView:
    """Return a refusal with its amounts as quantities; `at`: when it was found, if not now."""
    return RefusalView.of(_ShownRefusal(refusal, at, _amounts_of(refusal)))


def _amounts_of(refusal: Refusal) -> _RefusedAmounts:
    if not refusal.resource:
        return _RefusedAmounts()
    numbers = (refusal.limit, refusal.used, refusal.requested, refusal.missing)
    return _RefusedAmounts(*format_alike(refusal.resource, numbers))


def _view_refusal_or_none(refusal: Refusal | None, at: int | None) -> RefusalView | None:
    return None if refusal is None else view_refusal(refusal, at)


def view_unit(facts: UnitFacts, would: WouldPreempt | None = None) -> UnitView:
    """Return one unit; `would`: the units that it would preempt, None if there are none."""
    preempts = None if would is None else WouldPreemptView.of(would)
    return UnitView.of(facts, would_preempt=preempts)


def quota_of(record: CachedUnit) -> str:
    """Return the quota that a unit is charged to, or is to be; "" if there is none."""
    return "" if record.info is None else record.info.quota


def _own_priority(record: CachedUnit) -> int | None:
    """Return the priority in a unit's object; None if that is the one that counts."""
    stated = record.unit.spec.priority
    return None if stated == record.priority else stated


def _unit_ahead(refusal: Refusal | None) -> str:
    """Return the unit that a unit waits behind so as not to delay it; "" if there is none."""
    return refusal.other if refusal is not None and refusal.reason in BEHIND else ""


def demand_of(record: CachedUnit) -> Amounts:
    """Return what a unit requests, whether a quota governs it or not; empty if that is invalid."""
    if record.info is not None:
        return record.info.demand.total
    try:
        return build_demand(record.unit).total
    except InvalidDemandError:
        return {}


def _view_pod_sets(unit: QueueUnit, *, is_charged: bool, has_ended: bool) -> list[PodSetView]:
    """Return a unit's pods by set; a set that the spec no longer has is asked for 0 pods."""
    status = unit.status
    asked = {each.name: each.count for each in unit.spec.pod_set}
    granted = {each.name: each.replicas for each in status.admissions}
    given_back = {each.name: max(0, each.count) for each in status.reclaimable_pods}
    if is_charged and not granted:
        granted = asked  # adopted, or of an old version
    found = []
    for name in dict.fromkeys((*asked, *granted) if unit.spec.pod_set else ()):
        has = granted.get(name, 0)
        back = min(has, given_back.get(name, 0))
        found.append(
            PodSetView(
                name=name,
                asked=asked.get(name, 0),
                granted=None if has_ended else has,
                given_back=None if has_ended else back,
                held=has - back,
            )
        )
    return found


def _moment(seconds: int) -> str:
    """Return a time of seconds since the epoch, as Kubernetes writes it."""
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def _view_job(unit: QueueUnit) -> ConsumerView:
    consumer = unit.spec.consumer_ref
    return ConsumerView() if consumer is None else ConsumerView.of(consumer)


def view_queue(facts: QueueSnapshot) -> QueueView:
    """Return one queue with its head and the refusal nearest to the front."""
    return QueueView.of(facts)


def encode_upstream_queue(name: str, units: Iterable[UnitFacts]) -> bytes:
    """Return one member of what upstream's `/apis/v1/queue` means to show: `"queue":[units]`."""
    shown = [UpstreamUnit.of(unit) for unit in units]
    return to_json(name) + b":" + to_json(shown, by_alias=True)


MAX_NESTED: Final = 64
"""Levels of quotas in an answer. Twice as many as those of a tree that is in use may have; anyone
who may create quotas can nest more, and an answer with some hundred could not be encoded."""

POLICIES_NOT_SERVED: Final = (
    "the cluster does not serve QuotaPolicies (CRD quotapolicies.scheduling.x-k8s.io):"
    " no user or group is limited"
)

RESERVATIONS_NOT_SERVED: Final = (
    "the cluster does not serve QueueReservations (CRD queuereservations.scheduling.x-k8s.io):"
    " no window counts"
)


def view_quotas(engine: Engine, *, leader: bool) -> QuotaTreePage:
    """Return quotas nested by parent; those with an unknown parent stand at the top.

    So do those deeper than `MAX_NESTED`.

    Args:
        engine: A fork, as all numbers of a quota are computed.
        leader: Whether this replica decides.
    """
    by_name = {view.name: view for view in view_all_quotas(engine.plugins)}
    children: dict[str, list[QuotaView]] = {}
    for view in by_name.values():
        children.setdefault(view.parent if view.parent in by_name else "", []).append(view)
    seen: set[str] = set()

    def node(view: QuotaView, level: int) -> QuotaNodeView:
        seen.add(view.name)
        below = children.get(view.name, []) if level < MAX_NESTED else []
        below = [child for child in below if child.name not in seen]
        return QuotaNodeView.of(view, children=[node(child, level + 1) for child in _sorted(below)])

    # Members of a cycle have no root, and those that stand too deep are in no tree yet.
    tops = (*_sorted(children.get("", ())), *_sorted(by_name.values()))
    roots = [node(view, 1) for view in tops if view.name not in seen]
    problems = [
        *hidden_quotas(engine),
        *policy_problems(engine),
        *reservation_problems(engine),
    ]
    return QuotaTreePage(leader=leader, items=roots, problems=problems)


def hidden_quotas(engine: Engine) -> list[str]:
    """Return which plugins have quotas that are not shown, as text."""
    return [_without_quotas(name) for name in without_views(engine.plugins)]


def policy_problems(engine: Engine) -> list[str]:
    """Return why QuotaPolicies do not count as they say, as text."""
    if engine.policies.are_served is False:
        return [POLICIES_NOT_SERVED]
    are_used = any(stated.limits for stated in engine.policies) or any(
        queue.rules.fair is not None for queue in engine.queues
    )
    unreadable = [
        f"QuotaPolicy {stated.api_object.metadata.name}: {stated.problem}"
        for stated in engine.policies
        if stated.problem
    ]
    if engine.usage.ledger is None:
        unreadable += [
            f"QuotaPolicy {stated.api_object.metadata.name}: {BUDGETS_NEED_ACCOUNTS}"
            for stated in engine.policies
            if stated.budgets
        ]
    return [
        *problems_of_names(are_used=are_used, are_proved=engine.usage.are_names_proved),
        *unreadable,
    ]


def reservation_problems(engine: Engine) -> list[str]:
    """Return why QueueReservations do not count as they say, as text."""
    if engine.reservations.are_served is False:
        return [RESERVATIONS_NOT_SERVED]
    return [
        f"QueueReservation {stated.api_object.metadata.name}: {stated.problem}"
        for stated in engine.reservations
        if stated.problem
    ]


def _sorted(views: Iterable[QuotaView]) -> list[QuotaView]:
    return sorted(views, key=lambda view: view.name)


def _without_quotas(plugin: str) -> str:
    return f"plugin {plugin} does not show its quotas (list_quotas and view_quota), or has no fork"


def view_upstream_quotas(engine: Engine) -> UpstreamQuotas:
    """Return what upstream's `/apis/v1/userquota` means to show: use per queue and quota."""
    uses = {view.name: QuotaUse.of(view) for view in view_all_quotas(engine.plugins)}

    def uses_of(queue: SchedulingQueue) -> dict[str, QuotaUse]:
        names = quotas_of_queue(queue.rules.api_object, quotas_in_use(engine.units, queue), uses)
        # What a queue of all quotas takes is in `uses` already, sorted.
        return uses if ALL_QUOTAS in names else {name: uses[name] for name in names if name in uses}

    return {
        queue.name: uses_of(queue) for queue in sorted(engine.queues, key=lambda queue: queue.name)
    }


def quantities(amounts: Amounts) -> dict[str, str]:
    """Return amounts as quantities, by resource."""
    return {resource: format_amount(resource, amount) for resource, amount in amounts.items()}
