"""What must be true of an engine: after every decision, after every fact, and at rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol

from queue_scheduler.cache.known_units import count_admitted, count_pending, pending_units
from queue_scheduler.cache.unit_cache import UnitFinder
from queue_scheduler.cache.unit_demand import InvalidDemandError, build_demand
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, judge, judge_place
from queue_scheduler.decision import Dequeue, Reason, Refusal
from queue_scheduler.engine.audit import (
    Caches,
    judge_charges,
    judge_pods,
    judge_units,
    list_foreign,
    list_pods,
    list_units,
)
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.extension_points import Mapped, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.queueing.class_queue import ASIDE, UnitClass
from queue_scheduler.queueing.queue_policies import HoldsBack, bands_of
from queue_scheduler.queueing.queue_questions import refusal_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase, occupies_quota
from shared_api.resource_list import Amounts, add
from shared_api.well_known_labels import MAX_PRIORITY, PRIORITY_BOOST, read_int32, read_quota_name

QUOTAS = ("a", "b", "c", "top")
QUEUES = ("a", "b", "c", "shared")


BACKFILLED = frozenset({Reason.WOULD_DELAY_HEAD, Reason.NO_MAX_EXECUTION_TIME})
"""Reasons of units that fit, and wait for the unit ahead, not for quota."""

NO_HEADS = frozenset(
    {
        Reason.EXCEEDS_QUOTA,
        Reason.BROKEN_CHAIN,
        Reason.UNKNOWN_QUOTA,
        Reason.NO_CAPACITY,
        Reason.GUARANTEE_OF_OTHERS,
    }
)
"""Reasons of heads that any fitting unit may pass: they wait for no end, or perhaps for others."""


class Quotas(Protocol):
    """What is needed of the quota plugin to judge the engine's decisions."""

    @property
    def protected(self) -> Mapping[str, str]:
        """Return the unit that is protected in each quota."""
        ...

    @property
    def foreign(self) -> Mapping[str, object]:
        """Return the foreign pods, as the plugin knows them."""
        ...

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Return the refusal of the unit now, or None if it may start."""
        ...

    def chain(self, quota: str) -> tuple[str, ...]:
        """Return the quota and its ancestors."""
        ...

    def limit(self, quota: str) -> Amounts:
        """Return what no decision may exceed there."""
        ...

    def booked(self) -> Mapping[Uid, tuple[str, Amounts]]:
        """All bookings."""
        ...

    def waiters(self) -> set[Waiter]:
        """Return the waiting classes."""
        ...

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that a unit is charged to."""
        ...

    def validate(self) -> None:
        """Raise AssertionError if the usage is wrong."""
        ...


def check_audit(engine: Engine, got: Mapping[tuple[str, str], Any], units: Collection[str]) -> None:
    """An audit finds no difference between an engine and what it was told, by kind and key.

    `units`: the keys of those that exist, or whose end is not told yet. Of one that was made anew
    the engine may know by a write's answer.
    """
    find = UnitFinder(engine.units.records)

    def read_unit(key: str) -> QueueUnit | None:
        unit: QueueUnit | None = got.get(("unit", key))
        return find(key) if unit is None and key in units else unit

    caches = Caches(read_unit, lambda key: got.get(("pod", key)))
    keys = {kind: [key for one, key in got if one == kind] for kind in ("unit", "pod")}
    known = {record.uid for record in engine.units.records.values()}
    left = [uid for uid in engine.usage if uid not in known]
    found = [
        *judge_units(engine, {*keys["unit"], *list_units(engine)}, caches),
        *judge_pods(engine, {*keys["pod"], *list_pods(engine), *list_foreign(engine)}, caches),
        *judge_charges(engine, left),
    ]
    assert found == [], f"the audit finds {found}"


def waiting(engine: Engine) -> dict[str, list[str]]:
    """Return the pending units, by queue, in order."""
    return {
        queue.name: [record.key for record in pending_units(engine.units, queue.name)]
        for queue in engine.queues
    }


InLine = tuple[str, str, Reason, int]
"""(unit, quota, why it waits, its band) of a pending unit."""


