"""Changes by time alone: each rule at its boundaries, and the next event of a fork."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Dequeue, Moment, Rest, WriteFailure
from queue_scheduler.engine.deadlines import (
    ACTIVITY_SECONDS,
    DueAt,
    Timeouts,
    Timer,
    activity_reported_at,
    backoff_ends_at,
    checks_end_at,
    granted_at,
    is_due,
    moment_of,
    next_due,
    nodes_end_at,
    pods_end_at,
    queue_due_at,
    requeue_at,
    unit_timers,
    what_is_due,
)
from queue_scheduler.engine.engine import Engine
from shared_api.evictions import RUNNING_TIMEOUT_SECONDS
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit, RequeueState
from shared_api.timestamps import MAX_CLOCK_SKEW, parse_time, rfc3339
from shared_api.well_known_labels import ADMISSION_CHECK_TIMEOUT, MANAGED_BY, STOP_POLICY
from tests.properties.engine_kit import (
    build_check,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
    running,
)

NOW = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TIMEOUTS = Timeouts(checks_seconds=600.0, nodes_seconds=60.0)
UNIT = build_unit("u", "a")
WAITS_FOR_PODS = "WaitForPodsRunning"


def at(seconds: float) -> Timestamp:
    """Return the time this many seconds after `NOW`, as objects have it."""
    return rfc3339(NOW + timedelta(seconds=seconds))


def condition(kind: str, status: str, since: Timestamp | None, reason: str = "") -> Condition:
    return Condition(type=kind, status=status, reason=reason, last_transition_time=since)


EVICTED = (condition("Evicted", "True", at(0)),)


def created(unit: QueueUnit, when: str) -> QueueUnit:
    return replace(unit, metadata=replace(unit.metadata, creation_timestamp=Timestamp(when)))


def in_backoff(until: str | None, version: int = 2) -> QueueUnit:
    state = RequeueState(count=1, requeue_at=None if until is None else Timestamp(until))
    return changed(UNIT, version, "TimeoutBackoff", requeue_state=state)


def reserved(**status: Any) -> QueueUnit:
    status = {
        "last_allocate_time": at(0),
        "admission_checks": (AdmissionCheckState(name="c"),),
    } | status
    return changed(UNIT, 2, "Reserved", **status)


def asking(**status: Any) -> QueueUnit:
    return changed(UNIT, 2, "SchedReady", **{"last_allocate_time": at(0), **status})


def awaited(phase: str = "Dequeued", *, unit: QueueUnit = UNIT, **status: Any) -> QueueUnit:
    waits = (condition("PodsReady", "False", at(0), WAITS_FOR_PODS),)
    more = {"last_allocate_time": at(0), "conditions": waits, **status}
    return changed(unit, 2, phase, **more)


def knowing(*units: QueueUnit, **queue: Any) -> Engine:
    """Return an engine with queue and quota `a`, the check `c` in the queue, and these units."""
    engine, _ = new_engine()
    engine.on_quota(build_quota("a", cpu=4))
    checks = (AdmissionCheckReference(name="c"),)
    engine.on_queue(build_queue("a", **{"admission_checks": checks, **queue}))
    for unit in units:
        engine.on_queue_unit(unit)
    return engine


def due_of(engine: Engine, now: datetime = NOW) -> list[DueAt]:
    return list(unit_timers(engine, TIMEOUTS, now))


# --- since when -----------------------------------------------------------------------------------

FAR = at(MAX_CLOCK_SKEW.total_seconds() + 1)
"""Further in the future than clocks may differ."""


@pytest.mark.parametrize(
    ("allocated", "reserved_since", "born", "want"),
    [
        pytest.param(at(-1), at(-2), at(-3), -1, id="the last allocation is best"),
        pytest.param(None, at(-2), at(-3), -2, id="without it the condition"),
        pytest.param("no time", None, at(-3), -3, id="without both its creation"),
        pytest.param(FAR, at(-2), at(-3), -2, id="a time in the future was edited by hand"),
        pytest.param(at(59), at(-2), at(-3), 59, id="a clock that is slightly ahead"),
        pytest.param("", None, "", 0, id="no time at all: now"),
    ],
)
def test_since_when_a_unit_has_its_quota(
    allocated: str | None, reserved_since: Timestamp | None, born: str, want: int
) -> None:
    conditions = (condition("QuotaReserved", "True", reserved_since),)
    unit = changed(UNIT, 2, "Dequeued", last_allocate_time=allocated, conditions=conditions)
    assert granted_at(created(unit, born), NOW) == NOW + want * SECOND


# --- one rule each --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "want"),
    [
        pytest.param(at(100), NOW + 100 * SECOND, id="its time"),
        pytest.param(at(-100), NOW - 100 * SECOND, id="long over"),
        pytest.param("2026-11-01T12:00:00+02:00", NOW, id="another zone"),
        pytest.param("9999-12-31T23:59:59Z", parse_time("9999-12-31T23:59:59Z"), id="far away"),
        pytest.param(None, None, id="none"),
        pytest.param("", None, id="an empty one"),
        pytest.param("2026-11-01T12:00:00", None, id="without a zone"),
        pytest.param("soon", None, id="no time"),
        pytest.param("9999-12-31T23:59:59-14:00", None, id="after all years"),
    ],
)
def test_a_backoff_ends_when_the_unit_says(until: str | None, want: datetime | None) -> None:
    assert backoff_ends_at(in_backoff(until)) == want


def test_a_backoff_without_a_requeue_state_names_no_time() -> None:
    assert backoff_ends_at(changed(UNIT, 2, "TimeoutBackoff")) is None


@pytest.mark.parametrize(
    ("timeout", "want"),
    [
        pytest.param(60.0, NOW + 60 * SECOND, id="a minute"),
        pytest.param(0.0, None, id="0: forever"),
        pytest.param(0.5, NOW + SECOND / 2, id="half a second"),
    ],
)
def test_checks_have_their_time_from_the_reservation(timeout: float, want: datetime | None) -> None:
    assert checks_end_at(reserved(), timeout, NOW) == want


@pytest.mark.parametrize(
    ("allocated", "admitted", "want"),
    [
        pytest.param(at(-5), condition("Admitted", "True", at(-2)), 58, id="since it was admitted"),
        pytest.param(at(-5), condition("Admitted", "False", at(-2)), 55, id="it is not admitted"),
        pytest.param(at(-5), condition("Admitted", "True", None), 55, id="it does not say when"),
        pytest.param(at(-5), condition("Admitted", "True", FAR), 55, id="an edit"),
        pytest.param(None, condition("Admitted", "True", at(-2)), 58, id="no allocation"),
        pytest.param("nonsense", condition("Admitted", "True", FAR), 0, id="no time: it is over"),
        pytest.param(None, condition("Other", "True", at(-2)), 0, id="nothing: it is over"),
    ],
)
def test_nodes_have_their_time_from_the_admission(
    allocated: str | None, admitted: Condition, want: int
) -> None:
    unit = asking(last_allocate_time=allocated, conditions=(admitted,))
    assert nodes_end_at(unit, TIMEOUTS.nodes_seconds, NOW) == NOW + want * SECOND


def test_pods_have_ten_minutes_from_the_grant() -> None:
    assert pods_end_at(awaited(), NOW) == NOW + 600 * SECOND
    assert RUNNING_TIMEOUT_SECONDS == 600.0


@pytest.mark.parametrize(
    ("count", "asked", "want"),
    [
        pytest.param(0, None, 10, id="the first time"),
        pytest.param(1, None, 20, id="twice as long"),
        pytest.param(99, None, 900, id="up to a quarter of an hour"),
        pytest.param(0, 45, 45, id="as long as a check wants"),
        pytest.param(3, 45, 80, id="which wants less"),
    ],
)
def test_a_requeued_unit_waits_longer_each_time(count: int, asked: int | None, want: int) -> None:
    said = AdmissionCheckState(name="c", state="Retry", requeue_after_seconds=asked)
    state = RequeueState(count=count)
    unit = reserved(admission_checks=(said,), requeue_state=state)
    assert requeue_at(unit, NOW) == NOW + want * SECOND
    spread = (requeue_at(unit, NOW, random.Random(1)) - NOW).total_seconds()
    assert asked == want or spread == pytest.approx(want, rel=0.1)


def test_inactive_checks_are_named_after_half_a_minute() -> None:
    assert activity_reported_at(5.0) == 5.0 + ACTIVITY_SECONDS == 35.0


@pytest.mark.parametrize(
    ("left", "want"),
    [
        pytest.param(timedelta(microseconds=1), False, id="a moment before"),
        pytest.param(timedelta(0), True, id="exactly"),
        pytest.param(-SECOND, True, id="after"),
    ],
)
def test_whether_a_time_has_come(left: timedelta, *, want: bool) -> None:
    assert is_due(NOW + left, NOW) is want
    assert not is_due(None, NOW)


# --- which rule applies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "timer", "seconds"),
    [
        pytest.param(in_backoff(at(100)), Timer.BACKOFF, 100, id="backoff"),
        pytest.param(reserved(), Timer.CHECKS, 600, id="checks"),
        pytest.param(asking(), Timer.NODES, 60, id="nodes"),
        pytest.param(awaited(), Timer.PODS, 600, id="pods"),
        pytest.param(awaited("SchedSucceed"), Timer.PODS, 600, id="pods, after nodes"),
    ],
)
def test_a_timer_ends_in_its_second_and_not_before(
    unit: QueueUnit, timer: Timer, seconds: int
) -> None:
    engine, end = knowing(unit), NOW + seconds * SECOND
    assert due_of(engine) == [DueAt(timer, "ns/u", end)]
    for now, want in ((end - SECOND, None), (end, timer), (end + SECOND, timer)):
        assert what_is_due(engine, "ns/u", TIMEOUTS, now) is want
    assert what_is_due(engine, "ns/other", TIMEOUTS, end) is None


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(in_backoff(at(100)), None, id="backoff: its end is where it was"),
        pytest.param(reserved(), None, id="checks: the grant lies ahead; its creation counts"),
        pytest.param(awaited(), None, id="pods: the same"),
        pytest.param(asking(), Timer.NODES, id="nodes: no time is left, so none is waited for"),
    ],
)
def test_a_clock_set_back_an_hour(unit: QueueUnit, want: Timer | None) -> None:
    engine, earlier = knowing(created(unit, at(-3600 - 5))), NOW - 3600 * SECOND
    assert what_is_due(engine, "ns/u", TIMEOUTS, earlier) is want
    assert what_is_due(engine, "ns/u", TIMEOUTS, NOW) is None, "it is right again"


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(UNIT, id="in the queue"),
        pytest.param(reserved(admission_checks=()), id="it lacks an entry: it gets one at once"),
        pytest.param(
            reserved(admission_checks=(AdmissionCheckState(name="c", state="Ready"),)),
            id="all are ready: it goes on at once",
        ),
        pytest.param(
            reserved(admission_checks=(AdmissionCheckState(name="c", state="Retry"),)),
            id="one refuses: it is requeued at once",
        ),
        pytest.param(reserved(conditions=EVICTED), id="it leaves"),
        pytest.param(asking(conditions=EVICTED), id="asks and leaves"),
        pytest.param(changed(UNIT, 2, "SchedFailed"), id="refused nodes: it is requeued at once"),
        pytest.param(changed(UNIT, 2, "Dequeued", last_allocate_time=at(0)), id="not waited for"),
        pytest.param(
            awaited(unit=build_unit("u", "a", annotations={MANAGED_BY: "controllers"})),
            id="the controllers have a clock of their own",
        ),
        pytest.param(awaited(unit=build_unit("u", "a", active=False)), id="it is asked to leave"),
        pytest.param(running(UNIT, 2, since=at(0)), id="it runs"),
        pytest.param(changed(UNIT, 2, "Succeed"), id="it has ended"),
    ],
)
def test_time_is_irrelevant(unit: QueueUnit) -> None:
    engine = knowing(unit)
    assert due_of(engine) == []
    assert what_is_due(engine, "ns/u", TIMEOUTS, NOW + timedelta(days=999)) is None


def test_a_queue_has_its_own_timeout_for_checks() -> None:
    for said, seconds in (("90s", 90), ("", 600)):
        engine = knowing(reserved(), annotations={ADMISSION_CHECK_TIMEOUT: said})
        assert due_of(engine) == [DueAt(Timer.CHECKS, "ns/u", NOW + seconds * SECOND)]
    for_ever = knowing(reserved(), annotations={ADMISSION_CHECK_TIMEOUT: "0"})
    assert due_of(for_ever) == []


def test_inactive_checks_have_the_same_timeout() -> None:
    ready = (AdmissionCheckState(name="c", state="Ready"),)
    engine = knowing(reserved(admission_checks=ready))
    engine.on_admission_check(build_check("c", "False", "why"))
    assert [due.timer for due in due_of(engine)] == [Timer.CHECKS]


@pytest.mark.parametrize("unit", [reserved(), asking()], ids=["checks", "nodes"])
def test_in_a_stopped_queue_nothing_is_waited_for(unit: QueueUnit) -> None:
    assert due_of(knowing(unit, annotations={STOP_POLICY: "Hold"})) == []


@pytest.mark.parametrize(
    ("unit", "is_over"),
    [
        pytest.param(in_backoff(None), True, id="backoff"),
        pytest.param(asking(last_allocate_time=None), True, id="nodes"),
        pytest.param(created(reserved(last_allocate_time=None), ""), False, id="checks"),
        pytest.param(created(awaited(last_allocate_time=None), ""), False, id="pods"),
    ],
)
def test_without_any_time(unit: QueueUnit, *, is_over: bool) -> None:
    engine = knowing(unit)
    for now in (NOW, NOW + timedelta(days=999)):
        assert (what_is_due(engine, "ns/u", TIMEOUTS, now) is not None) is is_over


# --- the next event -------------------------------------------------------------------------------


def test_the_earliest_end_is_next_and_without_ends_there_is_none() -> None:
    engine, moment = knowing(), Moment(50.0, NOW)
    assert next_due(engine, TIMEOUTS, moment) is None
    for name, until in (("v", 30), ("u", 20), ("w", 20)):
        unit = build_unit(name, "a", version=2)
        state = RequeueState(requeue_at=at(until))
        engine.on_queue_unit(changed(unit, 3, "TimeoutBackoff", requeue_state=state))
    assert next_due(engine, TIMEOUTS, moment) == DueAt(Timer.BACKOFF, "ns/u", NOW + 20 * SECOND)


def test_a_resting_queue_is_asked_when_its_rest_is_over() -> None:
    engine = knowing(UNIT, admission_checks=())
    decision = engine.decide_next("a", 50.0, NOW)
    assert isinstance(decision, Dequeue)
    engine.on_write_failed(decision, WriteFailure.REJECTED, retry_at=57.0)
    assert engine.decide_next("a", 50.0, NOW) == Rest(until=57.0)
    assert (queue_due_at(engine, "a"), queue_due_at(engine, "none")) == (57.0, None)
    due = next_due(engine, TIMEOUTS, Moment(50.0, NOW))
    assert due == DueAt(Timer.QUEUE, "a", NOW + 7 * SECOND)
    overdue = next_due(engine, TIMEOUTS, Moment(99.0, NOW))
    assert overdue == DueAt(Timer.QUEUE, "a", NOW), "it is asked at once"


def test_both_clocks_advance_together_and_never_go_back() -> None:
    moment = Moment(50.0, NOW)
    assert moment_of(DueAt(Timer.PODS, "u", NOW + SECOND), moment) == Moment(51.0, NOW + SECOND)
    assert moment_of(DueAt(Timer.PODS, "u", NOW - SECOND), moment) == moment


def test_a_forecast_goes_from_event_to_event() -> None:
    """As in the module's docstring: a unit returns from its backoff, and starts."""
    engine = knowing(in_backoff(at(100)), admission_checks=())
    twin, moment, story = engine.fork(), Moment(0.0, NOW), list[tuple[float, str]]()
    while (due := next_due(twin, TIMEOUTS, moment)) is not None and due.at <= NOW + 999 * SECOND:
        moment = moment_of(due, moment)
        assert due.timer is Timer.BACKOFF
        for queue in twin.on_queue_unit(changed(in_backoff(None), 3, "Enqueued")):
            decision = twin.decide_next(queue, moment.now, moment.wall)
            assert isinstance(decision, Dequeue)
            story.append((moment.now, decision.unit))
    assert story == [(100.0, "ns/u")]
    assert due_of(engine), "the original engine is unchanged"
