"""What a job does is said from its unit; how it ended decides the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.acts.change import AnyObject
from koord_queue.acts.following import (
    Advice,
    JobObject,
    Progress,
    State,
    exit_code,
    is_unit_of,
    own_end,
    progress,
    progress_without_unit,
)
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import queue_unit_body, to_struct, with_status


def unit(phase: str, **status: Any) -> QueueUnit:
    return to_struct(
        QueueUnit, with_status(queue_unit_body("x", queue="night"), phase=phase, **status)
    )


GRANTED = [
    {"name": "a", "replicas": 2, "running": 1},
    {"name": "b", "replicas": 1, "running": 1},
]
EVICTED = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": ""}
SAID = Advice("waits in queue night at position 3", "needs more cpu", "may start Fri 14:05")

CASES = [
    pytest.param(
        unit("Enqueued", message="Waiting"), Advice(), State.WAITS, "waits in queue night",
        id="it waits",
    ),
    pytest.param(
        unit("Enqueued", message="no room"), Advice(), State.WAITS, "waits in queue night: no room",
        id="with the reason of its object",
    ),
    pytest.param(
        unit("Enqueued", message="no room"), SAID, State.WAITS,
        "waits in queue night at position 3, may start Fri 14:05: needs more cpu",
        id="or rather what the scheduler says",
    ),
    pytest.param(
        unit("Reserved"), SAID, State.STARTS, "is reserved, and waits for its admission checks",
        id="checks are open",
    ),
    pytest.param(
        unit("Dequeued", admissions=GRANTED[1:]), SAID, State.STARTS,
        "is starting: 1 of 1 pod runs",
        id="it is admitted",
    ),
    pytest.param(
        unit("Running", admissions=GRANTED), SAID, State.RUNS, "is running: 2 of 3 pods run",
        id="it runs",
    ),
    pytest.param(
        unit("Running", conditions=[EVICTED]), SAID, State.STARTS, "is being evicted (Preempted)",
        id="it is evicted",
    ),
    pytest.param(
        unit("Failed", message="Failed: the job is deleted"), SAID, State.DELETED, "was deleted",
        id="its job is deleted",
    ),
    pytest.param(unit("Succeed"), SAID, State.SUCCEEDED, "succeeded", id="it has succeeded"),
    pytest.param(
        unit("Failed", message="Failed: BackoffLimitExceeded"), SAID, State.FAILED,
        "failed: BackoffLimitExceeded", id="it has failed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("found", "advice", "state", "text"), CASES)
def test_what_a_job_does(found: QueueUnit, advice: Advice, state: State, text: str) -> None:
    assert progress(found, advice)[:2] == (state, text)


def test_a_forecast_alone_is_no_news() -> None:
    found = [progress(unit("Enqueued"), SAID._replace(start=each)).news for each in ("a", "b")]
    assert found == ["waits in queue night at position 3: needs more cpu"] * 2


ENDED = Progress(State.FAILED, "failed: too late")
NEW = {"is_there": True, "end": None, "had_unit": False, "seconds": 0.0}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({}, State.NEW, id="its unit is to come"),
        pytest.param({"seconds": 31.0}, State.LEFT_ALONE, id="it does not come"),
        pytest.param({"seconds": 31.0, "had_unit": True}, State.NEW, id="it is made again"),
        pytest.param({"seconds": 31.0, "end": ENDED}, State.FAILED, id="it ended without"),
        pytest.param({"is_there": False}, State.DELETED, id="the job is gone"),
    ],
)
def test_a_job_without_a_unit(given: dict[str, Any], want: State) -> None:
    assert progress_without_unit(**{**NEW, **given}).state is want


@pytest.mark.parametrize(
    ("states", "timed_out", "want"),
    [
        ([State.SUCCEEDED, State.SUCCEEDED], False, 0),
        ([State.SUCCEEDED, State.FAILED, State.DELETED], False, 1),
        ([State.SUCCEEDED, State.DELETED], False, 3),
        ([State.LEFT_ALONE], False, 3),
        ([State.RUNS], True, 3),
        ([State.FAILED, State.WAITS], True, 1),
    ],
)
def test_the_exit_code(states: list[State], timed_out: bool, want: int) -> None:
    assert exit_code(states, timed_out=timed_out) == want


@pytest.mark.parametrize(
    ("kind", "name", "uid", "want"),
    [
        pytest.param("Pod", "p", "1", True, id="its own"),
        pytest.param("Pod", "p", "2", False, id="that of another pod of its name"),
        pytest.param("PodGroup", "gang", "9", True, id="that of its group"),
        pytest.param("PodGroup", "other", "9", False, id="that of another group"),
    ],
)
def test_the_unit_of_a_pod(kind: str, name: str, uid: str, want: bool) -> None:
    labels = {"pod-group.scheduling.sigs.k8s.io": "gang"}
    pod = {"kind": "Pod", "metadata": {"name": "p", "uid": "1", "labels": labels}}
    body = queue_unit_body("x", consumerRef={"kind": kind, "name": name, "uid": uid})
    assert is_unit_of(to_struct(QueueUnit, body), to_struct(AnyObject, pod)) is want


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ({"type": "Complete", "status": "True"}, (State.SUCCEEDED, "succeeded")),
        ({"type": "Failed", "status": "True"}, (State.FAILED, "failed")),
        ({"type": "Failed", "status": "True", "message": "late"}, (State.FAILED, "failed: late")),
        ({"type": "Complete", "status": "False"}, None),
        ({"type": "Suspended", "status": "True"}, None),
    ],
)
def test_how_a_job_says_that_it_has_ended(
    condition: dict[str, str], want: tuple[State, str] | None
) -> None:
    found = own_end(to_struct(JobObject, {"status": {"conditions": [condition]}}))
    assert (found and found[:2]) == want