def in_line(engine: Engine) -> dict[str, list[InLine]]:
    """Return the pending units, by queue, in the order of the policy."""
    found: dict[str, list[tuple[Any, ...]]] = {queue.name: [] for queue in engine.queues}
    for key, record in engine.units.records.items():
        if record.state is UnitState.WAITING and record.info is not None:
            queue = engine.queues.find(record.info.queue)
            assert queue is not None
            if queue.fair is None:
                place = queue.rules.place(queue.rules.bounded(record.unit), None)
            else:  # `test_fair_order` judges it
                place = queue.place(record.info.order_key)
            reason = refusal_of(queue, record.info).reason
            band = queue.rules.band_of(place)
            found[queue.name].append((place, key, record.info.quota, reason, band))
    return {name: [each[1:] for each in sorted(units)] for name, units in found.items()}


def check_order(engine: Engine, decision: Dequeue, in_line: list[InLine]) -> None:
    """Check that a blocking band has no unit of the quota ahead; other bands, only refused ones."""
    queue = engine.queues.find(decision.queue)
    assert queue is not None
    assert not queue.rules.options.is_stopped, f"{decision.unit} starts in a stopped queue"
    index = [key for key, *_ in in_line].index(decision.unit)
    # Units that stand aside hold back nobody, and take up no depth.
    ahead = [each for each in in_line[:index] if each[2] not in ASIDE]
    own_band = in_line[index][3]
    for key, quota, reason, band in ahead:
        assert band == own_band, f"{decision.unit} overtakes {key}, of an earlier band"
        if (
            not queue.rules.is_backfilling
            and bands_of(queue.rules.policy)[band] is HoldsBack.SAME_QUOTA
        ):
            assert quota != decision.quota, f"{decision.unit} overtakes {key}"
        assert reason is not Reason.WAITING, f"{decision.unit} before {key}"
    depth = queue.rules.depth
    assert depth is None or len(ahead) < depth
    if queue.rules.is_backfilling:
        _check_passing(engine, decision, ahead)


def _check_passing(engine: Engine, decision: Dequeue, ahead: list[InLine]) -> None:
    """Check that a unit that passes one that waits for ends has declared how long it runs.

    Only the first such waiting unit counts; and not if it is refused for its quota's guarantee:
    then it fits once it has started, or each would wait for the other.
    """
    plugins, units = engine.plugins, engine.units
    passing = units.records[decision.unit]
    assert passing.info is not None
    if passing.unit.spec.maximum_execution_time_seconds is not None:
        return
    before = plugins.fork()
    before.unreserve(decision.uid)
    before.waking.protect(decision.quota, at_least(passing.info))
    domains, own = plugins.domains(decision.quota), [decision.uid]
    ended = [*own, *(uid for uid, _ in units.usage.ends if uid != decision.uid)]
    for key, quota, reason, _ in ahead:
        head = units.records[key].info
        if head is None or reason in BACKFILLED or not plugins.domains(quota) & domains:
            continue
        asked = [plugins.check_without(at_least(head), gone) for gone in (own, ended)]
        asked.append(before.check_without(at_least(head), ended))
        reasons = {refusal.reason for refusal in asked if refusal is not None}
        if not reasons & NO_HEADS:
            assert not reasons, f"{decision.unit} passes {key} and declares no time"
            return


def check_limits(engine: Engine, quotas: Quotas, decision: Dequeue) -> None:
    """Check that what the unit asks for is within every limit; its earlier pods are facts."""
    record = engine.record(decision.unit)
    assert record is not None
    assert record.info is not None
    asked = {resource for resource, amount in record.info.demand.total.items() if amount}
    for level in quotas.chain(decision.quota):
        limit, used = quotas.limit(level), booked_under(engine, quotas, level)
        over = {r: n for r, n in used.items() if r in asked and r in limit and n > limit[r]}
        assert not over, f"{decision.unit} takes {level} to {over}, its limit is {limit}"


def booked_under(engine: Engine, quotas: Quotas, quota: str) -> Amounts:
    """Return what the engine charges to a quota and its descendants, zeros left out."""
    total: Amounts = {}
    bookings = engine.usage
    for uid in bookings:
        charge = bookings.charge_of(uid)
        if charge is not None and quota in (quotas.chain(charge.quota) or (charge.quota,)):
            total = add(total, charge.amounts)
    return {resource: amount for resource, amount in total.items() if amount}


