"""Units that the controllers have deactivated for good: their conditions, and their return."""

from __future__ import annotations

from typing import Any

import pytest

from queue_controllers.decision.actions import PatchUnit, PatchUnitStatus, RecordJobEvent
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import QueueUnit, RequeueState
from tests.job_situations import RELEASED, action_names, facts, look, unit

ACTIVE = "scheduling.x-k8s.io/active"
KINDS = [
    pytest.param(
        "koord-queue/max-exec-time-exceeded", "MaximumExecutionTimeExceeded", id="its time"
    ),
    pytest.param("koord-queue/pod-set-updates-conflict", "PodSetUpdatesConflict", id="its checks"),
]


def inactive(mark: str, *conditions: Condition, annotation: str = "", **more: Any) -> QueueUnit:
    """Return a unit in the queue that was deactivated while the job had no annotation."""
    annotations = {mark: "", **({ACTIVE: annotation} if annotation else {})}
    return unit(annotations=annotations, conditions=conditions, **{"active": False, **more})


def reached(kind: str) -> Condition:
    return Condition(type=kind, status="True", reason=kind, message="m")


@pytest.mark.parametrize(("mark", "kind"), KINDS)
def test_missing_conditions_are_written(mark: str, kind: str) -> None:
    requeued = Condition(type="Evicted", status="False", reason="Requeued", message="in the queue")
    (write,) = look(facts(annotations=RELEASED), inactive(mark, requeued)).actions
    assert isinstance(write, PatchUnitStatus)
    said = next(each for each in write.status["conditions"] if each["type"] == kind)
    assert (said["status"], said["reason"]) == ("True", kind)
    assert said["message"].startswith("Deactivated: ")
    assert "in the queue" not in said["message"]
    assert said["message"].endswith(f'annotate the job {ACTIVE}: "true"')


@pytest.mark.parametrize(("mark", "kind"), KINDS)
def test_an_event_on_the_job_reports_it_and_nothing_else_happens(mark: str, kind: str) -> None:
    decision = look(facts(annotations=RELEASED), inactive(mark, reached(kind)))
    assert action_names(decision.actions) == [f"event {kind}"]


@pytest.mark.parametrize(("mark", "kind"), KINDS)
def test_annotated_active_it_returns_in_two_writes(mark: str, kind: str) -> None:
    job = facts(annotations={**RELEASED, ACTIVE: "true"})
    of = inactive(mark, reached(kind), annotation="true", requeue_state=RequeueState(count=1))
    (first,) = look(job, of).actions
    assert isinstance(first, PatchUnitStatus)
    assert [(each["type"], each["status"]) for each in first.status["conditions"]] == [
        (kind, "False")
    ]
    assert first.status["requeueState"] is None
    second, event = look(job, inactive(mark, annotation="true")).actions
    assert isinstance(second, PatchUnit)
    assert second.body == {"metadata": {"annotations": {mark: None}}, "spec": {"active": True}}
    assert isinstance(event, RecordJobEvent)
    assert event.reason == "Activated"
    assert ("counted from zero" in event.message) == (kind != "PodSetUpdatesConflict")
