"""The shells have no time rule of their own: each acts when `deadlines` says that it is due.

All shells that back units off, requeue them or ask them to leave look at the same unit, in any
state and with any times in it. What they write because of the time, and how long they rest
otherwise, is compared with the engine's answer. So are the rests of queues.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Moment, Notice, Rest
from queue_scheduler.engine.deadlines import (
    ACTIVITY_SECONDS,
    Timeouts,
    Timer,
    next_due,
    queue_due_at,
    what_is_due,
)
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.admission_checks import AdmissionCheckCycle
from queue_scheduler.unit_controllers.eviction import UnitEvictions
from queue_scheduler.unit_controllers.node_timeout import NodeTimeouts
from queue_scheduler.unit_controllers.requeue import BackoffRequeue
from queue_scheduler.unit_controllers.unit_reconciler import UnitAccess
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue import AdmissionCheckReference, Queue
from shared_api.objects.queue_unit import Admission, AdmissionCheckState, QueueUnit, RequeueState
from shared_api.queue_unit_phases import Phase
from shared_api.testing.virtual_clock import EPOCH, VirtualClock
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ADMISSION_CHECK_TIMEOUT, MANAGED_BY, STOP_POLICY
from shared_api.work_queue import WorkQueue
from tests.properties.engine_kit import (
    build_check,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
)
from tests.properties.test_preemption_rest import NAMES, Town
from tests.queue_scheduler.shell_kit import HeldWrites, Json
from tests.stepped_host import exhaust

pytestmark = pytest.mark.properties

TIMEOUTS = Timeouts(checks_seconds=300.0, nodes_seconds=60.0)
KEY = "ns/u"
LONGEST_REST = {Timer.BACKOFF: 30.0, Timer.NODES: 30.0, Timer.CHECKS: 60.0, Timer.PODS: 60.0}
OFFSETS = (-99_999, -601, -600, -599, -301, -300, -299, -61, -60, -59, -1, 0, 1, 59, 60, 61, 3600)
"""Seconds from now, near the limits in use."""


def stamp(seconds: int) -> Timestamp:
    return rfc3339(EPOCH + timedelta(seconds=seconds))


TIMES = st.sampled_from([*map(stamp, OFFSETS), None, Timestamp(""), Timestamp("no time")])
AWAITED = ("PodsReady", "False", "WaitForPodsRunning")
RUNS = ("PodsReady", "True", "PodsRunning")
OTHERS = (
    *[("Admitted", "True", "")] * 4,
    *[("QuotaReserved", "True", "")] * 2,
    ("Admitted", "False", ""),
    ("Evicted", "False", "Requeued"),
    ("Evicted", "True", "Preempted"),
)
ENTRIES = (
    *[{"c": "Pending"}] * 6,
    {"c": "Pending", "d": "Pending"},
    {"c": "Ready"},
    {"c": "Ready", "d": "Pending"},
    {"c": "Retry"},
    {"d": "Rejected"},
    {},
)


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Condition, ...]:
    """Return conditions that times are read from, and some that end the waiting."""
    chosen = [draw(st.sampled_from([AWAITED, AWAITED, AWAITED, RUNS]))]
    chosen += draw(st.sampled_from([[], *([each] for each in OTHERS)]))
    return tuple(
        Condition(type=kind, status=status, reason=reason, last_transition_time=draw(TIMES))
        for kind, status, reason in chosen
    )


TIMED = ("TimeoutBackoff", *["Reserved"] * 3, *["SchedReady"] * 2, "Dequeued", "SchedSucceed")
"""Phases in which something is waited for; more often those in which it is mostly for nothing."""


@st.composite
def units(draw: st.DrawFn) -> QueueUnit:
    """Return a unit in any state, mostly in one in which something is waited for."""
    unit = build_unit(
        "u",
        "a",
        annotations=draw(st.sampled_from([*[{}] * 6, {MANAGED_BY: "controllers"}])),
        active=draw(st.sampled_from([*[None] * 6, True, False])),
    )
    granted = Admission(name="main", replicas=1, running=draw(st.sampled_from([*[0] * 6, 1])))
    until = RequeueState(count=draw(st.integers(0, 9)), requeue_at=draw(TIMES))
    return changed(
        unit,
        2,
        draw(st.sampled_from([*TIMED * 3, *(phase.value for phase in Phase)])),
        conditions=draw(conditions()),
        admissions=draw(st.sampled_from([(), (granted,), (granted,)])),
        admission_checks=tuple(
            AdmissionCheckState(name=name, state=state)
            for name, state in draw(st.sampled_from(ENTRIES)).items()
        ),
        last_allocate_time=draw(TIMES),
        requeue_state=draw(st.sampled_from([until, until, until, None])),
    )


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """Return the unit's queue."""
    said = {
        STOP_POLICY: draw(st.sampled_from([*["None"] * 6, "Hold"])),
        ADMISSION_CHECK_TIMEOUT: draw(st.sampled_from(["", "", "", "60s", "nonsense", "0"])),
    }
    names = draw(st.sampled_from(["c", "c", "c", "cd", ""]))
    checks = tuple(AdmissionCheckReference(name=name) for name in names)
    return build_queue("a", annotations=said, admission_checks=checks)


