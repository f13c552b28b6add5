"""Compares what the engine keeps with the newest objects, unit by unit and pod by pod. Pure.

Each function judges some keys in one call, so in one hold of the engine's lock. Of a unit, the
newer of two objects counts: that of the cache, and that of the engine. A difference in one call may
be a change on its way; one that is found again, with the same numbers, a round later is an error.
`find_repair` judges again before it names what to tell the engine.

What is compared is what follows from single objects. Sums, of a unit's pods or over a quota, are
kept beside what they add up (`PodAccounting.validate`, `QuotaCache.validate`), and are not
recomputed here. Only those of tenants are: of users and groups by the engine itself
(`Engine.check_limits`), of budgets and of who may be pending on a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from queue_scheduler.cache.held_pods import HeldPod, read_held
from queue_scheduler.cache.moved_pods import ELSEWHERE, is_elsewhere
from queue_scheduler.cache.pod_accounting import (
    STRAY,
    CountedPod,
    PodFacts,
    is_stray,
    read_counted,
)
from queue_scheduler.cache.unit_repair import is_in_place
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, judge, version_of
from queue_scheduler.cache.usage import Charge
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Supposed
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.quota_ledger import ForeignCharge
from queue_scheduler.quota_plugin import QuotaPlugin, quota_plugins
from queue_scheduler.tenants.budget_accounts import BudgetSums
from queue_scheduler.tenants.limit_use import Use
from queue_scheduler.tenants.user_limits import describe
from shared_api.objects.meta import NO_UID, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, format_amounts


class Kind(StrEnum):
    """What a difference is about; the values are those of the metric's label."""

    UNKNOWN_UNIT = "unknown_unit"
    """The cache has a unit, and the engine does not know it."""
    GONE_UNIT = "gone_unit"
    """The engine has a unit, and the cache does not."""
    OUTDATED_UNIT = "outdated_unit"
    """The engine has an older version than the cache."""
    MISPLACED_UNIT = "misplaced_unit"
    """A unit is not where its object says: mostly pending, and not in its queue."""
    CHARGE = "charge"
    """What is charged does not follow from the unit's state and its living pods."""
    LEDGER = "ledger"
    """A plugin has another charge than the engine."""
    UNCOUNTED_POD = "uncounted_pod"
    """A living pod is not counted, or not as what it is, or for another unit."""
    GONE_POD = "gone_pod"
    """A pod is counted, and does not live."""
    LIMIT_USE = "limit_use"
    """What a user or a group has, where that is limited, is not the sum of its charges."""
    BUDGET_SUM = "budget_sum"
    """What is charged to a budget each second, or promised of it, is not the sum of its charges."""
    PENDING_SEAT = "pending_seat"
    """Others than the oldest may be pending where that is limited."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the engine keeps, and that does not follow from the objects.

    Attributes:
        kind: What it is about.
        unit: Key of the unit; "" if there is none.
        uid: Uid of the unit, or of the unit that it was.
        pod: Key of the pod, if it is about one, or if there is no unit and a pod lives; else "".
        pod_uid: Uid of that pod.
        want: What follows from the objects.
        got: What the engine keeps.
    """

    kind: Kind
    unit: str = ""
    uid: Uid = NO_UID
    pod: str = ""
    pod_uid: Uid = NO_UID
    want: str
    got: str


class Caches(NamedTuple):
    """Read the caches by `namespace/name`; they return None if there is no such object."""

    unit: Callable[[str], QueueUnit | None]
    pod: Callable[[str], Pod | None]


EngineFact: TypeAlias = tuple[Callable[..., tuple[str, ...]], tuple[Any, ...]]
"""A method of the engine that takes a change, and its arguments."""

_NOTHING: Final = "nothing"

_STATES: Final = {
    UnitState.ENDED: frozenset({UnitState.ENDED}),
    # An adopted unit may be on hold, if its namespace may not name its quota.
    UnitState.ADMITTED: frozenset({UnitState.ADMITTED, UnitState.ON_HOLD}),
    UnitState.WAITING: frozenset(
        {UnitState.WAITING, UnitState.ON_HOLD, UnitState.ASSUMED, UnitState.CONFLICT}
    ),
}
_ON_HOLD: Final = frozenset({UnitState.ON_HOLD})


# --- units ----------------------------------------------------------------------------------------


def judge_units(engine: Engine, keys: Iterable[str], caches: Caches) -> list[Difference]:
    """Return what differs of these units."""
    differences: list[Difference] = []
    for key in keys:
        differences += _judge_unit(engine, key, caches.unit(key))
    return differences


