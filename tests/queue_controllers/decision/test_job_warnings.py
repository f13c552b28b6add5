"""Probable mistakes of a job's user are reported on the job, once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_controllers.decision.actions import EventType, RecordJobEvent
from queue_controllers.decision.job_ownership import NAMES_NOTHING, Ownership
from queue_controllers.decision.job_view import Decision, JobMemory
from queue_controllers.decision.job_warnings import KEY_WITHOUT_EFFECT, MAX_SHOWN_KEYS
from queue_controllers.decision.pending import QUEUED
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Condition, OwnerReference, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import NOTHING_REQUESTED, PODS_ELSEWHERE, QUOTA_RESERVED
from shared_api.well_known_labels import QUOTA_NAME
from tests.job_situations import (
    ADMITTED,
    RUNS,
    SUCCEEDED,
    TWO_RUNNING,
    action_names,
    facts,
    look,
    unit,
)

MISSPELLED = {"quota.scheduling.koordinator.sh/nam": "gold"}
LEFT_ALONE = Ownership(managed=False, reason=NAMES_NOTHING)
OWNER = OwnerReference(api_version="v1", kind="X", name="x", uid=Uid("1"), controller=True)


def warnings(decision: Decision) -> list[str]:
    """Return the texts of its events; keys of our own prefix are copied to the unit in addition."""
    return [each.message for each in decision.actions if isinstance(each, RecordJobEvent)]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(
            facts(labels=MISSPELLED), [f"event {KEY_WITHOUT_EFFECT}"], id="it is suspended"
        ),
        pytest.param(facts(labels=MISSPELLED, suspended=False), [], id="it runs"),
        pytest.param(facts(labels={"team": "a"}), [], id="its keys are others'"),
        pytest.param(
            facts(labels=MISSPELLED, owner_references=(OWNER,)), [], id="a part of another object"
        ),
        pytest.param(
            facts(labels=MISSPELLED, status=StatusFacts(outcome=SUCCEEDED)), [], id="it has ended"
        ),
    ],
)
def test_a_job_that_is_left_alone(job: JobFacts, want: list[str]) -> None:
    decision = look(job, ownership=LEFT_ALONE)
    assert action_names(decision.actions) == want
    assert look(job, ownership=LEFT_ALONE, memory=decision.memory).actions == ()


def test_the_event_names_the_correction_and_the_effect() -> None:
    (event,) = look(facts(labels=MISSPELLED), ownership=LEFT_ALONE).actions
    assert isinstance(event, RecordJobEvent)
    assert event.type is EventType.WARNING
    assert "Did you mean quota.scheduling.koordinator.sh/name?" in event.message
    assert event.message.endswith("The job is suspended, and no queue will resume it.")


def test_a_queued_job_is_warned_as_well() -> None:
    job = facts(annotations={"koord-queue/runing-timeout": "5m"})
    decision = look(job, unit("Enqueued"))
    (message,) = warnings(decision)
    assert message.endswith("Did you mean koord-queue/running-timeout?")
    assert warnings(look(job, unit("Enqueued"), memory=decision.memory)) == []
    assert warnings(look(job, unit("Succeed"))) == []


def test_a_warning_alone_needs_no_reconcile() -> None:
    decision = look(facts(labels=MISSPELLED), ownership=LEFT_ALONE)
    assert decision.is_complete


def test_many_keys_are_one_event() -> None:
    keys = {f"koord-queue/x{number}": "" for number in range(MAX_SHOWN_KEYS + 2)}
    (message,) = warnings(look(facts(annotations=keys), unit("Enqueued")))
    assert message.endswith("And 2 more.")
    assert len(message) < 1024


@pytest.mark.parametrize(
    ("suspended", "want"), [(True, "this one stays suspended"), (False, "this one runs at once")]
)
def test_an_unmanaged_job_among_queued_ones(suspended: bool, want: str) -> None:
    job = facts(labels={}, suspended=suspended)
    asked: dict[str, Any] = {"ownership": LEFT_ALONE, "has_queued_neighbors": True}
    decision = look(job, **asked)
    (event,) = decision.actions
    assert isinstance(event, RecordJobEvent)
    assert want in event.message
    assert look(job, memory=decision.memory, **asked).actions == ()
    assert look(job, ownership=LEFT_ALONE, memory=JobMemory()).actions == ()


@pytest.mark.parametrize("why", ["namespace kube-system is never managed", "it belongs to Kueue"])
def test_an_unmanaged_job_of_another_owner_gets_no_event(why: str) -> None:
    elsewhere = Ownership(managed=False, reason=why)
    decision = look(facts(labels=MISSPELLED), ownership=elsewhere, has_queued_neighbors=True)
    assert decision.actions == ()


def test_an_owner_that_does_not_count_is_named_once() -> None:
    claims = Ownership(
        managed=True, reason="", ignored_owner="Job small owns it, and makes no Jobs"
    )
    decision = look(facts(), unit("Enqueued"), ownership=claims)
    assert warnings(decision) == [
        "Job small owns it, and makes no Jobs. It is queued as if it had no owner"
    ]
    assert warnings(look(facts(), unit("Enqueued"), ownership=claims, memory=decision.memory)) == []


def waiting(status: str = "False", reason: str = "OverQuotaMax") -> QueueUnit:
    message = "needs more cpu than the max of quota gold leaves"
    reserved = Condition(type=QUOTA_RESERVED, status=status, reason=reason, message=message)
    return unit("Enqueued", conditions=(reserved,))


def test_a_pending_job_gets_the_name_of_its_unit() -> None:
    decision = look(facts(), waiting())
    (event,) = decision.actions
    assert isinstance(event, RecordJobEvent)
    assert (event.reason, event.type) == (QUEUED, EventType.NORMAL)
    assert event.message == (
        "Queue unit main waits in queue gold: needs more cpu than the max of quota gold leaves"
    )
    assert look(facts(), waiting(), memory=decision.memory).actions == ()


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(unit("Enqueued"), id="no reason is written yet: it may start at once"),
        pytest.param(waiting("True"), id="its quota is reserved"),
    ],
)
def test_a_job_that_may_start_costs_no_event(of: QueueUnit) -> None:
    assert look(facts(), of).actions == ()


def test_a_reason_that_needs_an_action_is_reported_instead() -> None:
    assert action_names(look(facts(), waiting(reason="NoQuota")).actions) == ["event NoQuota"]


def admitted(phase: str, reason: str) -> QueueUnit:
    message = (
        "It requests no cpu, which quota gold governs: nothing of the quota is reserved for it"
    )
    reserved = Condition(type=QUOTA_RESERVED, status="True", reason=reason, message=message)
    return unit(phase, admissions=ADMITTED, conditions=(reserved,))


def test_a_job_that_uses_nothing_of_its_quota_is_warned_at_its_release() -> None:
    decision = look(facts(), admitted("Dequeued", NOTHING_REQUESTED))
    assert action_names(decision.actions) == ["release", f"event {NOTHING_REQUESTED}"]
    event = decision.actions[-1]
    assert isinstance(event, RecordJobEvent)
    assert event.type is EventType.WARNING
    assert event.message == (
        "It requests no cpu, which quota gold governs: nothing of the quota is reserved for it."
        " To have its pods counted, set resources.requests of their containers"
    )


def test_a_job_that_uses_nothing_of_its_quota_is_warned_once() -> None:
    runs = facts(suspended=False, status=RUNS)
    decision = look(runs, admitted("Running", NOTHING_REQUESTED), pods=TWO_RUNNING)
    assert f"event {NOTHING_REQUESTED}" in action_names(decision.actions)
    of = admitted("Running", NOTHING_REQUESTED)
    again = look(runs, of, pods=TWO_RUNNING, memory=decision.memory)
    assert f"event {NOTHING_REQUESTED}" not in action_names(again.actions)


def test_a_job_that_uses_its_quota_is_not_warned() -> None:
    assert action_names(look(facts(), admitted("Dequeued", "QuotaReserved")).actions) == ["release"]


def test_a_job_without_a_required_request_is_told_what_to_do() -> None:
    (event,) = look(facts(), waiting(reason="RequestsMissing")).actions
    assert isinstance(event, RecordJobEvent)
    assert event.reason == "RequestsMissing"
    assert "in resources.requests of its containers" in event.message


def elsewhere(status: str, message: str) -> QueueUnit:
    moved = Condition(type=PODS_ELSEWHERE, status=status, reason=PODS_ELSEWHERE, message=message)
    return unit("Running", admissions=ADMITTED, conditions=(moved,))


def test_a_job_whose_pods_name_another_quota_is_told_in_the_words_of_its_unit() -> None:
    runs = facts(suspended=False, status=RUNS)
    memory = JobMemory()
    got: list[list[str]] = []
    for status, message in (
        ("True", "in quota x"),
        ("True", "in quota x"),
        ("True", "in quotas x, y"),
        ("False", "nowhere"),
        ("True", "in quota x"),
    ):
        decision = look(runs, elsewhere(status, message), pods=TWO_RUNNING, memory=memory)
        got.append([each for each in warnings(decision) if each.startswith("in ")])
        memory = decision.memory
    assert got == [["in quota x"], [], ["in quotas x, y"], [], ["in quota x"]]


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({QUOTA_NAME: "silver"}, [], id="it is charged there"),
        pytest.param({}, ["It names no quota any more"], id="it has none, and stays"),
    ],
)
def test_a_pod_with_another_label_is_not_told_that_the_label_is_ignored(
    labels: dict[str, str], want: list[str]
) -> None:
    job = facts(labels=labels, suspended=False, status=RUNS)
    job = replace(job, kind=replace(job.kind, held_by_gates=True))
    texts = warnings(look(job, unit("Running", admissions=ADMITTED), pods=TWO_RUNNING))
    assert [text[: len("It names no quota any more")] for text in texts] == want