class Shells:
    """All time-driven shells, over one engine; what they write is kept."""

    def __init__(self, engine: Engine) -> None:
        self.clock = VirtualClock()
        self.engine = engine
        self._queues: dict[Timer, WorkQueue[Any]] = {}
        rng, count = random.Random(1), list[str]().append
        self.writes = {timer: HeldWrites() for timer in Timer}
        access, clock, seconds = self._access, self.clock, TIMEOUTS
        self._shells = (
            BackoffRequeue(access(Timer.BACKOFF), clock),
            AdmissionCheckCycle(access(Timer.CHECKS), clock, rng, seconds.checks_seconds, self),
            NodeTimeouts(
                access(Timer.NODES), count, clock, rng, timeout_seconds=seconds.nodes_seconds
            ),
            UnitEvictions(access(Timer.PODS), clock, rng),
        )

    def _access(self, timer: Timer) -> UnitAccess:
        due = self._queues[timer] = WorkQueue(self.clock, backoff=lambda _attempt: 1.0)
        return UnitAccess(
            shared=SharedEngine(self.engine, lambda _queues: None),
            writes=self.writes[timer],
            note_written=lambda _unit: None,
            may_write=lambda: True,
            due=due,
            read_unit=self._read,
            report=self._report,
        )

    def look(self) -> None:
        """Let each shell look at the unit, as after a restart: at what it finds in the engine."""
        for shell in self._shells:
            exhaust(shell.step)

    def acts_of_time(self) -> list[Timer]:
        """Return the timers because of which something was written."""
        return [
            timer
            for timer, writes in self.writes.items()
            for write in writes.writes
            if IS_OF_TIME[timer](write.body["status"])
        ]

    def rest_of(self, timer: Timer) -> float | None:
        """Return in how many seconds a shell looks again; None: it does not."""
        return self._queues[timer].seconds_until_ready()

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Count (`CheckObserver`)."""

    def on_check_failed(self, check: str, why: Shortfall) -> None:
        """Count (`CheckObserver`)."""

    def _read(self, namespace: str, name: str) -> QueueUnit:
        raise AssertionError(f"there is no need to read {namespace}/{name}")

    def _report(self, _notice: Notice) -> None:
        pass


IS_OF_TIME: dict[Timer, Callable[[Json], bool]] = {
    Timer.BACKOFF: lambda status: status.get("phase") == "Enqueued",
    Timer.CHECKS: lambda status: "not Ready within" in status.get("message", ""),
    Timer.NODES: lambda status: status.get("message", "").startswith("no answer"),
    Timer.PODS: lambda status: status.get("message") == "Backoff due to running timeout",
    Timer.QUEUE: lambda _status: False,
}
"""How to recognize a write of each shell that only the time has caused."""


def knowing(unit: QueueUnit, queue: Queue, inactive: str) -> Engine:
    engine, _ = new_engine()
    engine.on_quota(build_quota("a", cpu=4))
    engine.on_queue(queue)
    if inactive:
        engine.on_admission_check(build_check(inactive, "False", "why"))
    engine.on_queue_unit(unit)
    return engine


@settings(max_examples=1000)
@given(
    units(),
    queues(),
    st.sampled_from(["", "", "c"]),
    st.sampled_from([(False, 0), (False, -3600), (False, 3600), (True, -1), (True, 0), (True, 1)]),
)
def test_a_shell_acts_exactly_when_its_unit_is_due(
    unit: QueueUnit, queue: Queue, inactive: str, asked: tuple[bool, int]
) -> None:
    engine = knowing(unit, queue, inactive)
    shells = Shells(engine)
    shells.clock.jump_wall_clock(_seconds_until(engine, *asked))
    now = shells.clock.now()
    due = next_due(engine, TIMEOUTS, Moment(0.0, now))
    timer = what_is_due(engine, KEY, TIMEOUTS, now)
    event(f"{None if due is None else due.timer.value}: {'due' if timer else 'not due'}")
    shells.look()
    assert shells.acts_of_time() == ([] if timer is None else [timer])
    if due is not None and timer is None:
        rest = min((due.at - now).total_seconds(), LONGEST_REST[due.timer])
        of_words = {min(rest, ACTIVITY_SECONDS)} if due.timer is Timer.CHECKS else set()
        assert shells.rest_of(due.timer) in {rest, *of_words}


def _seconds_until(engine: Engine, is_about_an_end: bool, seconds: int) -> float:
    """Return how far the clock is set: from now, or from when the unit is due."""
    due = next_due(engine, TIMEOUTS, Moment(0.0, EPOCH)) if is_about_an_end else None
    return seconds if due is None else (due.at - EPOCH).total_seconds() + seconds


@settings(max_examples=300)
@given(units(), queues(), st.floats(0.0, 1.0))
def test_nothing_is_due_before_what_is_next(unit: QueueUnit, queue: Queue, part: float) -> None:
    engine, moment = knowing(unit, queue, ""), Moment(0.0, EPOCH)
    due = next_due(engine, TIMEOUTS, moment)
    if due is None:
        assert what_is_due(engine, KEY, TIMEOUTS, EPOCH + timedelta(days=999)) is None
    elif due.at > EPOCH:
        before = min(EPOCH + part * (due.at - EPOCH), due.at - timedelta(microseconds=1))
        assert what_is_due(engine, KEY, TIMEOUTS, before) is None


@settings(max_examples=6)
@given(seed=st.integers(0, 10_000))
def test_a_queue_is_due_when_its_rest_is_over(seed: int) -> None:
    town = Town(seed)
    for _ in range(60):
        town.act()
        twin = town.engine.fork()
        for name in NAMES:
            decision = twin.decide_next(name, town.workers.now, town.wall)
            if isinstance(decision, Rest):
                assert queue_due_at(twin, name) == decision.until