def _judge_unit(engine: Engine, key: str, cached: QueueUnit | None) -> list[Difference]:
    record = engine.record(key)
    if record is None:
        if cached is None:
            return []
        want, uid = _describe_version(cached), cached.metadata.uid
        return [Difference(kind=Kind.UNKNOWN_UNIT, unit=key, uid=uid, want=want, got=_NOTHING)]
    if cached is None:
        got, uid = _describe_version(record.unit), record.uid
        return [Difference(kind=Kind.GONE_UNIT, unit=key, uid=uid, want=_NOTHING, got=got)]
    if version_of(cached) > record.version:
        want, got, uid = (
            _describe_version(cached),
            _describe_version(record.unit),
            cached.metadata.uid,
        )
        return [Difference(kind=Kind.OUTDATED_UNIT, unit=key, uid=uid, want=want, got=got)]
    return list(_judge_record(engine, record))


def _judge_record(engine: Engine, record: CachedUnit) -> Iterator[Difference]:
    key, uid, units = record.key, record.uid, engine.units
    verdict = judge(record.unit)
    states = _STATES[verdict] if isinstance(verdict, UnitState) else _ON_HOLD
    if record.state not in states or not is_in_place(units, record):
        want = " or ".join(sorted(each.value for each in states))
        got = record.state.value if record.state not in states else f"not {record.state.value}"
        yield Difference(kind=Kind.MISPLACED_UNIT, unit=key, uid=uid, want=want, got=got)
    charge, implied = units.usage.charge_of(uid), units.charges.implied(record)
    if charge != implied:
        want, got = _describe_charge(implied), _describe_charge(charge)
        yield Difference(kind=Kind.CHARGE, unit=key, uid=uid, want=want, got=got)
    for want, got in _compare_ledgers(engine, uid, charge):
        yield Difference(kind=Kind.LEDGER, unit=key, uid=uid, want=want, got=got)


def _compare_ledgers(engine: Engine, uid: Uid, charge: Charge | None) -> Iterator[tuple[str, str]]:
    """Yield what plugins should have charged for a uid, and what they have, where these differ."""
    for plugin in quota_plugins(engine.plugins):
        want = None if charge is None else _translate(plugin, charge)
        got = plugin.quotas.charge_of(uid)
        if want != got:
            yield (
                f"{plugin.name}: {_describe_demand(want)}",
                f"{plugin.name}: {_describe_demand(got)}",
            )


def _translate(plugin: QuotaPlugin, charge: Charge) -> tuple[str, Demand]:
    charged = Supposed(
        charge.quota, charge.amounts, charge.non_preemptible, charge.pods, charge.firm
    )
    return plugin.demands_of((charged,))[0]


# --- pods, and charges without a unit -------------------------------------------------------------


def judge_pods(engine: Engine, keys: Iterable[str], caches: Caches) -> list[Difference]:
    """Return what differs of these pods, and of what is charged for those without a unit."""
    differences: list[Difference] = []
    left: dict[Uid, None] = {}
    for key in keys:
        cached = caches.pod(key)
        differences += _judge_held(engine, key, cached)
        fresh = _read(cached)
        counted = engine.living_pods.find(key, fresh)
        if counted.facts != fresh or counted.group != counted.right_group:
            differences.append(_describe_pod_difference(engine, key, fresh, counted))
        differences += _judge_foreign(engine, key, counted)
        if counted.group and engine.record(counted.unit_key) is None:
            left[Uid(counted.group)] = None
    return differences + judge_charges(engine, left)


def _judge_foreign(engine: Engine, key: str, counted: CountedPod) -> Iterator[Difference]:
    """Yield where plugins charge another demand for a pod that no unit stands for."""
    facts, pod = counted.facts, engine.pods.foreign_pod(key, counted)
    for plugin in quota_plugins(engine.plugins):
        want = None if pod is None else plugin.charge_of_foreign(pod)
        got = plugin.quotas.ledger.pod(key)
        if want != got:
            yield Difference(
                kind=Kind.LEDGER,
                pod=key,
                pod_uid=NO_UID if facts is None else facts.uid,
                want=f"{plugin.name}: {_describe_foreign(want)}",
                got=f"{plugin.name}: {_describe_foreign(got)}",
            )