def check_quotas(engine: Engine, quotas: Quotas) -> None:
    """Check that the plugin was told exactly the engine's state."""
    bookings = engine.usage
    charges = {uid: bookings.charge_of(uid) for uid in bookings}
    got = {uid: (c.quota, c.amounts) for uid, c in charges.items() if c is not None}
    assert quotas.booked() == got


def counted_priority(engine: Engine, record: CachedUnit) -> int:
    """Return a unit's priority, or the ceiling of its queue by its object, if that is less."""
    assert record.info is not None, f"{record.key} has no queue"
    queue = engine.queues.queue(record.info.queue)
    text = None if queue is None else queue.metadata.annotations.get(MAX_PRIORITY)
    said = record.unit.spec.priority + _boost_of(record)
    if text is None:
        return said
    ceiling = read_int32(text, None)
    # What cannot be read leaves the previous value in force, which no object shows.
    return record.priority if ceiling is None else min(said, ceiling)


def _boost_of(record: CachedUnit) -> int:
    """Return what a unit's annotation adds to its priority."""
    boost = read_int32(record.unit.metadata.annotations.get(PRIORITY_BOOST), 0) or 0
    return boost if -1000 <= boost <= 1000 else 0


def check_nodes(engine: Engine, decision: Dequeue) -> None:
    """Check that no unit starts in a strict queue while one of higher priority asks for nodes."""
    started = engine.record(decision.unit)
    assert started is not None
    asking = [
        counted_priority(engine, record)
        for record in engine.units.records.values()
        if record.info is not None
        and record.info.queue == decision.queue
        and record.state is UnitState.ADMITTED
        and record.unit.status.phase == Phase.SCHED_READY
    ]
    is_strict = decision.to is Phase.SCHED_READY
    assert not is_strict or max(asking, default=-99) <= counted_priority(engine, started)


def check_heads(engine: Engine, quotas: Quotas) -> None:
    """Check that the plugins protect the first pending unit of each quota, if it is tried."""
    first: dict[str, str] = {}
    queues = sorted(engine.queues, key=lambda q: (-(q.rules.api_object.spec.priority or 0), q.name))
    for queue in queues:
        if queue.rules.options.is_stopped:
            continue
        bands = set()
        for record in islice(pending_units(engine.units, queue.name), queue.rules.depth):
            assert record.info is not None
            bands.add(queue.rules.band_of(record.info.order_key))
            if len(bands) == 1:
                first.setdefault(record.info.quota, record.key)
    assert quotas.protected == first


def check_waiters(engine: Engine, quotas: Quotas) -> None:
    """Check that the plugin is asked to wake exactly the waiting classes."""
    asleep = set()
    for queue in engine.queues:
        refused = {place for place, _ in queue.pending.refused_in_order()}
        infos = [
            record.info
            for record in pending_units(engine.units, queue.name)
            if record.info is not None
        ]
        numbers = {
            _asked_as(queue.pending.class_of(info))
            for info in infos
            if refusal_of(queue, info).reason not in BACKFILLED
        }
        asleep |= {
            (queue.name, number) for number in numbers if queue.pending.head_of(number) in refused
        }
    assert quotas.waiters() == asleep


def _asked_as(unit_class: UnitClass) -> int:
    """Return the number that a class waits under: its own, or that of its group."""
    group = unit_class.group
    return unit_class.number if group is None or unit_class.own_refusal else group.number


def check_nobody_is_lost(engine: Engine, quotas: Quotas) -> None:
    """Check at rest that a pending unit would be refused now, or is held back by policy."""
    for queue in engine.queues:
        check_nobody_could_start(engine, quotas, queue)
    for key, record in engine.units.records.items():
        assert record.state is not UnitState.CONFLICT, f"{key} waits for a fresh object"
    check_held(engine)


def decidable(engine: Engine, queue: SchedulingQueue) -> Iterator[CachedUnit]:
    """Yield the pending units that the policy offers, if all before them are refused."""
    blocked: set[str] = set()
    bands: set[int] = set()
    if queue.in_flight or queue.rules.options.is_stopped:
        return
    depth = queue.rules.depth
    for place, record in enumerate(pending_units(engine.units, queue.name)):
        assert record.info is not None
        quota, band = record.info.quota, queue.rules.band_of(record.info.order_key)
        bands.add(band)
        if len(bands) > 1:
            break
        if quota in blocked or (depth is not None and place >= depth):
            continue
        if queue.rules.is_backfilling and refusal_of(queue, record.info).reason in BACKFILLED:
            continue
        yield record
        if (
            bands_of(queue.rules.policy)[band] is HoldsBack.SAME_QUOTA
            and not queue.rules.is_backfilling
        ):
            blocked.add(quota)


