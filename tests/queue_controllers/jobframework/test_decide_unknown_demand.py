"""What is decided about a job of which nobody knows which pods it makes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_controllers.jobframework.actions import TellJob
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from queue_controllers.jobframework.job_view import JobMemory
from queue_controllers.jobframework.waiting import UNKNOWN_LOOK_SECONDS, UNKNOWN_SECONDS
from shared_api.objects.meta import Timestamp
from tests.job_situations import NOW, RUNS, SUCCEEDED, TWO_RUNNING, evicted, facts, look, told, unit

AGE = 3.0
WHY = "its pattern is missing"


def unknown(age: float | None = AGE, **changes: Any) -> JobFacts:
    made = facts(pod_sets=(), unknown_demand=WHY, **changes)
    created = "" if age is None else NOW.after(-age).stamp
    meta = replace(made.metadata, creation_timestamp=Timestamp(created))
    return replace(made, metadata=meta)


def test_a_young_one_is_held_without_a_word() -> None:
    decision = look(unknown(suspended=False, status=StatusFacts(is_empty=True)))
    assert told(decision.actions) == ["suspend"]
    decision = look(unknown())
    assert told(decision.actions) == []
    assert decision.look_again_seconds == UNKNOWN_SECONDS - AGE


@pytest.mark.parametrize("age", [UNKNOWN_SECONDS, 1000.0, None])
def test_it_is_told_once_when_that_takes_long(age: float | None) -> None:
    decision = look(unknown(age))
    assert told(decision.actions) == ["tell DemandUnknown"]
    (event,) = decision.actions
    assert isinstance(event, TellJob)
    assert event.message.endswith(WHY)
    assert decision.look_again_seconds == UNKNOWN_LOOK_SECONDS
    assert told(look(unknown(age), memory=decision.memory).actions) == []


def test_one_that_runs_already_is_not_stopped_for_it() -> None:
    running = unknown(suspended=False, status=RUNS)
    assert told(look(running, pods=TWO_RUNNING).actions) == []
    arrived = look(running, pods=TWO_RUNNING, memory=JobMemory(arrived=True))
    assert told(arrived.actions) == ["suspend"]


@pytest.mark.parametrize(
    ("phase", "suspended", "want"),
    [
        pytest.param("Enqueued", True, [], id="in line"),
        pytest.param("Enqueued", False, ["suspend"], id="in line, and resumed by somebody"),
        pytest.param("Dequeued", True, [], id="admitted: not released"),
        pytest.param("Running", False, [], id="running: goes on"),
    ],
)
def test_a_unit_stays_as_it_is(phase: str, suspended: bool, want: list[str]) -> None:
    assert told(look(unknown(suspended=suspended), unit(phase)).actions) == want


def test_who_is_asked_back_is_held() -> None:
    of = unit("Running", conditions=evicted())
    assert told(look(unknown(suspended=False), of).actions) == ["suspend"]


def test_its_end_needs_no_demand() -> None:
    ended = unknown(status=StatusFacts(outcome=SUCCEEDED))
    assert told(look(ended, unit("Running")).actions) == ["move Succeed"]