def _judge_held(engine: Engine, key: str, cached: Pod | None) -> Iterator[Difference]:
    """Yield whether a pod is held that is not known to be, or the other way round."""
    want = None if cached is None else read_held(cached)
    got = engine.pods.held.find(key)
    if want == got:
        return
    some = got if want is None else want
    yield Difference(
        kind=Kind.GONE_POD if want is None else Kind.UNCOUNTED_POD,
        pod=key,
        pod_uid=NO_UID if some is None else some.uid,
        want=_describe_held(want),
        got=_describe_held(got),
    )


def _describe_held(pod: HeldPod | None) -> str:
    if pod is None:
        return "not held"
    return f"{_describe_amounts(pod.request, 1)} held, of job {pod.job}"


def _read(cached: Pod | None) -> PodFacts | None:
    return None if cached is None else read_counted(cached)[0]


def _describe_pod_difference(
    engine: Engine, key: str, fresh: PodFacts | None, counted: CountedPod
) -> Difference:
    some = counted.facts if fresh is None else fresh
    record = engine.record(counted.unit_key)
    want, got = (
        _describe_pod(fresh, counted.right_group),
        _describe_pod(counted.facts, counted.group),
    )
    return Difference(
        kind=Kind.GONE_POD if fresh is None else Kind.UNCOUNTED_POD,
        unit="" if record is None else record.key,
        uid=NO_UID if record is None else record.uid,
        pod=key,
        pod_uid=NO_UID if some is None else some.uid,
        want=want,
        got=got if got != want else f"{got}, by other labels or another owner",
    )


def judge_charges(engine: Engine, uids: Iterable[Uid]) -> list[Difference]:
    """Return what differs of charges of uids that are of no unit: living pods alone are charged."""
    differences: list[Difference] = []
    usage = engine.usage
    for uid in uids:
        charge, living = usage.charge_of(uid), usage.pods.living(uid)
        compared = list(_compare_ledgers(engine, uid, charge))
        alike = [Difference(kind=Kind.LEDGER, uid=uid, want=w, got=g) for w, g in compared]
        if (charge is None and living.pods) or (charge is not None and charge.occupancy != living):
            want = _describe_amounts(living.amounts, living.pods)
            got = _describe_charge(charge)
            alike.append(Difference(kind=Kind.CHARGE, uid=uid, want=want, got=got))
        if alike and usage.pods.has_living(uid):
            pod, pod_uid = min(usage.pods.pods_of(uid))
            alike = [msgspec.structs.replace(each, pod=pod, pod_uid=pod_uid) for each in alike]
        differences += alike
    return differences


def describe_wrong_sums(engine: Engine) -> list[Difference]:
    """Return what the last check has found of what users and groups have (`check_limits`)."""
    return [
        Difference(
            kind=Kind.LIMIT_USE,
            want=f"{_describe_use(want)} of {describe(counted)} in quota {counted.quota}",
            got=_describe_use(got),
        )
        for counted, (got, want) in engine.limit_rules.wrong_sums.items()
    ]


def describe_wrong_budgets(engine: Engine) -> list[Difference]:
    """Return what differs of what is charged to budgets, and promised of them.

    All charges are summed up anew, so this is for a copy, outside the lock.
    """
    usage = engine.usage
    return [
        Difference(
            kind=Kind.BUDGET_SUM,
            want=f"{_describe_sums(wrong.want)} of budget {wrong.key.name} of {wrong.key.quota}",
            got=_describe_sums(wrong.got),
        )
        for wrong in usage.budgets.accounts.differences(usage.charges)
    ]


def _describe_sums(sums: BudgetSums) -> str:
    return f"{sums.rate} each second, promised {sums.promised}"


def describe_wrong_seats(engine: Engine) -> list[Difference]:
    """Return where others may be pending than the oldest. For a copy, outside the lock."""
    return [
        Difference(
            kind=Kind.PENDING_SEAT,
            want=f"{want} pending units of {submitter.user} in quota {quota}",
            got=f"{got}",
        )
        for (quota, submitter), (got, want) in engine.usage.limits.seats.differences().items()
    ]


def _describe_use(use: Use) -> str:
    return f"{_describe_amounts(use.amounts)}, {use.units} units"


def list_charged(engine: Engine) -> list[Uid]:
    """Return the uids that the engine has charged something for."""
    return list(engine.usage)


def list_in_ledgers(engine: Engine, nth: int) -> list[Uid] | None:
    """Return the uids that the nth plugin with quotas has charged, or None without a plugin."""
    plugin = next(islice(quota_plugins(engine.plugins), nth, None), None)
    return None if plugin is None else cast("list[Uid]", plugin.quotas.ledger.owners())


def list_units(engine: Engine) -> list[str]:
    """Return the keys of the units that the engine knows."""
    return [record.key for record in engine.units]


