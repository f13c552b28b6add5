r"""Runs an engine forward in virtual time, and plays what is outside of it. Pure.

An engine decides, and nothing else. In a cluster others write its decisions, run the pods, stop the
victims, answer checks and requests for nodes, and end the jobs. Here one heap of events does all of
that for an engine of its own: a new one (a replay) or a fork (a forecast)::

    an arrival     --> a unit in its queue
    Dequeue        --> written --> checks, nodes --> pods run --> the job ends, the unit is deleted
    Preempt        --> requests are written --> the victims' pods are gone --> they are free again
    a timer ends   --> what `engine.deadlines` says (backoff, checks, nodes, pods, a queue's rest)
    a budget ends  --> with `Stop`, requests to its units are written (`budget_events`)
    a window nears --> with `Evict`, requests to what runs are written (`window_events`)

The engine takes everything that happens at one moment before queues are asked at that moment. What
is written are the patches of `unit_writes`, which the shells send as well; only `engine.deadlines`
knows when time alone changes something. `now` and `wall` advance together. An event costs
the same however many units there are: each change of a unit plans its next event, and makes those
that were planned before void.

Not played: jobs that grow while they run, and pods one by one (all pods of a unit start and end
together).

The same engine, arrivals and outside give the same events in the same order: nothing here is
random except the run times of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from functools import partial
from math import inf
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_insight.insight.agenda import Agenda
from queue_insight.insight.budget_events import BudgetEvents
from queue_insight.insight.trials import SpentError, never_late
from queue_insight.insight.window_events import WindowEvents
from queue_scheduler.cache.admission_check_rules import (
    READY,
    AddEntries,
    AskBack,
    CheckVerdict,
    GoOn,
    PutBack,
    Withdraw,
    entries_of,
)
from queue_scheduler.cache.known_units import last_version
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Dequeue, Moment, Preempt, Reason, Refusal, Rest, Victim
from queue_scheduler.engine.check_facts import CheckFacts, read_check_facts
from queue_scheduler.engine.deadlines import (
    Timeouts,
    Timer,
    checks_end_at,
    is_due,
    unit_due_at,
    what_is_due,
)
from queue_scheduler.engine.drained_queues import is_drained
from queue_scheduler.engine.engine import Engine
from queue_scheduler.refusal_texts import eviction_message
from queue_scheduler.unit_writes.admission_patches import build_admission, build_dequeue_patch
from queue_scheduler.unit_writes.applied_patches import with_status
from queue_scheduler.unit_writes.eviction_patches import (
    build_backoff_status,
    build_eviction_status,
    build_put_back,
    build_removal,
    build_request,
    build_return_status,
    build_withdrawal,
)
from queue_scheduler.unit_writes.run_patches import (
    build_ended,
    build_nodes_reserved,
    build_running,
    build_stopped,
)
from shared_api.evictions import (
    ADMISSION_CHECK,
    BACKOFF_TIMEOUT,
    BUDGET_SPENT,
    RESERVED_FOR,
    RUNNING_TIMEOUT_MESSAGE,
)
from shared_api.objects.meta import Uid, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    CHARGED_PHASES,
    PODS_READY,
    PREEMPTED,
    Phase,
    is_being_evicted,
    phase_of,
)
from shared_api.timestamps import read_past, rfc3339

NO_NODES: Final = "no answer in time"
"""Why a unit that asked for nodes is put back."""

NO_TIMEOUTS: Final = Timeouts(checks_seconds=0.0, nodes_seconds=1800.0)
"""The program's defaults, without a limit for admission checks."""


class EventKind(StrEnum):
    """What happened to a unit."""

    ARRIVED = "arrived"
    """It was created."""
    ADMITTED = "admitted"
    """Its admission is written; it occupies its quota, perhaps until checks are Ready."""
    STARTED = "started"
    """Its pods run."""
    EVICTED = "evicted"
    """It is asked to make room; it occupies its quota until it has stopped."""
    FREED = "freed"
    """It gave its quota back, and waits again."""
    FINISHED = "finished"
    """Its job has ended, and its quota is free."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened.

    Attributes:
        kind: What happened.
        now: The time, in seconds of the monotonic clock.
        unit: The object after it.
        decision: The decision of an admission, or the round of an eviction.
    """

    kind: EventKind
    now: float
    unit: QueueUnit
    decision: Dequeue | Preempt | None = None


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A unit that is created.

    Attributes:
        now: The time, in seconds of the monotonic clock; not before that of the arrival before it.
        unit: The object; its resourceVersion and creationTimestamp are set when it arrives.
    """

    now: float
    unit: QueueUnit


RunSeconds = Callable[[QueueUnit, float], float]
"""(unit, seconds that its pods have run in this run) -> for how much longer; `inf`: for ever.

