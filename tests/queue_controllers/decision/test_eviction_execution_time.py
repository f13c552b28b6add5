"""The maximum execution time of a job: its clock, and the decision when the time is up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnit, PatchUnitStatus, RecordJobEvent
from queue_controllers.decision.eviction import (
    MAX_SECONDS,
    seconds_left,
    seconds_to_bank,
)
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_view import Decision, JobMemory
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Admission, QueueUnit
from tests.job_situations import (
    NOW,
    RELEASED,
    RUNS,
    TWO_RUNNING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"
MARK = "koord-queue/max-exec-time-exceeded"
USED_UP = "MaximumExecutionTimeExceeded"


def ready(since: str | None = "09:59:50", status: str = "True") -> Condition:
    """Return the condition whose clock is read at ten o'clock."""
    at = None if since is None else Timestamp(f"2026-11-01T{since}Z")
    return Condition(type="PodsReady", status=status, reason="PodsRunning", last_transition_time=at)


def running(
    *conditions: Condition, allowed: int | None = None, banked: int | None = None, **more: Any
) -> QueueUnit:
    """Return a unit whose pods run, with the time that its job allows."""
    said = {} if allowed is None else {MAX_EXEC: str(allowed)}
    more["annotations"] = said | more.get("annotations", {})
    of = unit(
        more.pop("phase", "Running"),
        admissions=(Admission(name="main", replicas=2, running=more.pop("counted", 2)),),
        conditions=conditions,
        accumulated_past_execution_time_seconds=banked,
        **more,
    )
    spec = msgspec.structs.replace(of.spec, maximum_execution_time_seconds=allowed)
    return msgspec.structs.replace(of, spec=spec)


def see(of: QueueUnit, *, runs: bool = True, **more: Any) -> Decision:
    """Decide about a unit whose job names the same time."""
    allowed = of.spec.maximum_execution_time_seconds
    said = {} if allowed is None else {MAX_EXEC: str(allowed)}
    job = facts(annotations={**RELEASED, **said})
    if runs:
        job = facts(annotations={**RELEASED, **said}, suspended=False, status=RUNS)
        more = {"pods": TWO_RUNNING, **more}
    return look(job, of, **more)


@pytest.mark.parametrize(
    ("conditions", "banked", "want"),
    [
        pytest.param((), None, 0, id="ctl-35 no pods were ready"),
        pytest.param((ready(status="False"),), None, 0, id="ctl-35 they are no longer ready"),
        pytest.param((ready(),), None, 10, id="ctl-35 for ten seconds"),
        pytest.param((ready(),), 100, 110, id="ctl-35 and a hundred before"),
        pytest.param((ready(status="False"),), 100, 100, id="only what was before"),
        pytest.param((ready("10:00:05"),), 7, 7, id="from a clock that is ahead"),
        pytest.param((ready(None),), 7, 7, id="since an unknown time"),
        pytest.param((ready(),), MAX_SECONDS, MAX_SECONDS, id="as much as the field holds"),
    ],
)
def test_the_time_that_a_run_adds(
    conditions: tuple[Condition, ...], banked: int | None, want: int
) -> None:
    assert seconds_to_bank(running(*conditions, banked=banked), NOW.wall) == want


@pytest.mark.parametrize(
    ("conditions", "allowed", "banked", "want"),
    [
        pytest.param((ready(),), 60, None, 50.0, id="some is left"),
        pytest.param((ready(),), 60, 50, 0.0, id="earlier runs have used it"),
        pytest.param((ready(),), 5, None, -5.0, id="it is over"),
        pytest.param((ready(),), None, None, None, id="no limit"),
        pytest.param((ready(status="False"),), 60, 60, None, id="the clock is stopped"),
    ],
)
def test_the_remaining_time(
    conditions: tuple[Condition, ...], allowed: int | None, banked: int | None, want: float | None
) -> None:
    assert seconds_left(running(*conditions, allowed=allowed, banked=banked), NOW.wall) == want


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(running(ready(), allowed=60), ([], 50.0), id="a reconcile when it is over"),
        pytest.param(
            running(ready(), allowed=10),
            (["write status", "RecordUnitEvent"], 0.0),
            id="it is over",
        ),
        pytest.param(running(ready()), ([], None), id="for ever"),
        pytest.param(
            running(ready(), *evicted(), allowed=60),
            (["suspend", "event Preempted"], None),
            id="evicted already",
        ),
        pytest.param(
            running(allowed=60, phase="Dequeued"), (["move Running"], None), id="it begins to run"
        ),
    ],
)
def test_an_end_is_announced_at_its_time(
    of: QueueUnit, want: tuple[list[str], float | None]
) -> None:
    decision = see(of)
    assert (action_names(decision.actions), decision.requeue_after_seconds) == want


def test_a_running_job_with_a_limit_is_reconciled_again() -> None:
    """[ctl-36] Our timer follows from the objects, so it shortens no other step's delay."""
    assert not see(running(allowed=60, phase="Dequeued")).is_complete
    assert see(running(phase="Dequeued")).is_complete


def test_the_earlier_of_two_times_counts() -> None:
    miscounted = running(ready(), allowed=3600, counted=1)
    decision = see(miscounted, memory=JobMemory(counted_at=NOW.monotonic))
    assert decision.requeue_after_seconds is not None
    assert decision.requeue_after_seconds < 3590.0


def test_an_unmanaged_job_runs_on() -> None:
    theirs = Ownership(managed=False, reason="it is labeled for another queue")
    decision = see(running(ready(), allowed=1), ownership=theirs)
    assert "write status" not in action_names(decision.actions)


def test_it_is_inactive_before_it_is_stopped_and_released() -> None:
    over = running(ready(), *evicted(USED_UP), allowed=10, banked=3)
    (patch,) = see(over).actions
    assert isinstance(patch, PatchUnit)
    assert patch.body == {"metadata": {"annotations": {MARK: ""}}, "spec": {"active": False}}
    inactive = running(
        ready(),
        *evicted(USED_UP),
        allowed=10,
        banked=3,
        active=False,
        annotations={MARK: ""},
    )
    assert action_names(see(inactive).actions) == ["suspend", f"event {USED_UP}"]
    freed, event = see(inactive, runs=False).actions
    assert isinstance(event, RecordJobEvent)
    assert isinstance(freed, PatchUnitStatus)
    status = freed.status
    assert (status["phase"], status["admissions"]) == ("Enqueued", [])
    assert status["accumulatedPastExecutionTimeSeconds"] is None
    said = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert said["PodsReady"] == ("False", "Pending")
    assert said["Evicted"] == ("False", "Requeued")
    assert said[USED_UP] == ("True", USED_UP)


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        ("Preempted", "Enqueued"),
        ("Deactivated", "Enqueued"),
        ("BackoffTimeout", "TimeoutBackoff"),
    ],
)
def test_every_other_eviction_keeps_the_used_time(reason: str, phase: str) -> None:
    (freed, *_) = see(running(ready(), *evicted(reason), allowed=600, banked=3), runs=False).actions
    assert isinstance(freed, PatchUnitStatus)
    assert freed.status["phase"] == phase
    assert freed.status["accumulatedPastExecutionTimeSeconds"] == 13


def test_a_job_that_never_ran_keeps_nothing() -> None:
    late = running(*evicted("BackoffTimeout"), phase="Dequeued", allowed=600)
    (freed, *_) = see(late, runs=False).actions
    assert isinstance(freed, PatchUnitStatus)
    assert "accumulatedPastExecutionTimeSeconds" not in freed.status
