"""Evictions that others request: every reason, from every phase, to its end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnitStatus, RecordJobEvent, SuspendJob
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Condition
from shared_api.objects.pod import TemplateMeta
from shared_api.objects.queue_unit import (
    Admission,
    AdmissionCheckState,
    QueueUnit,
    ReclaimState,
)
from shared_api.queue_unit_phases import CHARGED_PHASES, Phase
from shared_api.well_known_labels import JOB_CREATED_AT, QUOTA_NAME
from tests.job_situations import (
    ADMITTED,
    EVICTED,
    RELEASED,
    RUNS,
    TEN,
    TWO_RUNNING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

REASONS = ["Preempted", "Reclaimed", "HoldAndDrain", "ItsReasonIsItsOwn"]
ASKED_BACK = (Admission(name="main", replicas=2, reclaim_state=ReclaimState(replicas=2)),)
RETRY = "AdmissionCheck"


def asked(phase: str, reason: str, **more: Any) -> QueueUnit:
    """Return a unit whose eviction is requested, with counts of its pods."""
    evicted = Condition(
        type="Evicted", status="True", reason=reason, message="for urgent", last_transition_time=TEN
    )
    return unit(phase, admissions=ASKED_BACK, conditions=(evicted,), **more)


def freed_after(of: QueueUnit, **more: Any) -> tuple[dict[str, Any], RecordJobEvent]:
    """Return the status that releases a unit whose job has stopped, and the job's event."""
    freed, event = look(facts(annotations=RELEASED), of, **more).actions
    assert isinstance(freed, PatchUnitStatus)
    assert isinstance(event, RecordJobEvent)
    return freed.status, event


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("phase", sorted(CHARGED_PHASES))
def test_a_stopped_job_is_released_at_once_from_any_phase(phase: str, reason: str) -> None:
    """[ctl-8] The reclaimed replicas go with the admissions."""
    status, event = freed_after(asked(phase, reason))
    assert (status["phase"], status["admissions"]) == ("Enqueued", [])
    assert "requeueState" not in status, "it is not late: it does not back off"
    assert (event.reason, event.message) == (
        reason,
        "Evicted: for urgent. It waits in the queue again",
    )


@pytest.mark.parametrize("reason", [*REASONS, RETRY])
@pytest.mark.parametrize("phase", ["Dequeued", "SchedSucceed", "Running"])
def test_a_running_job_is_stopped_first(phase: str, reason: str) -> None:
    decision = look(facts(suspended=False, status=RUNS), asked(phase, reason), pods=TWO_RUNNING)
    suspend, event = decision.actions
    assert isinstance(suspend, SuspendJob)
    assert isinstance(event, RecordJobEvent)
    assert event.reason == reason


@pytest.mark.parametrize(
    ("wanted", "until"), [(None, "10:00:10"), (5, "10:00:10"), (120, "10:02:00")]
)
@pytest.mark.parametrize("phase", sorted(CHARGED_PHASES - {Phase.RESERVED}))
def test_a_check_that_wants_a_retry_sets_a_minimum_backoff(
    phase: str, wanted: int | None, until: str
) -> None:
    said = AdmissionCheckState(name="nodes", state="Retry", requeue_after_seconds=wanted)
    status, event = freed_after(asked(phase, RETRY, admission_checks=(said,)))
    assert (status["phase"], status["admissions"]) == ("TimeoutBackoff", [])
    assert status["requeueState"] == {"count": 1, "requeueAt": f"2026-11-01T{until}Z"}
    (evicted, *_) = (each for each in status["conditions"] if each["type"] == "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", RETRY)
    assert event.message.endswith("from the time that its queue unit main names")


@pytest.mark.parametrize("replicas", [0, 2])
def test_reclaimed_replicas_alone_have_no_effect(replicas: int) -> None:
    """[ctl-9], [ctl-10], [ctl-11], [ctl-33] Here the condition alone requests an eviction.

    Upstream's controllers choose pods and lower the replicas; here the scheduler writes admissions.
    """
    admissions = (
        Admission(name="main", replicas=2, reclaim_state=ReclaimState(replicas=replicas)),
    )
    of = unit(Phase.RUNNING, admissions=admissions)
    runs = look(facts(suspended=False, status=RUNS), of, pods=TWO_RUNNING)
    assert not [each for each in action_names(runs.actions) if each in {"suspend", "move Enqueued"}]


def test_a_job_that_is_about_to_end_is_not_stopped_any_more() -> None:
    """If it were suspended now, its operator would forget its end, and run it again."""
    ending = facts(suspended=False, status=StatusFacts(running=True, is_ending=True))
    assert action_names(look(ending, EVICTED, pods=TWO_RUNNING).actions) == []
    again = facts(suspended=False, status=RUNS)
    assert "suspend" in action_names(look(again, EVICTED, pods=TWO_RUNNING).actions)


def test_an_eviction_that_is_withdrawn_lets_the_job_run_on() -> None:
    over = unit(
        "Running",
        admissions=(Admission(name="main", replicas=2, running=2),),
        conditions=(Condition(type="Evicted", status="False", reason="Preempted"),),
    )
    assert look(facts(suspended=False, status=RUNS), over, pods=TWO_RUNNING).actions == ()


QUEUE = "koord-queue/queue-name"


def named(*, labels: dict[str, str] | None = None, **changes: Any) -> JobFacts:
    """Return the job with more labels."""
    job = facts(**changes)
    meta = msgspec.structs.replace(job.metadata, labels={**job.metadata.labels, **(labels or {})})
    return msgspec.structs.replace(job, metadata=meta)


