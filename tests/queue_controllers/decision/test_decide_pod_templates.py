"""Decisions about how the API server changes templates: marks, and how urgent they are."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnit
from queue_controllers.decision.pending import REFUSED_REQUEUE_SECONDS
from queue_controllers.decision.release import REFUSED_SECONDS
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import PODS_REFUSED, TEMPLATE_DIFFERENCES
from tests.job_situations import (
    ADMITTED,
    RELEASED,
    RUNS,
    TWO_RUNNING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

WHY: Final = "PriorityClass gold does not exist"
REFUSED: Final = facts(pods_refused=WHY)
MARKED: Final = {PODS_REFUSED: WHY}


@pytest.mark.parametrize(
    ("job", "of", "want"),
    [
        pytest.param(
            facts(cpu="2", template_differences="more"), unit(), False, id="what a LimitRange adds"
        ),
        pytest.param(
            facts(template_differences="more"), unit(), False, id="what it reports, at the same sum"
        ),
        pytest.param(facts(cpu="2"), unit(), True, id="what the job's owner changes"),
        pytest.param(
            facts(
                cpu="2", template_differences="more", annotations={"koord-queue/queue-name": "q"}
            ),
            unit(),
            True,
            id="both",
        ),
        pytest.param(
            facts(cpu="2", template_differences="more"),
            unit(conditions=evicted("JobChanged", "False")),
            True,
            id="after an eviction it could start with less again",
        ),
        pytest.param(REFUSED, unit(), True, id="that its pods would be refused"),
    ],
)
def test_how_urgent_a_correction_is(job: JobFacts, of: QueueUnit, want: bool) -> None:
    (write,) = look(job, of).actions
    assert isinstance(write, PatchUnit)
    assert write.is_urgent is want


def test_a_difference_that_is_gone_is_removed() -> None:
    (write,) = look(facts(), unit(annotations={TEMPLATE_DIFFERENCES: "more"})).actions
    assert isinstance(write, PatchUnit)
    assert write.body == {"metadata": {"annotations": {TEMPLATE_DIFFERENCES: None}}}


@pytest.mark.parametrize(
    ("job", "of", "want"),
    [
        pytest.param(REFUSED, unit(), WHY, id="it waits"),
        pytest.param(REFUSED, unit("Dequeued", admissions=ADMITTED), WHY, id="it is to start"),
        pytest.param(facts(), unit(annotations=MARKED), None, id="it is in order again"),
        pytest.param(
            facts(pods_refused="another"), unit(annotations=MARKED), "another", id="another reason"
        ),
    ],
)
def test_a_unit_is_marked_as_long_as_pods_would_be_refused(
    job: JobFacts, of: QueueUnit, want: str | None
) -> None:
    (write,) = look(job, of).actions
    assert isinstance(write, PatchUnit)
    assert write.body == {"metadata": {"annotations": {PODS_REFUSED: want}}}


def test_a_running_job_is_left_alone() -> None:
    job = msgspec.structs.replace(REFUSED, suspended=False, status=RUNS)
    running = unit("Dequeued", admissions=ADMITTED)
    decision = look(job, running, pods=TWO_RUNNING)
    assert action_names(decision.actions) == ["move Running"]


def test_a_marked_unit_is_reconciled_without_news() -> None:
    decision = look(REFUSED, unit(annotations=MARKED))
    assert decision.actions == ()
    assert decision.requeue_after_seconds == REFUSED_REQUEUE_SECONDS


def test_an_admitted_job_is_held_and_then_evicted() -> None:
    job = msgspec.structs.replace(
        REFUSED, metadata=msgspec.structs.replace(REFUSED.metadata, annotations=dict(RELEASED))
    )
    marked = unit("Dequeued", admissions=ADMITTED, annotations=MARKED)
    first = look(job, marked)
    assert (first.actions, first.requeue_after_seconds) == ((), REFUSED_SECONDS)
    since = msgspec.structs.replace(first.memory, refused_since=1000.0 - REFUSED_SECONDS)
    late = look(job, marked, memory=since)
    assert action_names(late.actions) == ["write status", "RecordUnitEvent"]
