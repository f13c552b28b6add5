"""Decisions about a job, row by row: from a situation to the actions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from queue_controllers.decision.actions import (
    PatchUnit,
    PatchUnitStatus,
    ReleaseJob,
    SuspendJob,
)
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_settings import Adopt, JobSettings
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory, Moment
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.queue_unit_phases import salvage_unit
from shared_api.well_known_labels import RELEASED_AT, SUSPEND
from tests.job_situations import (
    ADMITTED,
    EVICTED,
    FAILED,
    HELD,
    JOB,
    NOW,
    RELEASED,
    RUNS,
    SUCCEEDED,
    TEN,
    TWO_PENDING,
    TWO_RUNNING,
    TWO_TERMINATING,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

ONE_ENDED = PodCounts(total=1)
FRESH = JobMemory(arrived=True)
AT_BIRTH = replace(JOB, held_only_at_creation=True)
NEW = facts(suspended=False, status=StatusFacts(is_empty=True))


@pytest.mark.parametrize(
    ("job", "more", "want"),
    [
        pytest.param(facts(), {}, ["create"], id="suspended: it gets a unit"),
        pytest.param(NEW, {"memory": FRESH}, ["suspend", "create"], id="it arrives unsuspended"),
        pytest.param(
            NEW,
            {"memory": FRESH, "pods": TWO_PENDING},
            ["suspend", "create"],
            id="it arrives unsuspended and has pods already",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            {"pods": TWO_RUNNING},
            ["create"],
            id="it runs when it is first seen",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            {"pods": TWO_RUNNING, "settings": JobSettings(adopt=Adopt.NEVER)},
            ["suspend", "create"],
            id="it runs when it is first seen, and nothing is adopted",
        ),
        pytest.param(
            facts(suspended=False), {}, ["suspend", "create"], id="first seen without a living pod"
        ),
        pytest.param(
            replace(NEW, kind=AT_BIRTH),
            {"memory": FRESH},
            ["create"],
            id="it arrives unsuspended, and is held at creation or never",
        ),
        pytest.param(
            replace(NEW, kind=AT_BIRTH),
            {"memory": FRESH, "settings": JobSettings(adopt=Adopt.NEVER)},
            ["suspend", "create"],
            id="the same, and nothing is adopted",
        ),
        pytest.param(facts(kind=AT_BIRTH), {}, ["create"], id="born suspended"),
        pytest.param(
            facts(kind=AT_BIRTH, suspended=False, annotations=RELEASED),
            {},
            ["suspend", "create"],
            id="created suspended, released, and its unit is gone",
        ),
        pytest.param(facts(status=StatusFacts(outcome=SUCCEEDED)), {}, [], id="it has ended"),
        pytest.param(facts(deletion_timestamp=TEN), {}, [], id="it is being deleted"),
        pytest.param(
            facts(why_not_suspendable="spec.x"),
            {},
            ["event CanNotBeHeld"],
            id="ctl-34 it would not survive",
        ),
        pytest.param(
            facts(why_not_suspendable="spec.x"),
            {"memory": JobMemory(reported_events=frozenset({"CanNotBeHeld"}))},
            [],
            id="it would not survive, and that was reported",
        ),
        pytest.param(
            NEW, {"ownership": Ownership(managed=False, reason="")}, [], id="it is not managed"
        ),
        pytest.param(
            facts(pod_sets=facts().pod_sets * 33), {}, ["event TooManyPodSets"], id="33 pod sets"
        ),
        pytest.param(facts(cpu="1e999"), {}, ["create"], id="an absurd quantity: it waits"),
        pytest.param(
            facts(), {"name_is_taken": True}, ["create", "event NameCut"], id="name taken"
        ),
    ],
)
def test_a_job_without_a_unit(job: JobFacts, more: dict[str, Any], want: list[str]) -> None:
    assert action_names(look(job, **more).actions) == want


@pytest.mark.parametrize(
    ("job", "phase", "more", "want"),
    [
        pytest.param(facts(), "Enqueued", {}, [], id="held and waiting: nothing"),
        pytest.param(facts(), "Reserved", {}, [], id="held and reserved: nothing"),
        pytest.param(facts(), "TimeoutBackoff", {}, [], id="held and backed off: nothing"),
        pytest.param(facts(), "SchedFailed", {}, [], id="held, and its nodes were not found"),
        pytest.param(facts(), "Dequeued", {}, ["release"], id="held and dequeued: released"),
        pytest.param(facts(), "SchedSucceed", {}, ["release"], id="held, and nodes reserved"),
        pytest.param(
            facts(), "Dequeued", {"pods": TWO_TERMINATING}, [], id="old pods live: not released"
        ),
        pytest.param(
            facts(),
            "Dequeued",
            {"pods": PodCounts(total=1, terminating=1)},
            [],
            id="an ended pod object is still being deleted: not released",
        ),
        pytest.param(
            facts(suspended=False),
            "Dequeued",
            {"pods": TWO_PENDING},
            [],
            id="pods are created",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            "Dequeued",
            {"pods": TWO_RUNNING},
            ["move Running"],
            id="all its pods run",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS), "Running", {}, [], id="it restarts: stays Running"
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            "Enqueued",
            {},
            ["suspend", "event SuspendedAgain"],
            id="resumed by hand while it waits",
        ),
        pytest.param(
            facts(suspended=False, status=RUNS),
            "Reserved",
            {"pods": TWO_RUNNING},
            ["suspend", "event SuspendedAgain"],
            id="resumed by hand, and its pods run",
        ),
        pytest.param(
            facts(annotations=RELEASED),
            "Running",
            {},
            ["release", "event Resumed"],
            id="suspended by hand while it ran: resumed",
        ),
        pytest.param(
            facts(status=StatusFacts(outcome=SUCCEEDED)),
            "Running",
            {},
            ["move Succeed"],
            id="it succeeded",
        ),
        pytest.param(
            facts(status=StatusFacts(outcome=FAILED)),
            "Enqueued",
            {},
            ["move Failed"],
            id="it failed before it ever ran",
        ),
        pytest.param(
            facts(deletion_timestamp=TEN),
            "Dequeued",
            {},
            ["move Failed"],
            id="deleted: not resumed, and its usage released",
        ),
        pytest.param(facts(), "Succeed", {}, [], id="final: nothing"),
    ],
)
def test_a_job_with_a_unit(
    job: JobFacts, phase: str, more: dict[str, Any], want: list[str]
) -> None:
    admissions = ADMITTED if phase not in {"Enqueued", "TimeoutBackoff"} else ()
    decision = look(job, unit(phase, admissions=admissions), **more)
    assert action_names(decision.actions) == want


def test_a_silent_operator_has_a_minute() -> None:
    job = facts(annotations=RELEASED, status=RUNS)
    first = look(job, EVICTED)
    assert (first.actions, first.requeue_after_seconds) == ((), 60.0)
    second = look(job, EVICTED, memory=first.memory, moment=NOW.after(59.0))
    assert (second.actions, second.requeue_after_seconds) == ((), 1.0)
    third = look(job, EVICTED, memory=second.memory, moment=NOW.after(60.0))
    (noted,) = third.actions
    assert isinstance(noted, PatchUnitStatus)
    assert noted.status["conditions"][-1]["type"] == "OperatorSilent"
    silent = Condition(type="OperatorSilent", status="True", reason="X", last_transition_time=TEN)
    of = unit("Running", admissions=ADMITTED, conditions=(*evicted(), silent))
    fourth = look(job, of, memory=third.memory, moment=NOW.after(61.0))
    assert action_names(fourth.actions) == ["move Enqueued", "event Preempted"]


@pytest.mark.parametrize(
    ("let_go", "want"),
    [
        pytest.param(StatusFacts(), ["move Enqueued", "event Preempted"], id="seen to resume it"),
        pytest.param(HELD, [], id="not seen: the status may be from before the release"),
        pytest.param(
            StatusFacts(is_empty=True), [], id="no status yet: it may not have reconciled"
        ),
        pytest.param(StatusFacts(is_at_odds=True), [], id="its counts differ: they have to follow"),
    ],
)
@pytest.mark.parametrize(
    "since",
    [
        pytest.param("2026-11-01T09:51:00Z", id="in the second of the release"),
        pytest.param("2026-11-01T09:50:58Z", id="by a slow clock"),
    ],
)
def test_an_operator_that_was_seen_to_resume_it_needs_no_time(
    since: str, let_go: StatusFacts, want: list[str]
) -> None:
    released = {RELEASED_AT: "2026-11-01T09:51:00.250000Z"}
    running = facts(annotations=released, suspended=False, status=let_go)
    seen = look(running, unit("Dequeued", admissions=ADMITTED))
    held = StatusFacts(suspended=True, suspended_since=Timestamp(since))
    job = facts(annotations=released, status=held)
    assert action_names(look(job, EVICTED, memory=seen.memory).actions) == want


def test_what_was_seen_belongs_to_one_release() -> None:
    """Another follows, and its response is lost: none of it is seen before the eviction."""
    first, second = ({RELEASED_AT: f"2026-11-01T09:5{minute}:00.000000Z"} for minute in (0, 1))
    seen = look(
        facts(annotations=first, suspended=False, status=RUNS),
        unit("Dequeued", admissions=ADMITTED),
    )
    held = StatusFacts(suspended=True, suspended_since=Timestamp("2026-11-01T09:50:30Z"))
    for release, want in ((first, ["move Enqueued", "event Preempted"]), (second, [])):
        job = facts(annotations=release, status=held)
        assert action_names(look(job, EVICTED, memory=seen.memory).actions) == want


def test_a_release_annotates_time_quota_and_unit() -> None:
    (release,) = look(
        facts(annotations={SUSPEND: "true"}), unit("Dequeued", admissions=ADMITTED)
    ).actions
    assert isinstance(release, ReleaseJob)
    stamp = release.stamps["main"]
    assert stamp.labels == {"quota.scheduling.koordinator.sh/name": "gold"}
    assert stamp.annotations == {
        "koord-queue/related-queueunit": "team/main",
        "koord-queue/stamped-quota": "gold",
    }
    assert release.released_at == "2026-11-01T10:00:00.000000Z"
    assert release.annotation == "false"


@pytest.mark.parametrize(
    ("admitted_at", "released_at", "want"),
    [
        pytest.param("2026-11-01T09:50:30Z", True, True, id="released since: others did it"),
        pytest.param("2026-11-01T09:55:00Z", True, False, id="released for an earlier admission"),
        pytest.param("2026-11-01T09:55:00Z", False, False, id="never released"),
        pytest.param(None, True, False, id="admitted by hand, without a time"),
    ],
)
def test_a_resume_is_reported_when_others_suspended(
    admitted_at: str | None, released_at: bool, want: bool
) -> None:
    job = facts(annotations=RELEASED if released_at else {})
    of = unit("Dequeued", admissions=ADMITTED, last_allocate_time=admitted_at)
    assert ("event Resumed" in action_names(look(job, of).actions)) is want


TIMED = JobSettings(running_timeout_seconds=600)


@pytest.mark.parametrize(
    ("of", "pods", "seconds", "want"),
    [
        pytest.param(
            unit("Dequeued", admissions=ADMITTED),
            PodCounts(),
            60,
            (["write status", "RecordUnitEvent"], None),
            id="the time is up: evicted",
        ),
        pytest.param(
            unit("Dequeued", admissions=ADMITTED), PodCounts(), 30, ([], 30.0), id="not yet"
        ),
        pytest.param(
            unit("Dequeued", admissions=ADMITTED),
            TWO_PENDING,
            61,
            (["write status", "RecordUnitEvent"], None),
            id="late: evicted",
        ),
        pytest.param(
            unit("Running", admissions=ADMITTED), PodCounts(), 61, ([], 60.0), id="it ran once"
        ),
        pytest.param(
            unit("Running", adopted=True, admissions=ADMITTED),
            TWO_PENDING,
            61,
            ([], None),
            id="adopted: never late",
        ),
    ],
)
def test_running_timeout(
    of: QueueUnit, pods: PodCounts, seconds: float, want: tuple[list[str], float | None]
) -> None:
    job = facts(annotations=RELEASED, suspended=False, status=RUNS)
    moment = Moment(monotonic=1.0, wall=datetime(2026, 11, 1, 10, 0, tzinfo=UTC)).after(seconds)
    decision = look(job, of, pods=pods, moment=moment, settings=TIMED)
    assert (action_names(decision.actions), decision.requeue_after_seconds) == want


def test_conditions_of_the_past_become_false() -> None:
    """A unit that runs in the end is no longer contested, and its operator has reported."""
    conditions = tuple(
        Condition(type=each, status="True", reason="X", message="m", last_transition_time=TEN)
        for each in ("SuspendContested", "OperatorSilent")
    )
    of = unit("Dequeued", admissions=ADMITTED, conditions=conditions)
    (move,) = look(facts(suspended=False, status=RUNS), of, pods=TWO_RUNNING).actions
    assert isinstance(move, PatchUnitStatus)
    shown = {each["type"]: each["status"] for each in move.status["conditions"]}
    assert (shown["SuspendContested"], shown["OperatorSilent"]) == ("False", "False")


@pytest.mark.parametrize(
    ("annotations", "configured", "want"),
    [
        pytest.param({}, False, False, id="the field alone"),
        pytest.param({}, True, True, id="configured: the annotation as well"),
        pytest.param({SUSPEND: "false"}, False, True, id="there is one: it is set"),
    ],
)
def test_what_holding_writes(annotations: dict[str, str], configured: bool, want: bool) -> None:
    job = facts(suspended=False, status=StatusFacts(is_empty=True), annotations=annotations)
    settings = JobSettings(held_by_annotation=configured)
    suspend = look(job, memory=FRESH, settings=settings).actions[0]
    assert isinstance(suspend, SuspendJob)
    assert suspend.annotate is want


def test_a_job_that_was_never_released_is_never_late() -> None:
    job = facts(suspended=False, status=RUNS)
    decision = look(job, unit("Dequeued", admissions=ADMITTED), settings=TIMED)
    assert (decision.actions, decision.requeue_after_seconds) == ((), 60.0)  # whether it has pods


def test_running_waits_half_a_second_for_the_other_pods() -> None:
    job = facts(suspended=False, status=RUNS)
    one = PodCounts(total=2, living=2, running=1, running_of_sets={"main": 1})
    of = unit("Dequeued", admissions=ADMITTED)
    first = look(job, of, pods=one)
    assert (first.actions, first.requeue_after_seconds) == ((), 0.5)
    (move,) = look(job, of, pods=one, memory=first.memory, moment=NOW.after(0.5)).actions
    assert isinstance(move, PatchUnitStatus)
    assert move.status["phase"] == "Running"
    assert move.status["admissions"] == [{"name": "main", "replicas": 2, "running": 1}]


def test_usage_of_finished_work_is_released_once() -> None:
    job = facts(count=1, suspended=False, status=RUNS)
    of = unit("Running", admissions=(Admission(name="main", replicas=2, running=1),))
    one = PodCounts(total=2, living=1, running=1, running_of_sets={"main": 1})
    (write,) = look(job, of, pods=one).actions
    assert isinstance(write, PatchUnitStatus)
    assert write.status == {"reclaimablePods": [{"name": "main", "count": 1}]}
    (empty,) = facts(count=0).pod_sets
    done = (msgspec.structs.replace(empty, is_done=True),)
    last = facts(suspended=False, status=RUNS, pod_sets=done)
    assert look(last, of, pods=one).actions == ()


def test_growth_of_a_released_job_is_recorded() -> None:
    job = facts(count=5, suspended=False, status=RUNS)
    of = unit("Running", admissions=(Admission(name="main", replicas=2, running=2),))
    patch, event = look(job, of, pods=TWO_RUNNING).actions
    assert isinstance(patch, PatchUnit)
    assert [each["count"] for each in patch.body["spec"]["podSet"]] == [5]
    assert action_names((event,)) == ["event Grown"]


def test_a_waiting_unit_follows_its_job() -> None:
    (patch,) = look(facts(count=3), unit()).actions
    assert isinstance(patch, PatchUnit)
    assert patch.body["spec"]["request"] == {"cpu": "3"}
    reserved = unit("Reserved", admissions=ADMITTED)
    assert action_names(look(facts(count=1), reserved).actions) == []


def test_a_unit_made_by_hand_for_the_job_is_taken_over() -> None:
    made = unit("Dequeued")
    meta = msgspec.structs.replace(made.metadata, annotations={})
    (patch,) = look(facts(), msgspec.structs.replace(made, metadata=meta)).actions
    assert isinstance(patch, PatchUnit)
    assert patch.body["metadata"]["annotations"] == {
        "koord-queue/managed-by": "koord-queue-controllers"
    }


def test_nothing_is_done_twice() -> None:
    """A reconcile of the result of the writes before finds nothing to do."""
    suspended = facts(suspended=True, status=StatusFacts(is_empty=True))
    assert look(suspended, unit(), memory=FRESH).actions == ()
    released = facts(annotations=RELEASED, suspended=False)
    assert look(released, unit("Dequeued", admissions=ADMITTED)).actions == ()


@pytest.mark.parametrize(
    ("phase", "pods", "managed", "want"),
    [
        pytest.param("Running", ONE_ENDED, True, ["move Failed"], id="its pods have ended"),
        pytest.param("Running", ONE_ENDED, False, ["move Failed"], id="not managed"),
        pytest.param("Running", TWO_TERMINATING, True, [], id="pods live"),
        pytest.param("Enqueued", PodCounts(), True, ["move Failed"], id="it is in the queue"),
        pytest.param("Succeed", PodCounts(), True, [], id="it had ended before"),
    ],
)
def test_a_deleted_job_whose_object_stays_releases_its_quota(
    phase: str, pods: PodCounts, managed: bool, want: list[str]
) -> None:
    """A finalizer keeps the job, or an ended pod of one that is deleted in the foreground."""
    job = facts(suspended=False, status=RUNS, deletion_timestamp=TEN)
    of = unit(phase, admissions=ADMITTED if phase in {"Dequeued", "Running"} else ())
    decision = look(job, of, pods=pods, ownership=Ownership(managed=managed, reason=""))
    assert action_names(decision.actions) == want


def test_a_pending_unit_with_an_invalid_demand_gets_it_again() -> None:
    broken = salvage_unit(msgspec.to_builtins(unit()), "odd")
    (patch,) = look(facts(), broken).actions
    assert isinstance(patch, PatchUnit)
    assert [each["count"] for each in patch.body["spec"]["podSet"]] == [2]