Asked once per run, when it starts. A maximum execution time that the unit declares ends the run, if
it is earlier.
"""


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """How what is outside of the engine behaves.

    Attributes:
        run_seconds: How long pods run.
        start_seconds: From the release of a job until its pods run.
        stop_seconds: From the request of an eviction until the unit's pods are gone.
        write_seconds: Until an admission is written.
        check_seconds: Until all admission checks of a unit are Ready; None: never.
        node_seconds: Until nodes are reserved for a unit that asks for them; None: never.
        timeouts: What the program is configured with.
    """

    run_seconds: RunSeconds
    start_seconds: float = 0.0
    stop_seconds: float = 0.0
    write_seconds: float = 0.0
    check_seconds: float | None = 0.0
    node_seconds: float | None = 0.0
    timeouts: Timeouts = NO_TIMEOUTS


def ignore(_event: Event) -> None:
    """Discard an event."""


class VirtualCluster:
    """An engine in virtual time.

    Args:
        engine: Its state is changed: a new engine, or a fork.
        moment: The time at which the engine's state was taken.
        outside: How what is outside behaves.
        arrivals: Units that are created, in order of time.
        on_event: Called with everything that happens, after the engine took it. It may read the
            engine, and plan looks at it with `agenda.call_at`.

    Attributes:
        engine: The engine; for reading.
        agenda: The time, and what is to happen.
        budgets: When budgets are spent.
    """

    def __init__(
        self,
        engine: Engine,
        moment: Moment,
        outside: Outside,
        arrivals: Iterable[Arrival] = (),
        on_event: Callable[[Event], None] = ignore,
    ) -> None:
        self.engine = engine
        self.agenda = Agenda(moment)
        self._outside = outside
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._on_event = on_event
        # Since when the pods of running units run.
        self._started: dict[str, float] = {}
        self._asking: dict[str, None] = {}
        self._alarms: dict[str, float] = {}
        self._version = last_version(engine.units)
        self.budgets = BudgetEvents(engine, self.agenda, partial(self._ask_out, BUDGET_SPENT))
        self._windows = WindowEvents(engine, self.agenda, partial(self._ask_out, RESERVED_FOR))
        self._tell_time()
        self._take_over()
        self._next_arrival()

    @property
    def wall(self) -> datetime:
        """The wall time."""
        return self.agenda.wall

    def run(self, until: float = inf, is_over: Callable[[], bool] = never_late) -> None:
        """Play all events up to a time, in seconds of the monotonic clock, and those at it.

        Without one, until nothing is left to happen; units that nothing will start may still wait.

        Args:
            until: The time.
            is_over: Returns whether the result is no longer wanted. Asked before each moment and
                each decision: much may happen within a short virtual time.

        Raises:
            SpentError: `is_over` says so; the engine is between two states.
        """
        agenda = self.agenda
        self._decide(is_over)
        while agenda.next_at <= until and agenda.next_at < inf:
            if is_over():
                raise SpentError
            agenda.advance(agenda.next_at)
            self._tell_time()
            agenda.play_next()
            self._decide(is_over)
        if until < inf:
            agenda.advance(until)
            self._tell_time()

    # --- the state at the beginning -----------------------------------------------------------

    def _take_over(self) -> None:
        """Plan what follows from the engine's state, and settle what was in flight."""
        for record in list(self.engine.units):
            if record.state in {UnitState.ASSUMED, UnitState.CONFLICT}:
                # The write is lost with its process: the unit is decided again, first of all.
                unit = with_status(record.unit, {}, self._next_version())
                self._update(unit)
            elif record.unit.status.phase == Phase.RUNNING:
                ready = find_condition(record.unit.status.conditions, PODS_READY)
                since = read_past(ready.last_transition_time if ready else None, self.wall)
                self._started[record.key] = self.agenda.at(since or self.wall)
        for key, uid, victims in self.engine.rounds.open_writes():
            self._wake(choose_again(self.engine, key, uid, victims))
        for record in list(self.engine.units):
            self._plan(record)
        self._wake(queue.name for queue in self.engine.queues)

    def _next_arrival(self) -> None:
        arrival = next(self._arrivals, None)
        if arrival is not None:
            self.agenda.call_at(arrival.now, lambda: self._arrive(arrival.unit))

    def _arrive(self, unit: QueueUnit) -> None:
        version = str(self._next_version())
        metadata = replace(
            unit.metadata, resource_version=version, creation_timestamp=rfc3339(self.wall)
        )
        unit = replace(unit, metadata=metadata)
        self._update(unit)
        self._report(EventKind.ARRIVED, unit)
        self._next_arrival()

    def _tell_time(self) -> None:
        """Tell the engine the time, where it counts anything over time: facts carry none."""
        if self.engine.counts_time:
            self._wake(self.engine.on_time(self.wall))

    # --- decisions ----------------------------------------------------------------------------

    def _decide(self, is_over: Callable[[], bool]) -> None:
        """Ask the queues that are awake, each until it rests."""
        asking, engine = self._asking, self.engine
        while asking:
            if is_over():
                raise SpentError
            queue = next(iter(asking))
            decision = engine.decide_next(queue, self.agenda.now, self.wall)
            if isinstance(decision, Rest):
                del asking[queue]
                self._rest(queue, decision.until)
            self._wake(decision.wake)
            if isinstance(decision, Dequeue):
                self._start_writing(decision)
            elif isinstance(decision, Preempt):
                self._evict(decision)
        self.budgets.plan()
        self._windows.plan()

    def _wake(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self._asking[queue] = None

    def _rest(self, queue: str, until: float | None) -> None:
        """Schedule a queue to decide again when its rest is over."""
        if until is None or self._alarms.get(queue) == until:
            return
        self._alarms[queue] = until

        def ring() -> None:
            if self._alarms.get(queue) == until:
                del self._alarms[queue]
                self._asking[queue] = None

        self.agenda.call_at(until, ring)

    def _start_writing(self, decision: Dequeue) -> None:
        if self._outside.write_seconds:
            at = self.agenda.now + self._outside.write_seconds
            self.agenda.call_at(at, lambda: self._write_admission(decision))
        else:
            self._write_admission(decision)

    def _write_admission(self, decision: Dequeue) -> None:
        record = self.engine.open_record(decision)
        if record is None:
            return
        patch = build_dequeue_patch(record.unit, decision, rfc3339(self.wall))
        unit = with_status(record.unit, patch["status"], self._next_version())
        self._wake(self.engine.on_written(decision, unit))
        self._plan_by(decision.unit)
        self._report(EventKind.ADMITTED, unit, decision)

    def _evict(self, decision: Preempt) -> None:
        failed = []
        for victim in decision.victims:
            record = self.engine.record(victim.unit)
            version = None if record is None else record.unit.metadata.resource_version
            if record is None or (record.uid, version) != (victim.uid, victim.resource_version):
                failed.append(victim)
                continue
            note = eviction_message(decision)
            patch = build_eviction_status(
                record.unit, decision.reason, note, decision.queue, self.wall
            )
            unit = self._write(record.unit, patch)
            self._report(EventKind.EVICTED, unit, decision)
        self._wake(self.engine.on_preempted(decision, tuple(failed)))

    # --- the life of a unit -------------------------------------------------------------------

    def _plan_by(self, key: str) -> None:
        record = self.engine.record(key)
        if record is not None:
            self._plan(record)

    def _plan(self, record: CachedUnit) -> None:
        """Plan what happens to a unit next; what was planned before is void."""
        key, unit = record.key, record.unit
        self.agenda.void(key)
        phase = phase_of(unit)
        if phase in CHARGED_PHASES:
            self._plan_charged(record, phase)
        due = unit_due_at(self.engine, record, self._outside.timeouts, self.wall)
        if due is not None:
            self.agenda.plan(key, max(0.0, self.agenda.at(due.at) - self.agenda.now), self._on_time)

    def _plan_charged(self, record: CachedUnit, phase: Phase) -> None:
        """Plan what happens next to a unit that occupies quota."""
        key, unit, outside = record.key, record.unit, self._outside
        if is_being_evicted(unit):
            self.agenda.plan(key, outside.stop_seconds, self._stop)
            return
        if unit.spec.active is False or is_drained(self.engine, record):
            self.agenda.plan(key, 0.0, self._ask_back)
        if phase is Phase.RESERVED or unit.status.admission_checks:
            self.agenda.plan(key, 0.0, self._settle_checks)
        match phase:
            case Phase.RUNNING:
                self._plan_end(key, unit)
            case Phase.RESERVED:
                self.agenda.plan(key, outside.check_seconds, self._answer_checks)
            case Phase.SCHED_READY:
                self.agenda.plan(key, outside.node_seconds, self._give_nodes)
            case Phase.SCHED_FAILED:
                self.agenda.plan(key, 0.0, self._put_back)
            case _:
                self.agenda.plan(key, outside.start_seconds, self._run)

    def _plan_end(self, key: str, unit: QueueUnit) -> None:
        ran = self.agenda.now - self._started.setdefault(key, self.agenda.now)
        left = max(0.0, self._outside.run_seconds(unit, ran))
        most = unit.spec.maximum_execution_time_seconds
        if most is not None:
            used = (unit.status.accumulated_past_execution_time_seconds or 0) + ran
            if most - used < left:
                self.agenda.plan(key, max(0.0, most - used), self._kill)
                return
        self.agenda.plan(key, left, self._end)

    def _run(self, key: str) -> None:
        self._started[key] = self.agenda.now
        unit = self._write_by(key, lambda record: build_running(record.unit, self.wall))
        self._report(EventKind.STARTED, unit)

    def _end(self, key: str) -> None:
        self._finish(key, Phase.SUCCEED)

    def _kill(self, key: str) -> None:
        """End a job that has reached its maximum execution time."""
        self._finish(key, Phase.FAILED)

    def _finish(self, key: str, to: Phase) -> None:
        """End a job; its unit is deleted at once, as when the garbage collector follows."""
        self._end_pods(key)
        self._started.pop(key, None)
        unit = self._write_by(key, lambda record: build_ended(record.unit, to, self.wall))
        self._wake(self.engine.on_queue_unit_gone(unit))
        self._report(EventKind.FINISHED, unit)

    def _ask_back(self, key: str) -> None:
        """Request the eviction of a unit that is inactive, or whose queue is drained."""
        unit = self._write_by(key, lambda record: build_removal(record, self.wall))
        self._report(EventKind.EVICTED, unit)

    def _ask_out(self, reason: str, key: str, why: str) -> None:
        """Request the eviction of a unit whose budget is spent, or that would run in a window."""
        unit = self._write_by(
            key, lambda record: build_request(record.unit, reason, why, self.wall)
        )
        self._report(EventKind.EVICTED, unit)

    def _stop(self, key: str) -> None:
        """Free a unit that was asked to make room: its pods are gone."""
        self._end_pods(key)
        since = self._started.pop(key, self.agenda.now)
        ran = self.agenda.now - since
        unit = self._write_by(key, lambda record: build_stopped(record.unit, ran, self.wall))
        self._report(EventKind.FREED, unit)

    def _end_pods(self, key: str) -> None:
        record = self.engine.record(key)
        if record is None:
            return
        for pod in self.engine.pods.pods_of(record.unit):
            self._wake(self.engine.forget_pod(pod))

    # --- checks, nodes, and times -------------------------------------------------------------

    def _answer_checks(self, key: str) -> None:
        """Let all checks of a reserved unit be Ready."""
        record = self.engine.record(key)
        if record is None:
            return
        names = [each.name for each in record.unit.status.admission_checks]
        entries = entries_of(record.unit, names, rfc3339(self.wall))
        ready = [{**entry, "state": READY} for entry in entries]
        if ready != entries:
            self._write(record.unit, {"admissionChecks": ready})
        else:
            self._settle_checks(key)

    def _settle_checks(self, key: str) -> None:
        """Write what follows from the states of a unit's checks, if anything does."""
        facts = read_check_facts(self.engine, key)
        if facts is None:
            return
        seconds = facts.timeout_seconds(self._outside.timeouts.checks_seconds)
        is_late = is_due(checks_end_at(facts.unit, seconds, self.wall), self.wall)
        verdict = facts.judge(is_late=is_late, timeout_seconds=seconds)
        if isinstance(verdict, AskBack):
            self._ask_back_for_checks(facts.unit, verdict.message)
            return
        patch = self._patch_of(facts, verdict)
        if patch is not None:
            unit = self._write(facts.unit, patch)
            if isinstance(verdict, PutBack | Withdraw):
                self._report(EventKind.FREED, unit)

    def _patch_of(self, facts: CheckFacts, verdict: CheckVerdict) -> dict[str, object] | None:
        match verdict:
            case GoOn():
                return build_admission(facts, verdict, self.wall)
            case AddEntries(checks=checks):
                return {"admissionChecks": entries_of(facts.unit, checks, rfc3339(self.wall))}
            case Withdraw():
                return build_withdrawal(facts.unit, facts.queue_name, self.wall)
            case PutBack(message=message):
                return build_put_back(facts.unit, message, self.wall, None)
            case _:
                return None

    def _ask_back_for_checks(self, unit: QueueUnit, message: str) -> None:
        patch = build_request(unit, ADMISSION_CHECK, message, self.wall)
        self._report(EventKind.EVICTED, self._write(unit, patch))

    def _give_nodes(self, key: str) -> None:
        self._write_by(key, lambda record: build_nodes_reserved(record.unit, self.wall))

    def _put_back(self, key: str) -> None:
        """Put a unit into backoff that gets no nodes."""
        unit = self._write_by(
            key, lambda record: build_backoff_status(record.unit, NO_NODES, self.wall, None)
        )
        self._report(EventKind.FREED, unit)

    def _on_time(self, key: str) -> None:
        """Write what follows for a unit because its time is over."""
        match what_is_due(self.engine, key, self._outside.timeouts, self.wall):
            case Timer.BACKOFF:
                now = rfc3339(self.wall)
                self._write_by(key, lambda record: build_return_status(record.unit, now))
            case Timer.CHECKS:
                self._settle_checks(key)
            case Timer.NODES:
                self._put_back(key)
            case Timer.PODS:
                unit = self._write_by(
                    key,
                    lambda record: build_request(
                        record.unit, BACKOFF_TIMEOUT, RUNNING_TIMEOUT_MESSAGE, self.wall
                    ),
                )
                self._report(EventKind.EVICTED, unit)
            case _:
                self._plan_by(key)

    # --- the API server -----------------------------------------------------------------------

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _write_by(self, key: str, build: Callable[[CachedUnit], dict[str, object]]) -> QueueUnit:
        record = self.engine.record(key)
        assert record is not None, f"an event of {key}, which is gone"
        return self._write(record.unit, build(record))

    def _write(self, unit: QueueUnit, status: dict[str, object]) -> QueueUnit:
        """Merge a status, tell the engine, and plan what follows; return the unit after it."""
        written = with_status(unit, status, self._next_version())
        self._update(written)
        self._plan_by(written.metadata.key)
        return written

    def _update(self, unit: QueueUnit) -> None:
        self._wake(self.engine.on_queue_unit(unit))

    def _report(
        self, kind: EventKind, unit: QueueUnit, decision: Dequeue | Preempt | None = None
    ) -> None:
        self._on_event(Event(kind, self.agenda.now, unit, decision))


def choose_again(
    engine: Engine, key: str, uid: Uid, victims: Iterable[tuple[str, Uid, str]]
) -> tuple[str, ...]:
    """Report requests of a round that are still open as failed: victims are chosen again.

    Args:
        engine: The engine.
        key: The unit that the victims leave for, as `PreemptionRounds.open_writes` says.
        uid: Its uid.
        victims: Key, uid and version of each.
    """
    failed = tuple(
        Victim(unit=unit, uid=of, resource_version=version, priority=0, lost_seconds=0)
        for unit, of, version in victims
        if not _is_leaving(engine, unit)
    )
    lost = Preempt(
        unit=key,
        uid=uid,
        queue="",
        quota="",
        priority=0,
        reason=PREEMPTED,
        victims=failed,
        refusal=Refusal(reason=Reason.WAITING),
    )
    return engine.on_preempted(lost, failed)


def _is_leaving(engine: Engine, key: str) -> bool:
    record = engine.record(key)
    return record is not None and is_being_evicted(record.unit)
