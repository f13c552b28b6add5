"""Decisions about a job whose pods are not known."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_controllers.decision.actions import PatchUnit, RecordJobEvent
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import NO_PODS, PodCounts
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.decision.pending import (
    PREVIEW_REQUEUE_SECONDS,
    UNKNOWN_REQUEUE_SECONDS,
    UNKNOWN_SECONDS,
)
from queue_controllers.jobframework.generic_job import AWAITS_PREVIEW, JobFacts, StatusFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import ACTIVE, MAX_EXEC_TIME
from tests.job_situations import (
    ADMITTED,
    EVICTED,
    NOW,
    RUNS,
    SUCCEEDED,
    TEN,
    TWO_RUNNING,
    action_names,
    facts,
    look,
    unit,
)

AGE = 3.0
WHY = "its pattern is missing"


def unknown(age: float | None = AGE, **changes: Any) -> JobFacts:
    made = facts(pod_sets=(), unknown_demand=WHY, **changes)
    created = "" if age is None else NOW.after(-age).stamp
    meta = replace(made.metadata, creation_timestamp=Timestamp(created))
    return replace(made, metadata=meta)


def test_a_new_one_is_held_without_an_event() -> None:
    decision = look(unknown(suspended=False, status=StatusFacts(is_empty=True)))
    assert action_names(decision.actions) == ["suspend"]
    decision = look(unknown())
    assert action_names(decision.actions) == []
    assert decision.requeue_after_seconds == UNKNOWN_SECONDS - AGE


@pytest.mark.parametrize("age", [AGE, 1000.0, None])
def test_one_that_is_being_previewed_is_held_without_an_event(age: float | None) -> None:
    asked = replace(unknown(age), pod_sets=facts().pod_sets, unknown_demand=AWAITS_PREVIEW)
    decision = look(replace(asked, suspended=False, status=StatusFacts(is_empty=True)))
    assert action_names(decision.actions) == ["suspend"]
    decision = look(asked)
    assert action_names(decision.actions) == []
    assert decision.requeue_after_seconds == PREVIEW_REQUEUE_SECONDS
    assert action_names(look(asked, unit()).actions) == []


@pytest.mark.parametrize("age", [UNKNOWN_SECONDS, 1000.0, None])
def test_it_is_reported_once_when_that_takes_long(age: float | None) -> None:
    decision = look(unknown(age))
    assert action_names(decision.actions) == ["event DemandUnknown"]
    (event,) = decision.actions
    assert isinstance(event, RecordJobEvent)
    assert event.message.endswith(WHY)
    assert decision.requeue_after_seconds == UNKNOWN_REQUEUE_SECONDS
    assert action_names(look(unknown(age), memory=decision.memory).actions) == []


def test_one_that_runs_already_is_not_stopped_for_it() -> None:
    running = unknown(suspended=False, status=RUNS)
    assert action_names(look(running, pods=TWO_RUNNING).actions) == []
    arrived = look(running, pods=TWO_RUNNING, memory=JobMemory(arrived=True))
    assert action_names(arrived.actions) == ["suspend"]


@pytest.mark.parametrize(
    ("phase", "suspended", "want"),
    [
        pytest.param("Enqueued", True, [], id="in the queue"),
        pytest.param("Enqueued", False, ["suspend"], id="in the queue, and resumed by others"),
        pytest.param("Dequeued", True, [], id="admitted: not released"),
        pytest.param("Running", False, [], id="running: runs on"),
    ],
)
def test_a_unit_stays_as_it_is(phase: str, suspended: bool, want: list[str]) -> None:
    assert action_names(look(unknown(suspended=suspended), unit(phase)).actions) == want


READY = Condition(type="PodsReady", status="True", reason="x", last_transition_time=TEN)
LATE = ["write status", "RecordUnitEvent"]


def ten_minutes_allowed(**status: Any) -> QueueUnit:
    """Return a unit whose pods have run since 09:50, and may for ten minutes."""
    of = unit("Running", admissions=ADMITTED, **status)
    spec = replace(of.spec, maximum_execution_time_seconds=600)
    return replace(of, spec=spec)


@pytest.mark.parametrize(
    ("suspended", "of", "want"),
    [
        pytest.param(False, EVICTED, ["suspend", "event Preempted"], id="evicted: stopped"),
        pytest.param(True, EVICTED, ["move Enqueued", "event Preempted"], id="and free"),
        pytest.param(False, unit("Running", active=False), LATE, id="deactivated"),
        pytest.param(True, unit("Reserved", active=False), LATE, id="before its start"),
    ],
)
def test_an_evicted_one_is_released(suspended: bool, of: QueueUnit, want: list[str]) -> None:
    pods = NO_PODS if suspended else TWO_RUNNING
    assert action_names(look(unknown(suspended=suspended), of, pods=pods).actions) == want


@pytest.mark.parametrize(("ran", "want"), [(590.0, []), (600.0, LATE)])
def test_its_execution_time_counts(ran: float, want: list[str]) -> None:
    marks = {MAX_EXEC_TIME: "600"}
    job = unknown(age=1000.0, suspended=False, status=RUNS, annotations=marks)
    of = ten_minutes_allowed(conditions=(READY,))
    memory = JobMemory(reported_events=frozenset({"DemandUnknown"}))
    moment = NOW.after(ran - 600.0)
    decision = look(job, of, pods=TWO_RUNNING, memory=memory, moment=moment)
    assert action_names(decision.actions) == want
    assert decision.requeue_after_seconds == (0.0 if want else 10.0)


@pytest.mark.parametrize(
    ("changes", "pods", "want"),
    [
        pytest.param({}, NO_PODS, LATE, id="not released"),
        pytest.param({"suspended": False}, NO_PODS, LATE, id="released"),
        pytest.param({"suspended": False, "status": RUNS}, TWO_RUNNING, [], id="it runs"),
    ],
)
def test_it_holds_up_no_other_for_longer_than_a_start_may_take(
    changes: dict[str, Any], pods: PodCounts, want: list[str]
) -> None:
    job = unknown(age=1000.0, **changes)
    of = unit("Dequeued", admissions=ADMITTED, last_allocate_time=NOW.stamp)
    settings = JobSettings(running_timeout_seconds=20)
    first = look(job, of, pods=pods, settings=settings)
    assert first.requeue_after_seconds == (20.0 if want else UNKNOWN_REQUEUE_SECONDS)
    later = NOW.after(20.0)
    second = look(job, of, pods=pods, settings=settings, memory=first.memory, moment=later)
    assert action_names(second.actions) == want


@pytest.mark.parametrize("phase", ["Enqueued", "Reserved", "Dequeued"])
def test_fields_that_its_templates_might_set_are_left_alone(phase: str) -> None:
    """They may set its quota, its queue and its priority."""
    of = unit(phase, admissions=ADMITTED)
    labels = {"quota.scheduling.koordinator.sh/name": "silver"}
    meta = replace(of.metadata, labels=labels)
    of = replace(of, metadata=meta, spec=replace(of.spec, queue="silver", priority=7))
    assert action_names(look(unknown(), of).actions) == []


def test_it_is_deactivated_in_the_queue() -> None:
    job = unknown(annotations={ACTIVE: "false"})
    (write,) = look(job, unit("Enqueued")).actions
    assert isinstance(write, PatchUnit)
    assert write.body == {"spec": {"active": False}}


def test_its_end_needs_no_demand() -> None:
    ended = unknown(status=StatusFacts(outcome=SUCCEEDED))
    assert action_names(look(ended, unit("Running")).actions) == ["move Succeed"]
