"""Units of jobs that are not managed any more: charged while a pod runs, then deleted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnit
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import JOB_CREATED_AT, MANAGED_BY
from tests.job_situations import (
    ADMITTED,
    EVICTED,
    FAILED,
    NOW,
    RELEASED,
    RUNS,
    SUCCEEDED,
    TEN,
    TWO_RUNNING,
    TWO_TERMINATING,
    action_names,
    facts,
    look,
    unit,
)

KUEUES = Ownership(managed=False, reason="it belongs to Kueue")
TOLD = JobMemory(reported_events=frozenset({"NotManaged"}))
COUNTS_LATE = msgspec.structs.replace(TOLD, miscounted_since=NOW.monotonic - 1)
DEQUEUED = unit("Dequeued", admissions=ADMITTED)
RUNNING = unit("Running", admissions=ADMITTED)
RUNS_FREELY = facts(suspended=False, status=RUNS, annotations=RELEASED)
GIVEN_UP = ["DeleteUnit", "event NotManaged"]


@pytest.mark.parametrize(
    ("job", "of", "more", "want"),
    [
        pytest.param(facts(), unit("Enqueued"), {}, GIVEN_UP, id="it waits"),
        pytest.param(
            RUNS_FREELY, unit("Enqueued"), {"pods": TWO_RUNNING}, GIVEN_UP, id="contested"
        ),
        pytest.param(facts(), DEQUEUED, {}, GIVEN_UP, id="admitted, and not released"),
        pytest.param(
            RUNS_FREELY,
            RUNNING,
            {"pods": TWO_RUNNING},
            ["event NotManaged"],
            id="it runs: reported",
        ),
        pytest.param(
            RUNS_FREELY,
            RUNNING,
            {"pods": TWO_RUNNING, "memory": COUNTS_LATE},
            ["write status"],
            id="its pods are counted",
        ),
        pytest.param(
            RUNS_FREELY,
            DEQUEUED,
            {"pods": TWO_RUNNING, "memory": TOLD},
            ["move Running"],
            id="its pods start to run",
        ),
        pytest.param(
            facts(suspended=False, annotations=RELEASED),
            DEQUEUED,
            {"memory": TOLD, "settings": JobSettings(running_timeout_seconds=1.0)},
            [],
            id="late: it is not stopped",
        ),
        pytest.param(
            RUNS_FREELY,
            EVICTED,
            {"pods": TWO_RUNNING, "memory": TOLD},
            [],
            id="it is to be evicted: it is not stopped",
        ),
        pytest.param(
            facts(annotations=RELEASED),
            RUNNING,
            {"pods": TWO_TERMINATING, "memory": TOLD},
            [],
            id="suspended, its pods live",
        ),
        pytest.param(
            facts(annotations=RELEASED, status=StatusFacts()),
            RUNNING,
            {"memory": TOLD},
            [],
            id="suspended, its operator has not reported it",
        ),
        pytest.param(facts(annotations=RELEASED), RUNNING, {}, GIVEN_UP, id="it has stopped"),
        pytest.param(
            facts(status=StatusFacts(outcome=SUCCEEDED)), RUNNING, {}, ["move Succeed"], id="done"
        ),
        pytest.param(
            facts(status=StatusFacts(outcome=FAILED)), DEQUEUED, {}, ["move Failed"], id="failed"
        ),
        pytest.param(
            facts(deletion_timestamp=TEN), RUNNING, {"pods": TWO_RUNNING}, [], id="being deleted"
        ),
        pytest.param(facts(), unit("Succeed"), {}, [], id="its unit is final"),
    ],
)
def test_what_becomes_of_the_unit(
    job: JobFacts, of: QueueUnit, more: dict[str, Any], want: list[str]
) -> None:
    assert action_names(look(job, of, ownership=KUEUES, **more).actions) == want


def without(of: QueueUnit, *keys: str) -> QueueUnit:
    """Return a unit without some of its annotations."""
    kept = {key: text for key, text in of.metadata.annotations.items() if key not in keys}
    return msgspec.structs.replace(
        of, metadata=msgspec.structs.replace(of.metadata, annotations=kept)
    )


def test_a_unit_made_by_hand_is_released_and_then_left_alone() -> None:
    by_hand = without(unit("Enqueued"), JOB_CREATED_AT)
    patch, event = look(facts(), by_hand, ownership=KUEUES).actions
    assert isinstance(patch, PatchUnit)
    assert patch.body == {"metadata": {"annotations": {MANAGED_BY: None}}}
    assert action_names((event,)) == ["event NotManaged"]
    handed_back = without(by_hand, MANAGED_BY)
    assert look(facts(), handed_back, ownership=KUEUES).actions == ()
    assert look(RUNS_FREELY, handed_back, ownership=KUEUES, pods=TWO_RUNNING).actions == ()


def test_a_silent_operator_does_not_keep_the_usage_charged() -> None:
    job = facts(annotations=RELEASED, status=StatusFacts())
    first = look(job, RUNNING, ownership=KUEUES, memory=TOLD)
    assert first.requeue_after_seconds == 60.0
    late = msgspec.structs.replace(first.memory, quiet_since=900.0)
    assert action_names(look(job, RUNNING, ownership=KUEUES, memory=late).actions) == GIVEN_UP