def in_queue(of: QueueUnit, queue: str, labels: dict[str, str]) -> QueueUnit:
    meta = msgspec.structs.replace(of.metadata, labels={**of.metadata.labels, **labels})
    return msgspec.structs.replace(
        of, metadata=meta, spec=msgspec.structs.replace(of.spec, queue=queue)
    )


@pytest.mark.parametrize("phase", ["Reserved", "Dequeued", "SchedSucceed", "Running"])
@pytest.mark.parametrize(
    ("job", "before", "want"),
    [
        pytest.param(named(labels={QUEUE: "fast"}), "", True, id="by a label"),
        pytest.param(facts(annotations={QUEUE: "fast"}), "", True, id="by an annotation"),
        pytest.param(named(labels={QUEUE: "fast"}), "slow", True, id="another than before"),
        pytest.param(facts(), "slow", True, id="none any more: it goes to that of its quota"),
        pytest.param(named(labels={QUEUE: "slow"}), "slow", False, id="the same as before"),
        pytest.param(named(labels={QUEUE: "gold"}), "", False, id="that of its quota"),
        pytest.param(facts(), "", False, id="none, as before"),
    ],
)
def test_a_stopped_job_that_names_another_queue_moves_there(
    phase: str, job: JobFacts, before: str, want: bool
) -> None:
    of = unit(phase, admissions=ADMITTED)
    if before:
        of = in_queue(of, before, {QUEUE: before})
    actions = look(job, of).actions
    writes = [each for each in actions if isinstance(each, PatchUnitStatus)]
    reasons = [
        (each["reason"], "another queue than" in each["message"])
        for write in writes
        for each in write.status["conditions"]
        if each["type"] == "Evicted"
    ]
    assert reasons == [("JobChanged", True)] * want


def test_a_running_one_stays_where_it_is() -> None:
    job = named(labels={QUEUE: "fast"}, suspended=False, status=RUNS)
    of = unit("Dequeued", admissions=ADMITTED)
    want = ["move Running", "event LabelChangeIgnored"]
    assert action_names(look(job, of, pods=TWO_RUNNING).actions) == want


def test_a_unit_made_by_hand_stays_in_its_queue() -> None:
    of = unit("Dequeued", admissions=ADMITTED)
    marks = {k: v for k, v in of.metadata.annotations.items() if k != JOB_CREATED_AT}
    of = msgspec.structs.replace(
        of, metadata=msgspec.structs.replace(of.metadata, annotations=marks)
    )
    assert action_names(look(named(labels={QUEUE: "fast"}), of).actions) == ["release"]


def test_a_job_that_names_the_same_queue_is_not_moved() -> None:
    """The queue is that of a namespace's quota, which has changed by now, or is not known yet."""
    of = in_queue(unit("Dequeued", admissions=ADMITTED), "bronze", {})
    assert action_names(look(facts(), of).actions) == ["release"]


# --- a started job stays where it was admitted ----------------------------------------------------


@pytest.mark.parametrize(
    ("of_job", "of_template", "want"),
    [
        pytest.param("gold", "", "", id="the job names the quota that it runs in"),
        pytest.param("gold", "silver", "silver", id="its template names another since its start"),
        pytest.param("silver", "", "silver", id="its own label names another"),
        pytest.param("silver", "gold", "", id="its own label does, and the template's counts"),
        pytest.param("", "gold", "", id="only the template names one"),
    ],
)
def test_which_jobs_are_told_that_they_stay(of_job: str, of_template: str, want: str) -> None:
    of = facts(suspended=False, status=RUNS, annotations=RELEASED)
    (pod_set,) = of.pod_sets
    template = msgspec.structs.replace(
        pod_set.template, metadata=TemplateMeta(labels=quota_label(of_template))
    )
    of = msgspec.structs.replace(
        of,
        metadata=msgspec.structs.replace(of.metadata, labels=quota_label(of_job)),
        pod_sets=(msgspec.structs.replace(pod_set, template=template),),
    )
    running = unit("Running", admissions=ADMITTED)
    actions = look(of, running, pods=TWO_RUNNING).actions
    told_of = [each for each in actions if isinstance(each, RecordJobEvent)]
    notes = [each.message for each in told_of if each.reason == "LabelChangeIgnored"]
    assert bool(notes) is bool(want)
    for note in notes:
        assert note.startswith(f"It names quota {want}, and is charged to quota gold, where it was")


def quota_label(name: str) -> dict[str, str]:
    return {QUOTA_NAME: name} if name else {}


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"spec": "smaller"}, id="it requests less"),
        pytest.param({"labels": {QUOTA_NAME: "bronze"}}, id="another quota"),
    ],
)
def test_a_unit_is_corrected_before_it_is_released(edit: dict[str, Any]) -> None:
    """Released as it was edited, it would be admitted for that at once, evicted, and so on."""
    of = unit("Dequeued", admissions=ADMITTED, conditions=evicted("JobChanged"))
    if "spec" in edit:
        (pod_set,) = of.spec.pod_set
        spec = msgspec.structs.replace(
            of.spec, pod_set=(msgspec.structs.replace(pod_set, count=1),)
        )
        of = msgspec.structs.replace(of, spec=spec)
    else:
        meta = msgspec.structs.replace(of.metadata, labels=edit["labels"])
        of = msgspec.structs.replace(of, metadata=meta)
    assert action_names(look(facts(), of).actions) == ["patch unit"]
    right = unit("Dequeued", admissions=ADMITTED, conditions=evicted("JobChanged"))
    assert action_names(look(facts(), right).actions) == ["move Enqueued", "event JobChanged"]
