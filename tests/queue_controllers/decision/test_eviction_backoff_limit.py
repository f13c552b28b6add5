"""Units at their backoff limit: how they reach it, stay there, and return."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import Action, PatchUnit, PatchUnitStatus, RecordJobEvent
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import QueueUnit, RequeueState
from tests.job_situations import ADMITTED, RELEASED, action_names, evicted, facts, look, unit

ACTIVE = "scheduling.x-k8s.io/active"
LIMIT = "koord-queue/backoff-limit"
MARK = "koord-queue/backoff-limit-reached"
THREE = JobSettings(backoff_limit=3)
REACHED = Condition(
    type="BackoffLimitReached", status="True", reason="BackoffLimitReached", message="m"
)
DEACTIVATED = ["patch unit"]
ACTIVATED = ["patch unit", "event Activated"]


def job(**annotations: str) -> JobFacts:
    """Return a job that was released and is stopped."""
    keys = {"active": ACTIVE, "limit": LIMIT}
    return facts(annotations={**RELEASED, **{keys[key]: text for key, text in annotations.items()}})


def of(phase: str, count: int, *, mark: str | None = None, **more: Any) -> QueueUnit:
    """Return a unit that was requeued this often; with a mark, which makes it inactive."""
    state = RequeueState(count=count) if count else None
    annotations = {} if mark is None else {MARK: mark}
    if mark is not None:
        more = {"active": False, **more}
    return unit(phase, requeue_state=state, annotations=annotations, **more)


def late(count: int, **more: Any) -> QueueUnit:
    """Return a unit whose job is stopped, because it was late once more."""
    conditions = evicted("BackoffTimeout")
    return of("Dequeued", count, admissions=ADMITTED, conditions=conditions, **more)


@pytest.mark.parametrize(
    ("of_job", "unit_", "settings", "want"),
    [
        pytest.param(
            job(),
            late(1),
            THREE,
            ["move TimeoutBackoff", "event BackoffTimeout"],
            id="the second time",
        ),
        pytest.param(job(), late(2), THREE, DEACTIVATED, id="the third time: the limit"),
        pytest.param(
            job(),
            late(9),
            JobSettings(),
            ["move TimeoutBackoff", "event BackoffTimeout"],
            id="no limit",
        ),
        pytest.param(job(limit="1"), late(0), THREE, DEACTIVATED, id="one of its own, lower"),
        pytest.param(
            job(limit="0"),
            late(2),
            THREE,
            ["move TimeoutBackoff", "event BackoffTimeout"],
            id="none of its own",
        ),
        pytest.param(job(limit="-1"), late(2), THREE, DEACTIVATED, id="no count"),
        pytest.param(
            job(),
            late(2, mark=""),
            THREE,
            ["move Enqueued", "event BackoffTimeout"],
            id="then it is released",
        ),
        pytest.param(job(), of("TimeoutBackoff", 2), THREE, [], id="it waits below the limit"),
        pytest.param(job(), of("TimeoutBackoff", 3), THREE, DEACTIVATED, id="lowered in backoff"),
        pytest.param(job(), of("Enqueued", 3), THREE, DEACTIVATED, id="lowered in the queue"),
        pytest.param(
            job(), of("Enqueued", 3, active=False), THREE, DEACTIVATED, id="inactive, and lowered"
        ),
        pytest.param(
            job(), of("Dequeued", 3, admissions=ADMITTED), THREE, ["release"], id="one more try"
        ),
        pytest.param(
            job(),
            of("Enqueued", 3, mark=""),
            THREE,
            ["write status"],
            id="its condition is missing",
        ),
    ],
)
def test_the_way_to_the_limit(
    of_job: JobFacts, unit_: QueueUnit, settings: JobSettings, want: list[str]
) -> None:
    assert action_names(see(of_job, unit_, settings)) == want


def test_a_lowered_limit_does_not_stop_an_admitted_job() -> None:
    trying = of("Dequeued", 3, admissions=ADMITTED)
    running = facts(annotations=RELEASED, suspended=False)
    assert look(running, trying, settings=THREE).actions == ()


@pytest.mark.parametrize(
    ("said", "active", "hint"),
    [
        pytest.param("", None, f'{ACTIVE}: "true"', id="nothing"),
        pytest.param("1", True, f'{ACTIVE}: "false", then "true"', id="true"),
        pytest.param("no", None, f'{ACTIVE}: "true"', id="not a boolean"),
    ],
)
def test_it_is_inactive_before_it_is_released(said: str, active: bool | None, hint: str) -> None:
    (patch,) = see(job(active=said), late(2, active=active))
    assert isinstance(patch, PatchUnit)
    assert patch.body == {"metadata": {"annotations": {MARK: said}}, "spec": {"active": False}}
    freed, event = see(job(active=said), late(2, mark=said))
    assert isinstance(event, RecordJobEvent)
    assert event.message.endswith(hint)
    assert isinstance(freed, PatchUnitStatus)
    status = freed.status
    assert (status["phase"], status["admissions"]) == ("Enqueued", [])
    assert "put back 3 times" in status["message"]
    assert status["message"].endswith(hint)
    assert status["requeueState"] == {"count": 3, "requeueAt": None}
    conditions = {each["type"]: each for each in status["conditions"]}
    assert conditions["BackoffLimitReached"]["status"] == "True"
    assert conditions["BackoffLimitReached"]["message"] == status["message"]
    assert conditions["Evicted"]["status"] == "False"


STAYS = of("Enqueued", 3, mark="", conditions=(REACHED,))
LEFT_TRUE = of("Enqueued", 3, mark="true", conditions=(REACHED,))
TOLD = ["event BackoffLimitReached"]


@pytest.mark.parametrize(
    ("of_job", "unit_", "want"),
    [
        pytest.param(job(), STAYS, TOLD, id="nothing happens"),
        pytest.param(job(active="true"), STAYS, ["write status"], id="it is annotated true"),
        pytest.param(job(active="true"), LEFT_TRUE, TOLD, id="an annotation from before"),
        pytest.param(
            job(active="True"), LEFT_TRUE, ["write status"], id="true, in another spelling"
        ),
        pytest.param(job(active="false"), LEFT_TRUE, ["patch unit"], id="false is noted"),
        pytest.param(job(), LEFT_TRUE, ["patch unit"], id="that it was removed is noted"),
        pytest.param(
            job(),
            of("Enqueued", 3, mark="", conditions=(REACHED,), active=True),
            ["write status"],
            id="the unit was made active by hand",
        ),
        pytest.param(
            job(active="true"),
            of("Enqueued", 0, mark=""),
            ACTIVATED,
            id="count and condition are gone",
        ),
        pytest.param(
            job(active="true"),
            late(2, mark=""),
            ["move Enqueued", "event BackoffTimeout"],
            id="it is released first",
        ),
        pytest.param(
            job(),
            of("Dequeued", 0, mark="", active=True, admissions=ADMITTED),
            ACTIVATED,
            id="admitted before a reconcile",
        ),
    ],
)
def test_the_way_back(of_job: JobFacts, unit_: QueueUnit, want: list[str]) -> None:
    assert action_names(see(of_job, unit_)) == want


def test_made_active_it_counts_from_zero_and_follows_the_annotation_again() -> None:
    (write,) = see(job(active="true"), STAYS)
    assert isinstance(write, PatchUnitStatus)
    assert write.status["requeueState"] is None
    (condition,) = write.status["conditions"]
    assert (condition["type"], condition["status"]) == ("BackoffLimitReached", "False")
    patch, _ = see(job(active="true"), of("Enqueued", 0, mark=""))
    assert isinstance(patch, PatchUnit)
    assert patch.body == {"metadata": {"annotations": {MARK: None}}, "spec": {"active": True}}
    assert see(job(active="true"), of("Enqueued", 0, active=True)) == ()


def see(of_job: JobFacts, unit_: QueueUnit, settings: JobSettings = THREE) -> tuple[Action, ...]:
    """Decide about a unit with its job's annotations; leave out events of ignored ones."""
    theirs = {key: text for key, text in of_job.metadata.annotations.items() if key not in RELEASED}
    annotations = {**unit_.metadata.annotations, **theirs}
    meta = msgspec.structs.replace(unit_.metadata, annotations=annotations)
    unit_ = msgspec.structs.replace(unit_, metadata=meta)
    return tuple(
        each
        for each in look(of_job, unit_, settings=settings).actions
        if not (isinstance(each, RecordJobEvent) and each.reason == "IgnoredAnnotation")
    )
