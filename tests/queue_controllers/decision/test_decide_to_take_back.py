"""Evictions, adopted jobs, and suspend fields that other clients change."""

from __future__ import annotations

from typing import Any

import pytest

from queue_controllers.decision.actions import PatchUnitStatus, RecordJobEvent
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import Admission, AdmissionCheckState, QueueUnit, RequeueState
from tests.job_situations import (
    ADMITTED,
    EVICTED,
    NOW,
    RELEASED,
    RUNS,
    TWO_PENDING,
    TWO_RUNNING,
    TWO_TERMINATING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)


@pytest.mark.parametrize(
    ("job", "of", "pods", "want"),
    [
        pytest.param(
            facts(suspended=False, status=RUNS),
            EVICTED,
            TWO_RUNNING,
            ["suspend", "event Preempted"],
            id="announced: it is suspended",
        ),
        pytest.param(
            facts(annotations=RELEASED), EVICTED, TWO_TERMINATING, [], id="its pods live: it waits"
        ),
        pytest.param(
            facts(annotations=RELEASED, status=RUNS),
            EVICTED,
            PodCounts(),
            [],
            id="no pod, but the operator has not reported the suspension",
        ),
        pytest.param(
            facts(annotations=RELEASED),
            EVICTED,
            PodCounts(),
            ["move Enqueued", "event Preempted"],
            id="stopped: free",
        ),
        pytest.param(
            facts(annotations=RELEASED),
            unit("Dequeued", admissions=ADMITTED, conditions=evicted("BackoffTimeout")),
            PodCounts(),
            ["move TimeoutBackoff", "event BackoffTimeout"],
            id="stopped after a timeout: it backs off",
        ),
        pytest.param(
            facts(),
            unit("Reserved", admissions=ADMITTED, conditions=evicted("BackoffTimeout")),
            PodCounts(),
            ["move Enqueued", "event BackoffTimeout"],
            id="a reserved unit is put into backoff by the scheduler alone",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            unit("Running", admissions=ADMITTED, active=False),
            TWO_RUNNING,
            ["write status", "RecordUnitEvent"],
            id="deactivated while it runs: announced first",
        ),
        pytest.param(
            facts(),
            unit("Enqueued", active=False),
            PodCounts(),
            [],
            id="deactivated in the queue: waits",
        ),
        pytest.param(
            facts(),
            unit("Dequeued", admissions=ADMITTED, active=False),
            PodCounts(),
            ["write status", "RecordUnitEvent"],
            id="deactivated after the decision: not released",
        ),
        pytest.param(
            facts(count=3),
            unit("Dequeued", admissions=ADMITTED),
            PodCounts(),
            ["write status", "RecordUnitEvent"],
            id="more pods than were admitted: not released",
        ),
        pytest.param(
            facts(cpu="2"),
            unit("Reserved", admissions=ADMITTED),
            PodCounts(),
            ["write status", "RecordUnitEvent"],
            id="larger pods than were admitted: not released",
        ),
        pytest.param(
            facts(count=1),
            unit("Dequeued", admissions=ADMITTED),
            PodCounts(),
            ["release"],
            id="fewer pods than were admitted: released",
        ),
        pytest.param(
            facts(),
            unit("Dequeued", admissions=(Admission(name="main", replicas=1),)),
            PodCounts(),
            ["event PartialAdmission"],
            id="admitted in part: not released",
        ),
    ],
)
def test_evictions(job: JobFacts, of: QueueUnit, pods: PodCounts, want: list[str]) -> None:
    assert action_names(look(job, of, pods=pods).actions) == want


RAN = unit("Running", adopted=True, admissions=ADMITTED)


@pytest.mark.parametrize(
    ("job", "of", "pods", "want"),
    [
        pytest.param(facts(suspended=False), RAN, TWO_PENDING, [], id="never suspended"),
        pytest.param(facts(), RAN, TWO_TERMINATING, [], id="suspended by hand, its pods live"),
        pytest.param(
            facts(status=StatusFacts()),
            RAN,
            PodCounts(),
            [],
            id="suspended by hand, its operator has not reported it",
        ),
        pytest.param(
            facts(annotations=RELEASED),
            unit("Running", adopted=True, admissions=ADMITTED),
            PodCounts(),
            ["release", "event Resumed"],
            id="suspended by hand after it was seen to run: resumed",
        ),
        pytest.param(
            facts(),
            unit("Dequeued", adopted=True, admissions=ADMITTED),
            PodCounts(),
            ["release"],
            id="admitted: regardless of its mark",
        ),
        pytest.param(
            facts(count=3),
            unit("Dequeued", adopted=True, admissions=ADMITTED),
            PodCounts(),
            ["write status", "RecordUnitEvent"],
            id="admitted, and grown since: it is requeued, adopted or not",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            unit(conditions=evicted(status="False")),
            PodCounts(),
            ["suspend", "event SuspendedAgain"],
            id="evicted once, it waits like any other",
        ),
        pytest.param(
            facts(),
            unit("Running", adopted=True, admissions=ADMITTED, conditions=evicted()),
            PodCounts(),
            ["move Enqueued", "event Preempted"],
            id="evicted",
        ),
    ],
)
def test_adopted_jobs(job: JobFacts, of: QueueUnit, pods: PodCounts, want: list[str]) -> None:
    assert action_names(look(job, of, pods=pods).actions) == want


