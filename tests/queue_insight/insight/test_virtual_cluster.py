"""What is outside of an engine, played in virtual time."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf

import pytest
from msgspec.structs import replace

from queue_insight.insight.trials import SpentError
from queue_insight.insight.virtual_cluster import EventKind
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.engine.deadlines import Timeouts
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.objects.queue_unit import AdmissionCheckState
from shared_api.testing.virtual_clock import EPOCH
from shared_api.well_known_labels import (
    ENABLE_PREEMPTION,
    EVICTION_DELAY,
    EVICTIONS_PER_HOUR,
    PREEMPT_MIN_RUNTIME,
    PREEMPT_RUNNING,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import build_pod, build_queue, changed, declaring
from tests.queue_insight.insight.virtual_town import RUN, Story, job, town_engine
from tests.reserved_world import build_reservation, build_spec, schedules_at

TIMEOUTS = Timeouts(checks_seconds=300.0, nodes_seconds=60.0)


def test_a_job_arrives_is_admitted_runs_and_ends() -> None:
    story = Story(town_engine(), [(5.0, job("x"))], start_seconds=2.0, write_seconds=1.0)
    want = ["5 x arrived", "6 x admitted", "8 x started", "108 x finished"]
    assert story.run() == want
    assert story.cluster.engine.record("ns/x") is None
    assert story.cluster.engine.usage.charge_of(story.events[0].unit.metadata.uid) is None


def test_a_job_that_does_not_fit_waits_for_an_end() -> None:
    story = Story(town_engine(cpu=4), [(0.0, job("x", 3)), (1.0, job("y", 2))])
    assert story.run()[-3:] == ["100 y admitted", "100 y started", "200 y finished"]


def test_a_job_that_would_run_into_a_window_waits_until_it_is_over() -> None:
    engine = town_engine()
    start = f"{EPOCH + timedelta(seconds=50):%Y-%m-%dT%H:%M:%SZ}"
    reservation = build_reservation(spec=build_spec(start, duration="100s", margin="0"))
    engine.on_schedules(schedules_at(reservation, int(EPOCH.timestamp())))
    engine.on_reservation(reservation)
    arrivals = [(0.0, declaring(job("long"), 51)), (0.0, declaring(job("short"), 50))]
    story = Story(engine, arrivals, seconds={"short": 50.0})
    story.run()
    assert story.of("short")[1] == "0 admitted"
    assert story.of("long")[1] == "150 admitted"


def test_jobs_that_arrive_together_are_known_before_one_is_admitted() -> None:
    engine = town_engine(build_queue("a", "Priority"), cpu=1)
    story = Story(engine, [(0.0, job("low")), (0.0, job("high", priority=1))])
    story.run()
    assert (story.of("high")[1], story.of("low")[1]) == ("0 admitted", "100 admitted")


def test_now_and_wall_advance_together() -> None:
    engine = town_engine()
    story = Story(engine, [(1007.5, job("x"))], moment=Moment(1000.0, EPOCH))
    story.run(1010.0)
    assert story.events[0].unit.metadata.creation_timestamp == "2026-11-01T10:00:07Z"
    assert story.cluster.wall == EPOCH + timedelta(seconds=10)


def test_no_unit_is_decided_once_the_result_is_no_longer_wanted() -> None:
    story = Story(town_engine(), [(0.0, job("x")), (0.0, job("y"))])
    looks = iter((False, False, True))
    with pytest.raises(SpentError):
        story.cluster.run(is_over=lambda: next(looks))
    assert story.of("y") == ["0 arrived"], "the look after the decision about x says so"
    assert story.cluster.engine.units.records["ns/y"].state is UnitState.WAITING


def test_a_run_stops_at_its_time_and_goes_on() -> None:
    story = Story(town_engine(), [(0.0, job("x")), (50.0, job("y"))])
    assert story.run(49.0)[-1] == "0 x started"
    assert story.run(50.0)[-1] == "50 y started"
    assert story.run()[-2:] == ["100 x finished", "150 y finished"]


def test_a_victim_stops_and_runs_anew_when_there_is_room() -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    engine = town_engine(build_queue("a", "Priority", annotations=marks), cpu=1)
    arrivals = [(0.0, job("low")), (10.0, job("high", priority=1))]
    story = Story(engine, arrivals, stop_seconds=30.0)
    story.run()
    assert story.of("low")[3:] == [
        "10 evicted", "40 freed", "140 admitted", "140 started", "240 finished",
    ]  # fmt: skip
    assert story.of("high") == ["10 arrived", "40 admitted", "40 started", "140 finished"]


@pytest.mark.parametrize(("seconds", "want"), [
    (30.0, ["0 admitted", "30 started", "130 finished"]),
    # 300 s for the checks, 10 s of backoff, then twice as long.
    (None, ["0 admitted", "300 freed", "310 admitted", "610 freed", "630 admitted"]),
], ids=["they are ready in time", "they never answer"])  # fmt: skip
def test_checks_are_waited_for(seconds: float | None, want: list[str]) -> None:
    queue = build_queue("a", "FIFO", admission_checks=(AdmissionCheckReference(name="c"),))
    story = Story(town_engine(queue), [(0.0, job("x"))], check_seconds=seconds, timeouts=TIMEOUTS)
    story.run(640.0)
    assert story.of("x")[1:] == want


@pytest.mark.parametrize(("seconds", "want"), [
    (30.0, ["0 admitted", "30 started", "130 finished"]),
    (None, ["0 admitted", "60 freed", "70 admitted", "130 freed"]),
], ids=["they are reserved in time", "there are none"])  # fmt: skip
def test_nodes_are_waited_for(seconds: float | None, want: list[str]) -> None:
    engine = town_engine(strict=StrictMode(is_on=True))
    story = Story(engine, [(0.0, job("x"))], node_seconds=seconds, timeouts=TIMEOUTS)
    story.run(140.0)
    assert story.of("x")[1:] == want


def test_a_queue_that_waits_for_pods_starts_one_job_after_the_other() -> None:
    queue = build_queue("a", "FIFO", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    story = Story(town_engine(queue), [(0.0, job("x")), (0.0, job("y"))], start_seconds=7.0)
    story.run()
    assert story.of("y")[1:3] == ["7 admitted", "14 started"]


def test_a_job_whose_pods_never_run_leaves_a_queue_that_waits_for_them() -> None:
    queue = build_queue("a", "FIFO", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    arrivals = [(0.0, job("x", managed=False))]
    story = Story(town_engine(queue), arrivals, start_seconds=inf, stop_seconds=5.0)
    story.run(620.0)
    assert story.of("x")[1:] == ["0 admitted", "600 evicted", "605 freed", "615 admitted"]


def test_a_maximum_execution_time_ends_a_longer_run() -> None:
    story = Story(town_engine(), [(0.0, declaring(job("x"), 40))])
    story.run()
    assert story.of("x")[-1] == "40 finished"
    assert story.events[-1].unit.status.phase == "Failed"


def test_what_a_victim_has_run_counts_against_its_maximum_execution_time() -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    engine = town_engine(build_queue("a", "Priority", annotations=marks), cpu=1)
    arrivals = [(0.0, declaring(job("low"), 40)), (10.0, job("high", priority=1))]
    story = Story(engine, arrivals)
    story.run()
    assert story.of("low")[3:] == [
        "10 evicted", "10 freed", "110 admitted", "110 started", "140 finished",
    ]  # fmt: skip


def test_an_event_has_the_object_after_it_and_the_decision() -> None:
    story = Story(town_engine(), [(0.0, job("x", 2))])
    story.run()
    kinds = [(event.kind, event.unit.status.phase) for event in story.events]
    assert kinds == [
        (EventKind.ARRIVED, "Enqueued"),
        (EventKind.ADMITTED, "Dequeued"),
        (EventKind.STARTED, "Running"),
        (EventKind.FINISHED, "Succeed"),
    ]
    decisions = [event.decision is not None for event in story.events]
    assert decisions == [False, True, False, False]
    running = story.events[2].unit.status.admissions[0]
    assert (running.replicas, running.running) == (2, 2)


# --- a fork of an engine in the middle of things ------------------------------------------------


def test_a_job_that_ran_before_goes_on_from_there() -> None:
    before = Story(town_engine(), [(0.0, job("x"))])
    before.run(60.0)
    moment = Moment(60.0, before.cluster.wall)
    after = Story(before.cluster.engine.fork(), moment=moment)
    assert after.run() == ["100 x finished"]
    assert before.cluster.engine.record("ns/x") is not None


def test_an_admission_that_was_being_written_is_decided_again() -> None:
    before = Story(town_engine(), [(0.0, job("x"))], write_seconds=10.0)
    before.run(5.0)
    after = Story(before.cluster.engine.fork(), moment=Moment(5.0, before.cluster.wall))
    assert after.run() == ["5 x admitted", "5 x started", "105 x finished"]


def test_a_victim_that_was_asked_to_leave_leaves() -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    engine = town_engine(build_queue("a", "Priority", annotations=marks), cpu=1)
    arrivals = [(0.0, job("low")), (10.0, job("high", priority=1))]
    before = Story(engine, arrivals, stop_seconds=1000.0)
    before.run(10.0)
    twin = before.cluster.engine.fork()
    after = Story(twin, moment=Moment(10.0, before.cluster.wall), stop_seconds=20.0)
    assert after.run()[:2] == ["30 low freed", "30 high admitted"]


def test_a_round_whose_requests_were_being_written_is_made_again() -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    engine = town_engine(build_queue("a", "Priority", annotations=marks), cpu=1)
    before = Story(engine, [(0.0, job("low"))])
    before.run(10.0)
    engine.on_queue_unit(job("high", priority=1, version=50))
    wall = before.cluster.wall
    while not engine.rounds.open_writes():
        engine.decide_next("a", 10.0, wall)
    after = Story(engine.fork(), moment=Moment(10.0, wall))
    assert after.run()[:3] == ["10 low evicted", "10 low freed", "10 high admitted"]


def test_the_pods_of_a_job_end_with_it() -> None:
    before = Story(town_engine(cpu=1), [(0.0, job("x"))])
    before.run(50.0)
    engine = before.cluster.engine
    engine.on_pod(build_pod("p", unit="ns/x", created=36_010))
    arrivals = [(60.0, job("y"))]
    after = Story(engine.fork(), arrivals, moment=Moment(50.0, before.cluster.wall))
    after.run()
    assert after.of("y")[1] == "100 admitted"


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
def test_a_drained_queue_is_emptied(phase: str) -> None:
    start = {"Dequeued": inf, "Running": 0.0}[phase]
    before = Story(town_engine(), [(0.0, job("x"))], start_seconds=start)
    before.run(10.0)
    engine = before.cluster.engine
    engine.on_queue(build_queue("a", "FIFO", annotations={STOP_POLICY: "HoldAndDrain"}))
    after = Story(engine.fork(), moment=Moment(10.0, before.cluster.wall), stop_seconds=3.0)
    assert after.run() == ["10 x evicted", "13 x freed"]


def test_a_start_in_the_future_is_not_believed() -> None:
    before = Story(town_engine(), [(0.0, job("x"))])
    before.run(60.0)
    early = EPOCH - timedelta(days=1)
    after = Story(before.cluster.engine.fork(), moment=Moment(60.0, early))
    assert after.run() == [f"{60 + RUN:g} x finished"]


def test_a_unit_that_was_made_inactive_is_evicted_and_stays_out() -> None:
    before = Story(town_engine(), [(0.0, job("x"))])
    before.run(10.0)
    engine = before.cluster.engine
    record = engine.record("ns/x")
    assert record is not None
    spec = replace(record.unit.spec, active=False)
    meta = replace(record.unit.metadata, resource_version="99")
    engine.on_queue_unit(replace(record.unit, spec=spec, metadata=meta))
    after = Story(engine.fork(), moment=Moment(10.0, before.cluster.wall), stop_seconds=3.0)
    assert after.run() == ["10 x evicted", "13 x freed"]


@pytest.mark.parametrize(("state", "phase", "want"), [
    ("Retry", "Reserved", ["10 freed", "20 admitted"]),
    ("Rejected", "Running", ["10 evicted", "13 freed", "23 admitted"]),
    ("Ready", "Reserved", ["10 started"]),
], ids=["takes a place back", "has a job stopped", "lets a unit go on"])  # fmt: skip
def test_what_a_check_has_said_counts(state: str, phase: str, want: list[str]) -> None:
    queue = build_queue("a", "FIFO", admission_checks=(AdmissionCheckReference(name="c"),))
    answers = None if phase == "Reserved" else 0.0
    before = Story(town_engine(queue), [(0.0, job("x"))], check_seconds=answers)
    before.run(10.0)
    engine = before.cluster.engine
    record = engine.record("ns/x")
    assert record is not None
    assert record.unit.status.phase == phase
    said = AdmissionCheckState(name="c", state=state)
    engine.on_queue_unit(changed(record.unit, 99, admission_checks=(said,)))
    moment = Moment(10.0, before.cluster.wall)
    after = Story(engine.fork(), moment=moment, stop_seconds=3.0, check_seconds=None)
    assert [line.replace(" x", "") for line in after.run(29.0)] == want


def test_a_unit_that_was_refused_nodes_waits_in_backoff() -> None:
    before = Story(town_engine(strict=StrictMode(is_on=True)), [(0.0, job("x"))], node_seconds=None)
    before.run(10.0)
    engine = before.cluster.engine
    record = engine.record("ns/x")
    assert record is not None
    engine.on_queue_unit(changed(record.unit, 99, "SchedFailed"))
    after = Story(engine.fork(), moment=Moment(10.0, before.cluster.wall))
    assert after.run(21.0) == ["10 x freed", "20 x admitted", "20 x started"]


def test_accounts_are_kept_in_virtual_time() -> None:
    engine = town_engine()
    engine.usage.ledger = Ledger()
    story = Story(engine, [(5.0, job("x", 3)), (500.0, job("y", 1))], write_seconds=1.0)
    story.run()  # charged at 5, written at 6, runs to 106; the other one a hundred seconds as well
    ledger = engine.usage.ledger
    assert [line.used(ledger.second) for _, line in ledger] == [{"cpu": 4000 * 101}]


def test_without_accounts_no_time_is_told_in_virtual_time() -> None:
    engine = town_engine()
    story = Story(engine, [(5.0, job("x", 3))])
    told: list[datetime] = []
    setattr(engine, Engine.on_time.__name__, told.append)
    assert story.run()[-1] == "105 x finished"
    assert told == []


# --- guards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "want"),
    [(EVICTION_DELAY, "45s", 55), (PREEMPT_MIN_RUNTIME, "1m", 60), (EVICTIONS_PER_HOUR, "60", 10)],
)
def test_guards_delay_evictions_in_virtual_time(key: str, text: str, want: int) -> None:
    """`high` comes at second 10; the first of two units runs since second 0."""
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", key: text}
    engine = town_engine(build_queue("a", "Priority", annotations=marks), cpu=1)
    story = Story(engine, [(0.0, job("low")), (10.0, job("high", priority=1))])
    story.run()
    assert story.of("high")[:2] == ["10 arrived", f"{want} admitted"]
    assert f"{want} evicted" in story.of("low")


def test_a_rate_counts_in_virtual_time() -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", EVICTIONS_PER_HOUR: "60"}
    engine = town_engine(build_queue("a", "Priority", annotations=marks), cpu=2)
    engine.queue_state.limit_evictions(1)
    arrivals = [(0.0, job("one")), (0.0, job("two"))]
    arrivals += [(10.0, job("high", priority=1)), (20.0, job("next", priority=1))]
    story = Story(engine, arrivals, seconds={"one": 9999.0, "two": 9999.0, "high": 9999.0})
    story.run()
    assert story.of("high")[:2] == ["10 arrived", "10 admitted"]
    assert story.of("next")[:2] == ["20 arrived", "3610 admitted"]
