r"""What time alone changes about units and queues, and when: every rule, in one place. Pure.

The shells (`unit_controllers`) ask when a unit is due, and carry out what follows. A forecast asks
a fork of the engine for the next event.

*Units.* Times are wall times in the object. The rules are, in this order, `backoff_ends_at`,
`checks_end_at`, `nodes_end_at` and `pods_end_at`::

    timer    while                        until                              then
    -------  ---------------------------  ---------------------------------  ----------------------
    BACKOFF  phase TimeoutBackoff         status.requeueState.requeueAt      Enqueued

    CHECKS   phase Reserved, and a check  `granted_at`, and then the queue's TimeoutBackoff, naming
             that is needed is not Ready  annotation admission-check-        the checks
                                          timeout, else the setting
                                          admissionCheckTimeout

    NODES    phase SchedReady, the queue  condition Admitted=True, else      TimeoutBackoff, reason
             not stopped, no eviction     status.lastAllocateTime; and then  SchedulingFailed
             asked for                    --verdict-timeout

    PODS     released, not Running; its   `granted_at`, and then 10 minutes  Evicted=True, reason
             queue waits for its pods,    (`RUNNING_TIMEOUT_SECONDS`)        BackoffTimeout
             the controllers do not
             manage it

A time that is missing, unreadable, or further in the future than clocks may differ (`read_past`) is
skipped, and the next source counts; only requeueAt may lie any time ahead. Without any time,
BACKOFF and NODES end at once, and CHECKS and PODS never. CHECKS and NODES take the unit's place
back, so their shells wait until no pod of the unit lives.

A unit that is requeued waits until `requeue_at`: 10 s, doubled each time up to 15 minutes, with
10 % jitter, and at least the requeueAfterSeconds of the checks that refuse it.

*Queues.* The engine keeps these times, by the monotonic clock. `Rest.until` says when a queue is to
be asked again; `queue_due_at` returns the same at any time::

    from                                     for
    ---------------------------------------  --------------------------------------------------
    an admission that was not written        `REJECTED_PAUSE_SECONDS`, `DROPPED_PAUSE_SECONDS`:
                                             its queue rests
    victims were chosen for a unit           `NOMINATED_SECONDS`: room is kept for it
    its round was for nothing                `REST_SECONDS`: it has no other
    no victims were found                    `SEARCH_AGAIN_SECONDS`: they are not looked for
    condition Evicted=True of a victim       `STUCK_SECONDS`: no other round while it leaves
    status.lastAllocateTime of an admitted   defaultReclaimProtectTime, `LEFT_ALONE_SECONDS` if it
    unit                                     was evicted before, or the time that its queue or
                                             quota states (`preemption.protection`): it is no victim
    an admission that is being written       `SETTLING_SECONDS`: it is no victim
    `preemption.eviction_guards.waits_since` the queue's eviction-delay: it evicts no others
    evictions so far                         its evictions-per-hour, evictionsPerHour: the same
    condition PodsReady=True, of units that  spec.maximumExecutionTimeSeconds: a promise changes
    declare an end                           (`Backfill.again_seconds`)
    the start of a window that a unit would  its duration: the unit is asked again
    run into (`reservations`)

*Shells.* Two times stand in no object and are kept where they are needed. A reserved unit names its
inactive checks once they have been inactive for `ACTIVITY_SECONDS` (`activity_reported_at`). A unit
whose admission the server refuses stands aside for `cycles.dequeue_cycle.ASIDE`.

*Windows.* Those of a reservation with `atStart: Evict` evict what runs, from `grace` before they
begin until they end (`evicting_windows`).

*Pods.* One of no unit that no scheduler has tried to bind is stuck after
`cache.untried_pods.UNTRIED_SECONDS`: `Engine.on_time` tells the engine that this time has come.

Not here: the pauses after which a shell retries what has no time of its own (refused growth, failed
writes, reports); when jobs end (`engine.usage.ends`); the clocks of the controllers and of
the program that answers provisioning checks.

`insight.virtual_cluster` goes from event to event by these rules, on a fork or an engine of its
own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Final

import msgspec

from queue_scheduler.cache.admission_check_rules import WaitForChecks
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Moment
from queue_scheduler.engine.check_facts import read_check_facts
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unmanaged_units import is_awaited, requires_write
from shared_api.evictions import (
    BACKOFF,
    RUNNING_TIMEOUT_SECONDS,
    backoffs_of,
    min_requeue_seconds,
)
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    ADMITTED,
    QUOTA_RESERVED,
    Phase,
    is_being_evicted,
    is_managed_by_controllers,
)
from shared_api.timestamps import parse_time, read_past

ACTIVITY_SECONDS: Final = 30.0
"""How long another set of checks must be inactive before units report it: a check that flaps costs
no write per unit that it holds."""


class Timer(StrEnum):
    """What a unit or queue waits for."""

    BACKOFF = "backoff"
    """The end of its wait after an eviction."""
    CHECKS = "admission checks"
    """Answers of admission checks."""
    NODES = "nodes"
    """An answer of the program that reserves nodes."""
    PODS = "pods"
    """Running pods, in a queue that waits for them."""
    QUEUE = "queue"
    """The time at which a queue is asked again."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long units may take if their queue does not say.

    Attributes:
        checks_seconds: `admissionCheckTimeout` of the configuration; 0: no limit.
        nodes_seconds: `--verdict-timeout`.
    """

    checks_seconds: float
    nodes_seconds: float


class DueAt(msgspec.Struct, frozen=True, gc=False):
    """When a timer ends.

    Attributes:
        timer: Which timer.
        key: `namespace/name` of the unit; of `QUEUE`, the queue's name.
        at: Wall time. In the past: it is overdue.
    """

    timer: Timer
    key: str
    at: datetime


# --- one rule each --------------------------------------------------------------------------------


def granted_at(unit: QueueUnit, now: datetime) -> datetime:
    """Return since when a unit has its quota, by the best of its times in the past.

    Without such a time, return `now`: a timeout counted from it never ends.
    """
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED)
    since = reserved.last_transition_time if reserved is not None else None
    for text in (unit.status.last_allocate_time, since, unit.metadata.creation_timestamp):
        moment = read_past(text, now)
        if moment is not None:
            return moment
    return now


def backoff_ends_at(unit: QueueUnit) -> datetime | None:
    """Return until when a unit in backoff waits; None: it names no time, so the backoff is over."""
    state = unit.status.requeue_state
    try:
        return None if state is None else parse_time(state.requeue_at or "")
    except (ValueError, OverflowError):
        return None


def checks_end_at(unit: QueueUnit, timeout_seconds: float, now: datetime) -> datetime | None:
    """Return until when the checks of a reserved unit may answer; None (0 seconds): no limit."""
    if not timeout_seconds:
        return None
    return granted_at(unit, now) + timedelta(seconds=timeout_seconds)


def nodes_end_at(unit: QueueUnit, timeout_seconds: float, now: datetime) -> datetime:
    """Return until when a unit in SchedReady waits for nodes; `now` if its object has no time."""
    since = read_past(unit.status.last_allocate_time, now)
    admitted = find_condition(unit.status.conditions, ADMITTED)
    if admitted is not None and admitted.status == "True":
        since = read_past(admitted.last_transition_time, now) or since
    return now if since is None else since + timedelta(seconds=timeout_seconds)


def pods_end_at(unit: QueueUnit, now: datetime) -> datetime:
    """Return until when the pods of a released unit must run, in a queue that waits for them."""
    return granted_at(unit, now) + timedelta(seconds=RUNNING_TIMEOUT_SECONDS)


def requeue_at(unit: QueueUnit, now: datetime, rng: random.Random | None = None) -> datetime:
    """Return until when a unit waits that the scheduler requeues now.

    Args:
        unit: The unit before the change.
        now: Wall time.
        rng: Source of the jitter; None: no jitter, as a forecast needs it.
    """
    seconds = max(BACKOFF.seconds(backoffs_of(unit), rng), float(min_requeue_seconds(unit)))
    return now + timedelta(seconds=seconds)


def activity_reported_at(since: float) -> float:
    """Return when a unit reports which checks are inactive; seconds of the monotonic clock.

    Args:
        since: When the unit was first seen with an outdated report.
    """
    return since + ACTIVITY_SECONDS


def is_due(at: datetime | None, now: datetime) -> bool:
    """Return whether a time has come; None never comes."""
    return at is not None and at <= now


# --- which rule holds -----------------------------------------------------------------------------


def unit_due_at(
    engine: Engine, record: CachedUnit, timeouts: Timeouts, now: datetime
) -> DueAt | None:
    """Return the next change of a unit by time alone; None if there is none.

    Args:
        engine: Knows the unit.
        record: The unit.
        timeouts: The settings.
        now: Wall time. It decides which times in the object are past, and so are believed.
    """
    timer = _TIMERS.get(record.unit.status.phase)
    at = None if timer is None else _timer_ends_at(engine, record, timer, timeouts, now)
    return None if timer is None or at is None else DueAt(timer, record.key, at)


_TIMERS: Final = {
    Phase.TIMEOUT_BACKOFF.value: Timer.BACKOFF,
    Phase.RESERVED.value: Timer.CHECKS,
    Phase.SCHED_READY.value: Timer.NODES,
    Phase.DEQUEUED.value: Timer.PODS,
    Phase.SCHED_SUCCEED.value: Timer.PODS,
}
"""Timers by phase: a unit waits for one thing at a time."""


def _timer_ends_at(
    engine: Engine, record: CachedUnit, timer: Timer, timeouts: Timeouts, now: datetime
) -> datetime | None:
    unit = record.unit
    match timer:
        case Timer.BACKOFF:
            return backoff_ends_at(unit) or now
        case Timer.CHECKS:
            return _open_checks_end_at(engine, record, timeouts, now)
        case Timer.NODES if _waits_for_nodes(engine, record):
            return nodes_end_at(unit, timeouts.nodes_seconds, now)
        case Timer.PODS if _waits_for_pods(unit):
            return pods_end_at(unit, now)
        case _:
            return None


def _open_checks_end_at(
    engine: Engine, record: CachedUnit, timeouts: Timeouts, now: datetime
) -> datetime | None:
    facts = read_check_facts(engine, record.key)
    if facts is None:
        return None
    seconds = facts.timeout_seconds(timeouts.checks_seconds)
    # The effect of an answer, a stopped queue or an eviction is due at once, whatever the time.
    if not isinstance(facts.judge(is_late=False, timeout_seconds=seconds), WaitForChecks):
        return None
    return checks_end_at(facts.unit, seconds, now)


def _waits_for_nodes(engine: Engine, record: CachedUnit) -> bool:
    info = record.info
    is_stopped = info is not None and not engine.queues.may_start(info.queue)
    return not is_stopped and not is_being_evicted(record.unit)


def _waits_for_pods(unit: QueueUnit) -> bool:
    if is_managed_by_controllers(unit):
        return False
    return is_awaited(unit) and not requires_write(unit)


def queue_due_at(engine: Engine, name: str) -> float | None:
    """Return when a resting queue is to be asked again, if nothing wakes it before.

    Seconds of the monotonic clock, the `now` of `Engine.decide_next`; a time in the past means at
    once. None: only when woken.
    """
    if name not in engine.queues:
        return None
    return engine.turns.backs_off_until(name) or engine.rounds.next_time(name)


# --- questions ------------------------------------------------------------------------------------


def what_is_due(engine: Engine, key: str, timeouts: Timeouts, now: datetime) -> Timer | None:
    """Return which timer of a unit has ended, for a shell to write the change; None: none has."""
    record = engine.record(key)
    due = None if record is None else unit_due_at(engine, record, timeouts, now)
    return due.timer if due is not None and is_due(due.at, now) else None


def unit_timers(engine: Engine, timeouts: Timeouts, now: datetime) -> Iterator[DueAt]:
    """Yield the timers of all units, in no particular order."""
    for record in engine.units:
        due = unit_due_at(engine, record, timeouts, now)
        if due is not None:
            yield due


def queue_timers(engine: Engine, moment: Moment) -> Iterator[DueAt]:
    """Yield the queues that are asked again by the clock; an overdue one is due now."""
    for queue in engine.queues:
        at = queue_due_at(engine, queue.name)
        if at is not None:
            rest = timedelta(seconds=max(0.0, at - moment.now))
            yield DueAt(Timer.QUEUE, queue.name, moment.wall + rest)


def next_due(engine: Engine, timeouts: Timeouts, moment: Moment) -> DueAt | None:
    """Return the next change by time, if nothing else happens before; None if there is none.

    For a fork: it looks at all units. An overdue timer comes first, again and again, until its unit
    has changed or its queue was asked. Timers that end together come in a stable order.
    """
    timers = chain(unit_timers(engine, timeouts, moment.wall), queue_timers(engine, moment))
    return min(timers, key=lambda due: (due.at, due.timer, due.key), default=None)


def moment_of(due: DueAt, moment: Moment) -> Moment:
    """Return the moment at which a timer ends, or the given moment if that is later."""
    passed = max(0.0, (due.at - moment.wall).total_seconds())
    return Moment(moment.now + passed, max(due.at, moment.wall))