def test_an_eviction_empties_the_admissions_only_when_stopped() -> None:
    announced = look(
        facts(suspended=False, status=RUNS),
        unit("Running", admissions=ADMITTED, active=False),
        pods=TWO_RUNNING,
    ).actions[0]
    assert isinstance(announced, PatchUnitStatus)
    assert "admissions" not in announced.status
    assert "phase" not in announced.status
    freed = look(facts(annotations=RELEASED), EVICTED).actions[0]
    assert isinstance(freed, PatchUnitStatus)
    assert freed.status["admissions"] == []
    kinds = {each["type"]: (each["status"], each["reason"]) for each in freed.status["conditions"]}
    assert kinds["Evicted"] == ("False", "Requeued")
    assert kinds["Admitted"] == ("False", "Pending")


def test_an_eviction_is_reported_once_with_its_reason_and_what_follows() -> None:
    said = []
    late, off = with_reason("BackoffTimeout"), with_reason("Deactivated", active=False)
    for of, limit in ((EVICTED, 1), (late, 0), (late, 2), (late, 1), (off, 1)):
        settings = JobSettings(backoff_limit=limit)
        stopped = look(facts(suspended=False, status=RUNS), of, pods=TWO_RUNNING, settings=settings)
        (event,) = (each for each in stopped.actions if isinstance(each, RecordJobEvent))
        said.append(event.message)
        freed = look(facts(annotations=RELEASED), of, memory=stopped.memory)
        assert not any(each.startswith("event") for each in action_names(freed.actions))
    keeps = "It keeps its quota until its pods are gone, then it"
    waits = f"{keeps} waits in the queue again"
    activate = "To have it wait in the queue again, annotate the job scheduling.x-k8s.io/active"
    assert said == [
        f"Evicted: Preempted. {waits}",
        f"Evicted: m. {waits}, from the time that its queue unit main names",
        f"Evicted: m. {waits}, from the time that its queue unit main names",
        f"Evicted: m. {keeps} stays suspended: that was its last try, by its backoff limit",
        f'Evicted: m. It stays suspended. {activate}: "true"',
    ]


def test_an_eviction_of_a_stopped_job_is_reported_as_done() -> None:
    _, event = look(facts(annotations=RELEASED), EVICTED).actions
    assert isinstance(event, RecordJobEvent)
    assert event.message == "Evicted: Preempted. It waits in the queue again"


def with_reason(reason: str, **changes: Any) -> QueueUnit:
    asked = Condition(type="Evicted", status="True", reason=reason, message="m")
    return unit("Running", admissions=ADMITTED, conditions=(asked,), **changes)


def test_backoff_doubles_and_is_spread() -> None:
    of = unit("Dequeued", admissions=ADMITTED, conditions=evicted("BackoffTimeout"))
    freed = look(facts(annotations=RELEASED), of, jitter=0.1).actions[0]
    assert isinstance(freed, PatchUnitStatus)
    assert freed.status["requeueState"] == {"count": 1, "requeueAt": "2026-11-01T10:00:11Z"}


@pytest.mark.parametrize(
    ("wanted", "until"), [(3600, "11:00:00"), (3, "10:00:11"), (None, "10:00:11")]
)
def test_a_check_that_is_no_longer_ready_sets_a_minimum_backoff(
    wanted: int | None, until: str
) -> None:
    refused = AdmissionCheckState(name="nodes", state="Retry", requeue_after_seconds=wanted)
    of = unit(
        "Running",
        admissions=ADMITTED,
        conditions=evicted("AdmissionCheck"),
        admission_checks=(refused,),
    )
    freed = look(facts(annotations=RELEASED), of, jitter=0.1).actions[0]
    assert isinstance(freed, PatchUnitStatus)
    assert freed.status["phase"] == "TimeoutBackoff"
    assert freed.status["requeueState"] == {"count": 1, "requeueAt": f"2026-11-01T{until}Z"}


def test_backoff_doubles_up_to_its_cap() -> None:
    waits = []
    for count in (1, 2, 9):
        of = unit(
            "Dequeued",
            admissions=ADMITTED,
            conditions=evicted("BackoffTimeout"),
            requeue_state=RequeueState(count=count),
        )
        freed = look(facts(annotations=RELEASED), of).actions[0]
        assert isinstance(freed, PatchUnitStatus)
        waits.append(
            (
                freed.status["requeueState"]["count"],
                freed.status["requeueState"]["requeueAt"][14:19],
            )
        )
    assert waits == [(2, "00:20"), (3, "00:40"), (10, "15:00")]


def test_a_job_that_is_resumed_during_its_eviction_is_suspended_again() -> None:
    job = facts(suspended=False, status=RUNS)
    first = look(job, EVICTED, pods=TWO_RUNNING)
    assert action_names(first.actions) == ["suspend", "event Preempted"]
    again = look(job, EVICTED, pods=TWO_RUNNING, memory=first.memory)
    assert action_names(again.actions) == ["suspend", "event SuspendedAgain"]
    over = look(facts(), unit("Enqueued"), memory=again.memory)
    assert not over.memory.evicting


def test_slow_resumes_cost_no_place() -> None:
    memory, job = JobMemory(), facts(suspended=False, status=RUNS)
    for turn in range(5):
        decision = look(job, unit(), memory=memory, moment=NOW.after(61.0 * turn))
        memory = decision.memory
        assert action_names(decision.actions) == ["suspend", "event SuspendedAgain"]
