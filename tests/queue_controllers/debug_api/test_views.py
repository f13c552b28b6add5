"""The answers of the controllers' debug API."""

from __future__ import annotations

from msgspec.structs import replace

from queue_controllers.debug_api.explanation import Explanation, JobStanding, Problem
from queue_controllers.debug_api.views import view_job
from queue_controllers.decision.job_ownership import Rule
from shared_api.objects.meta import Condition
from shared_api.queue_unit_phases import QUOTA_RESERVED
from tests.job_situations import ADMITTED, JOB, facts, unit


def reserved(status: str) -> tuple[Condition, ...]:
    return (Condition(type=QUOTA_RESERVED, status=status, reason="R", message="m"),)


def test_a_job_with_its_unit() -> None:
    explanation = Explanation(
        managed=True,
        reason=Rule.IN_QUEUE,
        message="It is managed",
        queue="fast",
        quota="gold",
        problems=(Problem("NoQuota", "there is none"),),
    )
    job = replace(facts(), template_differences="cpu 2")
    waits = unit(conditions=reserved("False"))
    answer = view_job(JOB, "team/main", explanation, leader=True, job=job, unit=waits)
    assert answer.model_dump(by_alias=True) == {
        "leader": True,
        "namespace": "team",
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "main",
        "extension": "job",
        "managed": True,
        "reason": "InQueue",
        "message": "It is managed",
        "suspended": True,
        "queue": "fast",
        "quota": "gold",
        "unit": {"name": "main", "phase": "Enqueued", "reason": "R", "message": "m"},
        "templateDifferences": "cpu 2",
        "problems": [{"reason": "NoQuota", "message": "there is none"}],
    }


def test_a_unit_that_is_not_pending_has_no_reason() -> None:
    explanation = Explanation(managed=True, reason=Rule.IN_QUEUE, message="")
    runs = unit("Running", admissions=ADMITTED, conditions=reserved("True"))
    shown = view_job(JOB, "team/main", explanation, leader=False, job=facts(), unit=runs).unit
    assert shown is not None
    assert (shown.phase, shown.reason, shown.message) == ("Running", "", "")


def test_a_job_of_which_nothing_is_known() -> None:
    explanation = Explanation(managed=False, reason=JobStanding.KIND_NOT_SERVED, message="m")
    answer = view_job(JOB, "team/main", explanation, leader=False)
    assert (answer.suspended, answer.unit, answer.problems) == (None, None, [])
