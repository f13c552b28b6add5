"""Jobs at which the decision fails: which of them are held."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_controllers.decision.actions import RecordJobEvent, SuspendJob
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_view import NOTHING_KNOWN
from queue_controllers.decision.unjudged import UnjudgedJob, decide_unjudged
from shared_api.objects.meta import ObjectMeta
from tests.job_situations import JOB, TEN, unit

RAISED = "RecursionError: too deep"
META = ObjectMeta(name="main", namespace="team")
NEW = UnjudgedJob(
    kind=JOB,
    metadata=META,
    suspended=False,
    is_queued=True,
    has_ended=False,
    unit=None,
    runs=False,
)


@pytest.mark.parametrize(
    ("changes", "holds", "state"),
    [
        pytest.param({}, True, "held", id="it runs nothing"),
        pytest.param({"suspended": True}, False, "held", id="it is suspended"),
        pytest.param({"runs": True}, False, "left alone", id="a pod has a node"),
        pytest.param({"unit": unit("Dequeued")}, False, "left alone", id="it was admitted"),
        pytest.param({"unit": unit()}, True, "held", id="its unit waits"),
        pytest.param({"must_run": "spec.x"}, False, "left alone", id="it would not survive that"),
        pytest.param(
            {"kind": replace(JOB, held_by_gates=True)}, False, "left alone", id="a job of pods"
        ),
        pytest.param(
            {"kind": replace(JOB, held_only_at_creation=True)},
            False,
            "left alone",
            id="held at its creation only",
        ),
        pytest.param({"is_queued": False}, False, "", id="no queue manages it"),
        pytest.param({"has_ended": True}, False, "", id="it has ended"),
        pytest.param(
            {"metadata": replace(META, deletion_timestamp=TEN)}, False, "", id="it is deleted"
        ),
    ],
)
def test_which_jobs_are_held(changes: dict[str, Any], holds: bool, state: str) -> None:
    decision = decide_unjudged(replace(NEW, **changes), JobSettings(), NOTHING_KNOWN, RAISED)
    assert [isinstance(each, SuspendJob) for each in decision.actions].count(True) == holds
    notes = [each.message for each in decision.actions if isinstance(each, RecordJobEvent)]
    assert len(notes) == bool(state)
    assert all(RAISED in note and f"It is {state} until then" in note for note in notes)


def test_it_is_told_once_and_suspended_again() -> None:
    first = decide_unjudged(NEW, JobSettings(), NOTHING_KNOWN, RAISED)
    again = decide_unjudged(NEW, JobSettings(), first.memory, RAISED)
    assert [type(each) for each in again.actions] == [SuspendJob]


@pytest.mark.parametrize(
    ("kind", "settings", "annotations", "want"),
    [
        pytest.param(JOB, JobSettings(), {}, False, id="its field alone"),
        pytest.param(replace(JOB, has_suspend_field=False), JobSettings(), {}, True, id="no field"),
        pytest.param(JOB, JobSettings(held_by_annotation=True), {}, True, id="a setting"),
        pytest.param(
            JOB, JobSettings(), {"scheduling.x-k8s.io/suspend": "false"}, True, id="it has one"
        ),
    ],
)
def test_the_annotation_is_written_where_it_holds_the_job(
    kind: Any, settings: JobSettings, annotations: dict[str, str], want: bool
) -> None:
    job = replace(NEW, kind=kind, metadata=replace(META, annotations=annotations))
    (_, suspend) = decide_unjudged(job, settings, NOTHING_KNOWN, RAISED).actions
    assert suspend == SuspendJob(annotate=want)
