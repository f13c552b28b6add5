"""A unit's object in words: where it stands, what has happened, what it requests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from koord_queue.answers.explanation import Explanation
from koord_queue.answers.refusal import Refusal
from koord_queue.show.forecasts import Wall
from koord_queue.show.unit_life import (
    Event,
    UnitAnswers,
    check_rows,
    demand_rows,
    event_rows,
    fact_lines,
    further_reason_lines,
    life_rows,
    reason_lines,
)
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp
from shared_api.objects.pod import Container, PodSpec, PodTemplate, ResourceRequirements
from shared_api.objects.queue_unit import (
    Admission,
    AdmissionCheckState,
    ConsumerReference,
    PodSet,
    QueueUnit,
    QueueUnitSpec,
    QueueUnitStatus,
    RequeueState,
)

WALL = Wall(datetime(2026, 11, 26, 13, 0, tzinfo=UTC), UTC)
AT = Timestamp("2026-11-26T12:30:00Z")
BORN = Timestamp("2026-11-25T12:00:00Z")
QUOTA = {"quota.scheduling.koordinator.sh/name": "team"}


def condition(
    name: str, status: str, reason: str = "", message: str = "", at: Timestamp = AT
) -> Condition:
    return Condition(
        type=name, status=status, reason=reason, message=message, last_transition_time=at
    )


def unit(
    *conditions: Condition,
    message: str = "",
    phase: str = "",
    spec: QueueUnitSpec | None = None,
) -> QueueUnit:
    return QueueUnit(
        metadata=ObjectMeta(name="a", namespace="x", labels=QUOTA, creation_timestamp=BORN),
        spec=spec or QueueUnitSpec(queue="q"),
        status=QueueUnitStatus(conditions=conditions, message=message, phase=phase),
    )


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(unit(message="Waiting"), "It waits in queue q: Waiting.", id="no condition"),
        pytest.param(unit(condition("QuotaReserved", "False", "OverQuotaMax", "needs more")),
            "It waits in queue q: needs more (OverQuotaMax, since 12:30).", id="a reason"),
        pytest.param(unit(condition("QuotaReserved", "True"), condition("Admitted", "True"),
            condition("PodsReady", "False", "NoPods", "none was made"), phase="Dequeued"),
            "It is starting: queue q, quota team, since 12:30;"
            " its pods do not run: none was made.", id="starting"),
        pytest.param(unit(condition("Admitted", "True"), phase="Running"),
            "It is running: queue q, quota team, since 12:30.", id="running"),
        pytest.param(unit(condition("Admitted", "True"),
            condition("PodsReady", "True", "PodsUnschedulable", "1 has no node"), phase="Running"),
            "It is running: queue q, quota team, since 12:30;"
            " it is running (its pods run): 1 has no node.", id="a pod has no node"),
        pytest.param(unit(condition("QuotaReserved", "True"), phase="Reserved"),
            "It is reserved: queue q, quota team, since 12:30.", id="reserved"),
        pytest.param(unit(condition("QuotaReserved", "True"), phase="Enqueued"),
            "It is admitted: queue q, quota team, since 12:30.", id="it is evicted"),
        pytest.param(unit(condition("Finished", "True", "JobFinished", "It failed")),
            "It has finished, at 12:30: It failed.", id="ended"),
    ],
)  # fmt: skip
def test_where_a_unit_stands_by_its_object_alone(given: QueueUnit, want: str) -> None:
    assert [line.text for line in reason_lines(given, WALL)] == [want]


def test_the_life_is_told_in_its_order_and_in_words() -> None:
    given = unit(
        condition("Evicted", "True", "Preempted", "for x/b", at=Timestamp("2026-11-26T12:40:00Z")),
        condition("PodsReady", "True", "PodsRunning", "Pods of the job run"),
        condition("OperatorSilent", "True", "NotConfirmed", at=Timestamp("2026-11-26T12:50:00Z")),
    )
    assert life_rows(given, WALL) == [
        ("Wed-12:00", "25h", "it is created, and queued"),
        ("12:30", "30m", "it is running (its pods run)"),
        ("12:40", "20m", "it is evicted: for x/b"),
        ("12:50", "10m", "OperatorSilent is True: NotConfirmed"),
    ]


def test_the_demand_is_told_by_pod_set() -> None:
    container = Container(name="a", resources=ResourceRequirements(requests={"cpu": 2}))
    template = PodTemplate(spec=PodSpec(containers=(container,)))
    sets = (PodSet(name="a", count=4, min_count=2, template=template), PodSet(name="b", count=1))
    given = QueueUnit(
        spec=QueueUnitSpec(pod_set=sets),
        status=QueueUnitStatus(admissions=(Admission(name="a", replicas=3, running=1),)),
    )
    assert demand_rows(given) == [("a", "2..4", "3", "1", "cpu=2"), ("b", "1", "", "", "")]
    total = QueueUnit(spec=QueueUnitSpec(request={"cpu": 2, "memory": "1Gi"}))
    assert demand_rows(total) == [("all", "", "", "", "cpu=2,memory=1Gi")]


def test_the_facts_name_the_job_and_say_why() -> None:
    spec = QueueUnitSpec(
        queue="q", priority=5, priority_class_name="high",
        consumer_ref=ConsumerReference(api_version="batch/v1", kind="Job", name="j"),
    )  # fmt: skip
    status = QueueUnitStatus(phase="Enqueued", requeue_state=RequeueState(count=2))
    given = QueueUnit(metadata=unit().metadata, spec=spec, status=status)
    blockers = (Refusal(reason="A", message="one"), Refusal(reason="B", message="two"))
    got = UnitAnswers(Explanation(summary="It waits.", position=3, blockers=blockers))
    facts = dict(line.text.split(":", 1) for line in fact_lines(given, got, WALL))
    assert {name: value.strip() for name, value in facts.items()} == {
        "Name": "a", "Namespace": "x", "Job": "Job/j (batch/v1)", "Queue": "q", "Quota": "team",
        "Priority": "5 (high)", "State": "waiting", "Phase": "Enqueued", "Position": "3",
        "Why": "It waits.", "Requeued": "2 times",
    }  # fmt: skip
    assert [line.text for line in further_reason_lines(got)] == ["B: two"]


def test_checks_and_events_are_rows() -> None:
    check = AdmissionCheckState(name="c", state="Retry", message="no nodes")
    assert check_rows(QueueUnit(status=QueueUnitStatus(admission_checks=(check,)))) == [
        ("c", "Retry", "no nodes")
    ]
    events = [
        Event("2026-11-26T12:59:00Z", "Normal", "B", "job/a", "second"),
        Event("2026-11-26T12:00:00Z", "Warning", "A", "queueunit/a", "first"),
    ]
    assert event_rows(events, WALL) == [
        ("60m", "Warning", "A", "queueunit/a", "first"),
        ("60s", "Normal", "B", "job/a", "second"),
    ]
