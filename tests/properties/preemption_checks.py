"""What must be true of evictions when they are decided, and of units that start meanwhile."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime
from typing import Final

from queue_scheduler.cache.unit_state import CachedUnit, UnitState, is_preemptible, makes_room
from queue_scheduler.decision import Dequeue, Preempt, Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import at_least
from queue_scheduler.preemption.nomination import (
    STUCK_SECONDS,
    evicted_since,
    leaves_for,
    read_for_whom,
)
from queue_scheduler.quota_plugin import quota_plugins
from shared_api.objects.meta import Uid, find_condition
from shared_api.queue_unit_phases import EVICTED, PREEMPTED, is_being_evicted
from shared_api.timestamps import parse_time, read_time
from shared_api.well_known_labels import QUOTA_PARENT, ROOT_QUOTA
from tests.properties.engine_checks import counted_priority

CLOCK_JUMP_SECONDS: Final = 10.0
"""Wall clocks jump by up to this much in a run."""


def check_victims(engine: Engine, decision: Preempt, wall: datetime) -> None:
    """Check that the victims may be evicted, suffice, and no other round is open there."""
    preemptor = engine.record(decision.unit)
    queue = engine.queues.find(decision.queue)
    assert preemptor is not None
    assert preemptor.info is not None
    assert queue is not None
    assert not queue.rules.options.is_stopped, f"{decision.unit} evicts for a stopped queue"
    domains = engine.plugins.domains(decision.quota)
    gone = [each.uid for each in decision.victims]
    for victim in decision.victims:
        record = engine.record(victim.unit)
        assert record is not None, f"{victim.unit} does not exist"
        assert record.info is not None, f"{victim.unit} is charged to no quota"
        unit = record.unit
        assert record.state is UnitState.ADMITTED, f"{victim.unit} is not booked"
        assert is_preemptible(record), f"{victim.unit} must not be evicted"
        assert not is_being_evicted(unit), f"{victim.unit} is evicted twice"
        # A unit in flight where pods are waited for leaves for its own queue, whatever the others.
        if decision.reason == PREEMPTED or unit.metadata.uid in queue.in_flight:
            assert queue.rules.options.preempts, f"{queue.name} does not preempt"
            assert record.info.queue == queue.name, f"{victim.unit} is of another queue"
            spared = counted_priority(engine, record) + record.info.spare
            lower = spared < preemptor.info.priority
            assert lower, f"{victim.unit} has no lower priority than {decision.unit}"
        else:
            assert record.info.quota != decision.quota, f"{victim.unit} is of the owner's quota"
    leaving = [record for record in _leaving(engine) if _quotas_domains(engine, record) & domains]
    # A unit that has hung for too long makes no room; the clock may have jumped since.
    surely = [each for each in leaving if _age(each, wall) < STUCK_SECONDS - CLOCK_JUMP_SECONDS]
    perhaps = [each for each in leaving if _age(each, wall) < STUCK_SECONDS + CLOCK_JUMP_SECONDS]
    info = at_least(preemptor.info)
    if engine.plugins.check(info) is not None:  # else it leaves for the turn, not for the room
        refusal = engine.plugins.check_without(info, [record.uid for record in surely])
        assert refusal is not None, f"{decision.unit} evicts, and leaving units are enough"
    for record in surely:
        is_own = leaves_for(record) == decision.unit
        is_alone = is_own or not makes_room(record.unit)
        assert is_alone, f"{decision.unit} evicts while {record.key} leaves for another"
    gone += [record.uid for record in perhaps]
    if not queue.in_flight:
        refusal = engine.plugins.check_without(info, gone)
        assert refusal is None, f"{decision.unit} would not start without {gone}: {refusal}"


def check_guards(engine: Engine, decision: Preempt, wall: datetime) -> None:
    """Check that nothing guards the victims, and nothing keeps the preemptor from evictions."""
    queue, preemptor = engine.queues.find(decision.queue), engine.record(decision.unit)
    assert queue is not None
    assert preemptor is not None
    for victim in decision.victims:
        record = engine.record(victim.unit)
        assert record is not None
        assert record.info is not None
        granted = read_time(record.unit.status.last_allocate_time)
        if decision.reason == PREEMPTED or record.uid in queue.in_flight:
            stated = _stated_by_queues(engine, queue.name)
        else:
            stated = _stated_by_quotas(engine, decision.quota, record.info.quota)
        if granted is not None and stated and granted <= wall:
            age = (wall - granted).total_seconds()
            assert age >= stated, f"{victim.unit} is evicted after {age} s of {stated}"
    delay = queue.rules.options.eviction_delay_seconds
    since = _waits_since(preemptor, wall)
    if delay and since is not None:
        age = (wall - since).total_seconds() + CLOCK_JUMP_SECONDS
        assert age >= delay, f"{decision.unit} evicts after {age} s of {delay}"
    if queue.rules.options.evictions_per_hour is not None:
        missing = engine.rounds.rates.taken[queue.name].missing
        assert missing >= 3600 * len(decision.victims), f"{decision.unit} takes no tokens"


def _stated_by_queues(engine: Engine, name: str) -> float:
    """Return how long units of a queue are spared by it, or by the nearest above it."""
    seen: list[str] = []
    queue = engine.queues.find(name)
    while queue is not None and queue.name not in seen:
        seen.append(queue.name)
        if queue.rules.options.preempt_min_seconds is not None:
            return queue.rules.options.preempt_min_seconds
        queue = engine.queues.find(queue.rules.api_object.metadata.labels.get(QUOTA_PARENT, ""))
    return 0.0


def _stated_by_quotas(engine: Engine, taker: str, victim: str) -> float:
    """Return how long a unit of a quota is spared by what counts for a taker."""
    above = [*engine.plugins.chain(taker), ROOT_QUOTA]
    for name in [*engine.plugins.chain(victim), ROOT_QUOTA]:
        for plugin in quota_plugins(engine.plugins) if name in above else ():
            named = [each for each in plugin.quotas.stated if each.name == name]
            spec = min(named, key=lambda each: each.age, default=None)
            if spec is not None and spec.min_run_seconds is not None:
                return spec.min_run_seconds
    return 0.0


def _waits_since(record: CachedUnit, wall: datetime) -> datetime | None:
    """Return since when a unit waits: it was created then, or its last eviction has ended."""
    evicted = find_condition(record.unit.status.conditions, EVICTED)
    texts: list[str | None] = [record.unit.metadata.creation_timestamp]
    if evicted is not None and evicted.status == "False":
        texts.append(evicted.last_transition_time)
    times = [time for time in map(read_time, texts) if time is not None and time <= wall]
    return max(times, default=None)


def _leaving(engine: Engine) -> list[CachedUnit]:
    """Return the units that are asked to leave, independently of the engine, which is judged."""
    records = (engine.units.records[key] for key in engine.units.admitted.leaving)
    return [record for record in records if record.info is not None]


def _age(record: CachedUnit, wall: datetime) -> float:
    """Return for how many seconds a unit has been asked to leave."""
    return (wall - parse_time(evicted_since(record))).total_seconds()


def _quotas_domains(engine: Engine, record: CachedUnit) -> frozenset[str]:
    assert record.info is not None
    return engine.plugins.domains(record.info.quota)


def check_room(engine: Engine, decision: Dequeue, given_up: Container[str]) -> None:
    """Check that a starting unit leaves kept room to its preemptors, by the objects.

    Room for units of a stopped queue does not count.

    Args:
        engine: The engine, after its decision.
        decision: The start.
        given_up: Units for which room is no longer kept.
    """
    own = engine.record(decision.unit)
    assert own is not None
    assert own.info is not None
    leaving: dict[str, list[Uid]] = {}
    for key in engine.units.admitted.leaving:
        record = engine.units.records[key]
        found = find_condition(record.unit.status.conditions, EVICTED)
        if found is not None and makes_room(record.unit):
            leaving.setdefault(read_for_whom(found.message), []).append(record.uid)
    for key in leaving:
        preemptor = engine.record(key)
        is_waiting = preemptor is not None and preemptor.state is UnitState.WAITING
        if preemptor is None or preemptor.info is None or not is_waiting or key in given_up:
            continue
        info = at_least(preemptor.info)
        if not engine.queues.may_start(info.queue):
            continue
        if own.info.queue == info.queue and own.info.order_key < info.order_key:
            continue
        domains = engine.plugins.domains(info.quota)
        if not domains & engine.plugins.domains(decision.quota):
            continue
        gone = [record.uid for record in engine.candidates.leaving(domains)]
        before = engine.plugins.check_without(info, [*gone, decision.uid])
        after = engine.plugins.check_without(info, gone)
        # Behind the starting unit an owner may come first, whose room no unit may borrow.
        is_left = after is None or after.reason is Reason.GUARANTEE_OF_OTHERS
        assert is_left or before is not None, f"{decision.unit} starts in the room of {key}"
