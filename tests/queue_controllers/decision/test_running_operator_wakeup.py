"""When the operator of a released job is woken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import TouchJob
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory, Moment
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.well_known_labels import RELEASED_AT, TOUCHED_AT
from tests.job_situations import ADMITTED, JOB, RUNS, action_names, facts, look, unit

FORGETFUL = msgspec.structs.replace(JOB, nudge_seconds=30.0)
RELEASE = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)
SHUT = Ownership(managed=False, reason="somebody else's")


def at(seconds: float) -> Moment:
    return Moment(monotonic=1.0, wall=RELEASE).after(seconds)


def released(touched: float | None = None, **changes: Any) -> JobFacts:
    annotations = {RELEASED_AT: at(0).exact_stamp}
    if touched is not None:
        annotations[TOUCHED_AT] = at(touched).exact_stamp
    given = {"kind": FORGETFUL, "suspended": False, "annotations": annotations, **changes}
    return facts(**given)


@pytest.mark.parametrize(
    ("touched", "seconds", "want", "again"),
    [
        pytest.param(None, 0, [], 30.0, id="just released"),
        pytest.param(None, 29, [], 1.0, id="a second too early"),
        pytest.param(None, 30, ["TouchJob", "event NoPodsYet"], None, id="half a minute"),
        pytest.param(-5.0, 29, [], 1.0, id="a touch of an earlier run does not count"),
        pytest.param(30.0, 89, [], 1.0, id="the second comes a minute later"),
        pytest.param(30.0, 90, ["TouchJob"], None, id="and is not repeated"),
        pytest.param(90.0, 209, [], 1.0, id="then two minutes"),
        pytest.param(90.0, 210, ["TouchJob"], None, id="after the second"),
        pytest.param(5000.0, 5599, [], 1.0, id="never more than ten minutes"),
        pytest.param(5000.0, 5600, ["TouchJob"], None, id="every ten minutes"),
    ],
)
def test_pauses_double(
    touched: float | None, seconds: float, want: list[str], again: float | None
) -> None:
    decision = look(released(touched), unit("Dequeued", admissions=ADMITTED), moment=at(seconds))
    assert action_names(decision.actions) == want
    assert decision.requeue_after_seconds == again


def test_a_touch_records_its_time() -> None:
    decision = look(released(), unit("Dequeued", admissions=ADMITTED), moment=at(31.25))
    touch = decision.actions[0]
    assert isinstance(touch, TouchJob)
    assert touch.touched_at == "2026-11-01T10:00:31.250000Z"


@pytest.mark.parametrize(
    ("job", "phase", "more"),
    [
        pytest.param(released(kind=JOB), "Dequeued", {}, id="an operator that does not forget"),
        pytest.param(
            released(), "Dequeued", {"pods": PodCounts(total=1, terminating=1)}, id="a pod is there"
        ),
        pytest.param(released(), "Running", {}, id="it has had pods"),
        pytest.param(
            released(),
            "Dequeued",
            {"ownership": SHUT, "memory": JobMemory(reported_events=frozenset({"NotManaged"}))},
            id="not managed",
        ),
        pytest.param(released(annotations={}), "Dequeued", {}, id="resumed by another client"),
        pytest.param(
            released(status=RUNS), "Dequeued", {"pods": PodCounts(total=1, living=1)}, id="runs"
        ),
    ],
)
def test_which_jobs_are_not_touched(job: JobFacts, phase: str, more: dict[str, Any]) -> None:
    decision = look(job, unit(phase, admissions=ADMITTED), moment=at(3600), **more)
    assert "TouchJob" not in action_names(decision.actions)


def test_a_release_is_reconciled_again_for_it() -> None:
    """Otherwise it would not be, since the event of our own write is ignored."""
    held = facts(kind=FORGETFUL)
    decision = look(held, unit("Dequeued", admissions=ADMITTED))
    assert action_names(decision.actions) == ["release"]
    assert decision.requeue_after_seconds == 30.0
    assert look(facts(), unit("Dequeued", admissions=ADMITTED)).is_complete


def test_the_first_of_two_times_counts() -> None:
    """A job that is late before it is touched is evicted at its time."""
    late = {"koord-queue/running-timeout": "20s"}
    job = released()
    annotated = msgspec.structs.replace(
        job.metadata, annotations={**job.metadata.annotations, **late}
    )
    job = msgspec.structs.replace(job, metadata=annotated)
    decision = look(job, unit("Dequeued", admissions=ADMITTED), moment=at(5))
    assert decision.requeue_after_seconds == 15.0
