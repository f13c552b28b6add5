"""What is being written at the moment of a dump, as if it were written. Pure.

A decision whose write is in flight is in no object yet, and the other process cannot confirm it.
So admissions and growths count as written. Evictions count as not requested: their victims are
chosen again. A unit whose write met a conflict waits again, as when its fresh object arrives.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from queue_insight.insight.virtual_cluster import choose_again
from queue_scheduler.cache.admission_check_rules import needed_checks
from queue_scheduler.cache.known_units import last_version
from queue_scheduler.cache.partial_admission import most_that
from queue_scheduler.cache.unit_demand import build_grants
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Dequeue, Growth, Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand
from queue_scheduler.unit_writes.admission_patches import build_dequeue_patch
from queue_scheduler.unit_writes.applied_patches import with_status
from shared_api.queue_unit_phases import Phase
from shared_api.timestamps import rfc3339


def settle(engine: Engine, moment: Moment) -> None:
    """Complete or undo everything that is in flight.

    Args:
        engine: A fork; it is changed.
        moment: The time.
    """
    if engine.usage.fair.is_on:
        # What is kept of use is as of this moment, and so has the order to be: it may lag a minute.
        engine.on_time(moment.wall)
        engine.usage.fair.renew_all()
        engine.forget_pod("")  # there is no such pod: only what follows every fact is done
    versions = _versions(engine)
    for record in list(engine.units):
        if record.state is UnitState.ASSUMED and record.info is not None:
            _admit(engine, record, record.info, next(versions), moment)
        elif record.state is UnitState.CONFLICT:
            engine.on_queue_unit(with_status(record.unit, {}, next(versions)))
        elif record.granting is not None:
            _grow(engine, record, next(versions))
    for key, uid, victims in engine.rounds.open_writes():
        choose_again(engine, key, uid, victims)


def _versions(engine: Engine) -> Iterator[int]:
    last = last_version(engine.units)
    while True:
        last += 1
        yield last


def _admit(
    engine: Engine, record: CachedUnit, info: QueueUnitInfo, version: int, moment: Moment
) -> None:
    unit, queue = record.unit, engine.queues.find(info.queue)
    decision = Dequeue(
        unit=info.key,
        uid=info.uid,
        resource_version=unit.metadata.resource_version,
        queue=info.queue,
        quota=info.quota,
        grants=build_grants(_granted(record, info)),
        to=record.to or Phase.DEQUEUED,
        checks=() if queue is None else needed_checks(queue.rules.api_object, unit),
        is_waited_for=queue is not None and queue.rules.options.waits_for_pods,
        unrequested=engine.placing.find_unrequested(info),
    )
    patch = build_dequeue_patch(unit, decision, rfc3339(moment.wall))
    engine.on_written(decision, with_status(unit, patch["status"], version))


def _granted(record: CachedUnit, info: QueueUnitInfo) -> UnitDemand:
    """Return the demand that an assumed unit starts with: it may be with fewer pods."""
    granting, least = record.granting, info.demand.least
    if granting is None or least is None:
        return info.demand
    return most_that(lambda demand: demand.pods <= granting.occupancy.pods, info.demand, least)


def _grow(engine: Engine, record: CachedUnit, version: int) -> None:
    """Take a growth back, and grant it again, as its object."""
    meta = record.unit.metadata
    granted = Growth(
        unit=record.key, uid=meta.uid, resource_version=meta.resource_version, admissions=()
    )
    engine.on_growth_failed(granted)
    again = engine.grow(record.key)
    if isinstance(again, Growth):
        status = replace(record.unit.status, admissions=again.admissions)
        unit = with_status(replace(record.unit, status=status), {}, version)
        engine.on_queue_unit(unit)