def check_nobody_could_start(engine: Engine, quotas: Quotas, queue: SchedulingQueue) -> None:
    """Check at rest that a pending unit would be refused now, or is held back by policy.

    A unit that could start may also wait for nodes that one of higher priority asks for, behind one
    of its quota that does, or for room that is kept for a preemptor.
    """
    held_back: set[str] = set()
    for record in decidable(engine, queue):
        assert record.info is not None
        refusal = refusal_of(queue, record.info)
        if refusal.reason is Reason.WAITING_FOR_NODES_OF_OTHERS:
            assert queue.requests.hold_back(counted_priority(engine, record)), record.key
            held_back.add(record.info.quota)
        if record.info.quota in held_back or quotas.check(at_least(record.info)) is not None:
            continue
        assert refusal.reason is Reason.ROOM_FOR_PREEMPTOR, f"{record.key} could start"
        assert refusal.other in engine.nominations.by_key, f"{record.key} waits for no preemptor"


def wake_everybody(engine: Engine) -> None:
    """Have all units asked again."""
    for queue in engine.queues:
        for number in [*queue.pending.numbered]:
            if queue.pending.wake(number):
                engine.plugins.waking.stop_waiting((queue.name, number))
        engine.turns.refresh(queue, engine.plugins.domains)


def check_held(engine: Engine) -> None:
    """Check at rest that no unit is on hold for a reason that no longer applies."""
    for key, record in engine.units.records.items():
        assert record.state is not UnitState.ON_HOLD or _is_rightly_held(engine, record), key


def _is_rightly_held(engine: Engine, record: CachedUnit) -> bool:
    """Return whether the unit would be on hold if it were placed now."""
    if record.hold is not None and record.hold.reason is Reason.USER_LIMIT:
        assert record.info is not None, f"{record.key} is held for its user without a demand"
        return engine.usage.limits.why_on_hold(record.info) is not None
    if judge(record.unit) is not UnitState.WAITING:
        return True
    mapped = engine.placing.map_unit(record.unit, engine.queues)
    if not isinstance(mapped, Mapped):
        return True
    queue = engine.queues.queue(mapped.queue)
    if judge_place(record.unit, queue, mapped.queue) is not None:
        return True
    try:
        build_demand(record.unit)
    except InvalidDemandError:
        return True
    return False


def check_units_are_known(engine: Engine, units: dict[str, QueueUnit]) -> None:
    """Check at rest that the engine holds the newest version of every unit, and no other."""
    held = {key: record.unit for key, record in engine.units.records.items()}
    assert held == units


def digest(engine: Engine, quotas: Quotas) -> dict[str, Any]:
    """Return what a repeated fact, or a restart, must not change."""
    units = {
        key: (
            record.state,
            record.info and (record.info.queue, record.info.quota, record.info.demand),
            record.hold,
        )
        for key, record in engine.units.records.items()
    }
    return {
        "units": units,
        "order": waiting(engine),
        "booked": {name: booked_under(engine, quotas, name) for name in QUOTAS},
        "counts": {
            name: (count_pending(engine.units, name), count_admitted(engine.units, name))
            for name in QUEUES
        },
        "reasons": {key: refusal_of_unit(engine, key) for key in units},
        "waiters": sorted(quotas.waiters()),
    }


def check_objects_are_not_over(
    units: Iterable[QueueUnit], limits: Iterable[ElasticQuota], quotas: Quotas
) -> None:
    """Check that objects do not exceed a quota that is filled only by decisions."""
    booked: dict[str, int] = {}
    for unit in units:
        if occupies_quota(unit):
            quota = read_quota_name(unit.metadata.labels)
            granted = {each.name: each.replicas for each in unit.status.admissions}
            pods = sum(granted.get(each.name, each.count) for each in unit.spec.pod_set)
            booked[quota] = booked.get(quota, 0) + (pods or int(unit.spec.request["cpu"]))
    for limit in limits:
        name, most = limit.metadata.name, int(limit.spec.max["cpu"])
        used = sum(booked[n] for n in booked if name in quotas.chain(n))
        assert used <= most, f"{name}: {used} of {most}"