def list_pods(engine: Engine) -> list[str]:
    """Return the keys of the pods that are counted, and of those that are held."""
    return [*engine.living_pods, *engine.pods.held]


def list_foreign(engine: Engine) -> list[str]:
    """Return the keys of the pods that plugins charge without a unit."""
    plugins = quota_plugins(engine.plugins)
    return [key for plugin in plugins for key in plugin.quotas.ledger.pods()]


# --- repair ---------------------------------------------------------------------------------------


def find_repair(engine: Engine, difference: Difference, caches: Caches) -> list[EngineFact]:
    """Return what to tell the engine so that it places the unit of a difference again.

    Nothing if it no longer differs. It must be reported in the same hold of the engine's lock.
    """
    match difference.kind:
        case Kind.UNCOUNTED_POD | Kind.GONE_POD:
            return list(_count_again(engine, difference, caches))
        case Kind.LEDGER if not difference.uid:
            return list(_count_again(engine, difference, caches))
        case Kind.CHARGE | Kind.LEDGER if not difference.unit:
            return list(_charge_again(engine, difference))
        case _:
            key = difference.unit
            cached = caches.unit(key)
            if difference not in _judge_unit(engine, key, cached):
                return []
            return [_place_again(engine, key, cached)]


def _place_again(engine: Engine, key: str, cached: QueueUnit | None) -> EngineFact:
    record = engine.record(key)
    is_newer = record is not None and cached is not None and version_of(cached) <= record.version
    newest = record.unit if record is not None and is_newer else cached
    return Engine.place_anew, (key, newest)


def _count_again(engine: Engine, difference: Difference, caches: Caches) -> Iterator[EngineFact]:
    key, cached = difference.pod, caches.pod(difference.pod)
    if difference not in judge_pods(engine, (key,), caches):
        return
    yield Engine.forget_pod, (key,)
    if cached is not None:
        yield Engine.on_pod, (cached,)
    unit = caches.unit(difference.unit) if difference.unit else None
    if unit is not None:
        yield _place_again(engine, difference.unit, unit)


def _charge_again(engine: Engine, difference: Difference) -> Iterator[EngineFact]:
    uid = difference.uid
    # No index has units by uid; this is done for a charge that was left over, which is rare.
    if all(record.uid != uid for record in engine.units):
        yield Engine.charge_anew, (uid,)


# --- words ----------------------------------------------------------------------------------------


def _describe_version(unit: QueueUnit) -> str:
    return (
        f"version {unit.metadata.resource_version} ({unit.status.phase}), uid {unit.metadata.uid}"
    )


def _describe_charge(charge: Charge | None) -> str:
    if charge is None:
        return _NOTHING
    firm = _describe_firm(charge.firm, is_firm=charge.non_preemptible)
    return f"{_describe_amounts(charge.amounts, charge.pods)} of quota {charge.quota}{firm}"


def _describe_demand(charged: tuple[str, Demand] | None) -> str:
    if charged is None:
        return _NOTHING
    quota, demand = charged
    firm = _describe_firm(demand.firm, is_firm=demand.non_preemptible)
    return f"{_describe_amounts(dict(demand.amounts))} of quota {quota}{firm}"


def _describe_firm(part: Mapping[str, int], *, is_firm: bool) -> str:
    if is_firm:
        return ", not preemptible"
    return f", {_describe_amounts(dict(part))} of it not preemptible" if part else ""


def _describe_foreign(charge: ForeignCharge | None) -> str:
    if charge is None:
        return _NOTHING
    bound = "bound" if charge.is_bound else "not bound"
    return f"{_describe_demand((charge.quota, charge.demand))}, {bound}"


def _describe_pod(facts: PodFacts | None, group: str) -> str:
    if facts is None:
        return "not counted"
    bound = "bound" if facts.bound else "not bound"
    whose = f"of unit {group}" if group else "without a unit"
    if is_stray(group):
        whose = f"a stray of {group.removeprefix(STRAY)}"
    elif is_elsewhere(group):
        whose = f"elsewhere, of unit {group.removeprefix(ELSEWHERE)}"
    return f"{_describe_amounts(facts.request)}, {bound}, {whose}"


def _describe_amounts(amounts: Amounts, pods: int | None = None) -> str:
    shown = sorted(format_amounts(amounts).items())
    counts = [] if pods is None else [f"{pods} pod{'' if pods == 1 else 's'}"]
    return ", ".join([*(f"{resource} {text}" for resource, text in shown), *counts]) or _NOTHING
