"""The phases of a QueueUnit: legal and illegal transitions, which are charged, and conditions."""

from __future__ import annotations

import msgspec
import pytest

from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, find_condition
from shared_api.objects.queue_unit import (
    Admission,
    Placement,
    PodState,
    QueueUnit,
    QueueUnitSpec,
    QueueUnitStatus,
    ReclaimablePod,
    RequeueState,
)
from shared_api.queue_unit_phases import (
    ADOPTABLE_PHASES,
    ADOPTED,
    EVICTED,
    FINAL_PHASES,
    MOVES,
    NOTHING_REQUESTED,
    PODS_READY,
    QUOTA_RESERVED,
    WAITED_FOR,
    IllegalMoveError,
    Phase,
    Writer,
    check_move,
    conditions_of,
    has_nothing_requested,
    is_adopted,
    is_being_evicted,
    is_waited_for,
    occupies_quota,
    phase_of,
    salvage_unit,
    status_of_move,
    story_of,
    with_condition,
)
from shared_api.well_known_labels import MANAGED_BY

OLD, NOW = Timestamp("2026-11-01T09:00:00Z"), Timestamp("2026-11-01T10:00:00Z")
FREED = {"phase": "Enqueued", "conditions": [{"type": "Evicted", "status": "False"}]}
SCHEDULER, CONTROLLERS, RESERVATIONS = Writer.SCHEDULER, Writer.CONTROLLERS, Writer.RESERVATIONS


def unit(
    phase: str,
    *conditions: Condition,
    managed: bool = True,
    adopted: bool = False,
    **status: object,
) -> QueueUnit:
    annotations = {MANAGED_BY: "koord-queue-controllers"} if managed else {}
    if adopted:
        conditions = (*conditions, Condition(type=ADOPTED, status="True"))
    return QueueUnit(
        metadata=ObjectMeta(name="a", namespace="team", annotations=annotations),
        status=QueueUnitStatus(phase=phase, conditions=conditions, **status),  # type: ignore[arg-type] # fields by name
    )


def evicted(status: str = "True", reason: str = "Preempted") -> Condition:
    return Condition(type=EVICTED, status=status, reason=reason, last_transition_time=OLD)


def marked(phase: str, *conditions: Condition) -> QueueUnit:
    """Return a unit with the annotation by which older versions marked adopted units."""
    of = unit(phase, *conditions)
    annotations = {**of.metadata.annotations, "koord-queue/adopted": "true"}
    meta = msgspec.structs.replace(of.metadata, annotations=annotations)
    return msgspec.structs.replace(of, metadata=meta)


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(unit("Enqueued"), False, id="waiting"),
        pytest.param(unit(""), False, id="a phase that was never written"),
        pytest.param(unit("Preempted"), False, id="a phase of another version"),
        pytest.param(unit("Reserved"), True, id="reserved"),
        pytest.param(unit("Dequeued"), True, id="dequeued"),
        pytest.param(unit("Running"), True, id="running"),
        pytest.param(unit("SchedReady"), True, id="reserving nodes"),
        pytest.param(unit("SchedSucceed"), True, id="nodes reserved"),
        pytest.param(unit("SchedFailed"), True, id="nodes not found: until it is released"),
        pytest.param(unit("TimeoutBackoff"), False, id="backed off"),
        pytest.param(unit("Succeed"), False, id="succeeded"),
        pytest.param(unit("Failed"), False, id="failed"),
        pytest.param(unit("Running", evicted()), True, id="eviction requested: until stopped"),
        pytest.param(unit("Running", adopted=True), True, id="adopted"),
        pytest.param(marked("Enqueued"), False, id="an annotation proves nothing"),
        pytest.param(marked("Enqueued", evicted()), False, id="nor with an eviction"),
    ],
)
def test_which_units_are_charged(of: QueueUnit, want: bool) -> None:
    assert occupies_quota(of) is want


@pytest.mark.parametrize(
    ("status", "annotations", "want"),
    [
        ({"phase": "Running"}, {}, "booked"),
        ({"phase": "Enqueued"}, {"koord-queue/adopted": "true"}, "free"),
        (FREED, {}, "free"),
        ({"phase": "Succeed"}, {}, "free"),
        ({"phase": "Enqueued"}, {}, "free"),
        ({}, {}, "free"),
    ],
)
def test_all_but_the_demand_is_salvaged(
    status: dict[str, object], annotations: dict[str, str], want: str
) -> None:
    body = {
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"queue": "q", "podSet": [{"name": "main", "template": {"spec": 3}}], "request": 7},
        "status": status,
    }
    saved = salvage_unit(body, "it is odd")
    assert (saved.spec, saved.unreadable) == (QueueUnitSpec(queue="q"), "it is odd")
    assert saved.status.phase == status.get("phase", "Enqueued")
    assert occupies_quota(saved) is (want == "booked")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"spec": {"priority": "x"}, "status": {"phase": "Running"}}, id="in the spec"),
        pytest.param({"status": {"phase": 7}}, id="without a spec"),
        pytest.param({"spec": "x", "status": {"phase": "Running"}}, id="a spec of the wrong type"),
    ],
)
def test_a_unit_that_is_unreadable_elsewhere_is_not_salvaged(broken: dict[str, object]) -> None:
    body = {"metadata": {"name": "a"}, **broken}
    with pytest.raises(msgspec.ValidationError):
        salvage_unit(body, "it is odd")


def test_an_eviction_is_in_progress_until_the_unit_is_released() -> None:
    assert is_being_evicted(unit("Running", evicted()))
    assert not is_being_evicted(unit("TimeoutBackoff", evicted()))
    assert not is_being_evicted(unit("Running", evicted("False")))


def test_the_queue_waits_for_a_unit_until_it_runs_or_is_requeued() -> None:
    awaited = Condition(type=PODS_READY, status="False", reason=WAITED_FOR)
    of = unit("Dequeued", awaited)
    assert is_waited_for(of)
    for to in (Phase.RUNNING, Phase.ENQUEUED, Phase.TIMEOUT_BACKOFF, Phase.FAILED):
        assert not is_waited_for(unit(to, *conditions_of(to, of.status.conditions, now=NOW)))
    assert not is_waited_for(unit("Dequeued"))


def test_an_adopted_unit_that_runs_is_adopted_until_it_is_evicted() -> None:
    of = unit("Running", adopted=True)
    assert is_adopted(of)
    assert not is_adopted(unit("Running"))
    assert not is_adopted(marked("Running"))
    for to in (Phase.ENQUEUED, Phase.TIMEOUT_BACKOFF):
        assert not is_adopted(unit(to, *conditions_of(to, of.status.conditions, now=NOW)))


@pytest.mark.parametrize(
    ("of", "to", "writer"),
    [
        pytest.param(unit("Enqueued"), Phase.DEQUEUED, SCHEDULER, id="admitted"),
        pytest.param(unit("Enqueued"), Phase.RESERVED, SCHEDULER, id="reserved"),
        pytest.param(unit("Reserved"), Phase.DEQUEUED, SCHEDULER, id="checks are ready"),
        pytest.param(unit("Reserved"), Phase.TIMEOUT_BACKOFF, SCHEDULER, id="a check says retry"),
        pytest.param(unit("TimeoutBackoff"), Phase.ENQUEUED, SCHEDULER, id="the wait is over"),
        pytest.param(unit("SchedReady"), Phase.SCHED_SUCCEED, RESERVATIONS, id="nodes found"),
        pytest.param(unit("Dequeued"), Phase.RUNNING, CONTROLLERS, id="its pods run"),
        pytest.param(unit("Running"), Phase.SUCCEED, CONTROLLERS, id="it succeeded"),
        pytest.param(unit("Enqueued"), Phase.FAILED, CONTROLLERS, id="it failed in the queue"),
        pytest.param(unit("Running"), Phase.ENQUEUED, CONTROLLERS, id="evicted"),
        pytest.param(unit("Dequeued"), Phase.TIMEOUT_BACKOFF, CONTROLLERS, id="not in time"),
        *(
            pytest.param(
                unit(phase, adopted=True), Phase.RUNNING, CONTROLLERS, id=f"adopted in {phase}"
            )
            for phase in sorted(ADOPTABLE_PHASES)
        ),
        pytest.param(
            unit("Dequeued", managed=False), Phase.RUNNING, SCHEDULER, id="the scheduler does both"
        ),
    ],
)
def test_legal_moves(of: QueueUnit, to: Phase, writer: Writer) -> None:
    check_move(of, to, writer)


@pytest.mark.parametrize(
    ("of", "to", "writer"),
    [
        pytest.param(unit("Enqueued"), Phase.DEQUEUED, CONTROLLERS, id="controllers never admit"),
        pytest.param(unit("Enqueued"), Phase.RUNNING, CONTROLLERS, id="running, never admitted"),
        pytest.param(marked("Enqueued"), Phase.RUNNING, CONTROLLERS, id="only marked as adopted"),
        pytest.param(
            unit("Enqueued", adopted=True), Phase.RUNNING, SCHEDULER, id="controllers adopt"
        ),
        pytest.param(unit("Dequeued"), Phase.RUNNING, SCHEDULER, id="the controllers see the pods"),
        pytest.param(unit("Running"), Phase.DEQUEUED, CONTROLLERS, id="a retry stays Running"),
        pytest.param(unit("Running"), Phase.ENQUEUED, SCHEDULER, id="the scheduler only asks"),
        pytest.param(
            unit("TimeoutBackoff"),
            Phase.ENQUEUED,
            CONTROLLERS,
            id="only the scheduler ends a backoff",
        ),
        pytest.param(unit("Reserved"), Phase.RUNNING, CONTROLLERS, id="running with checks open"),
        pytest.param(unit("Succeed"), Phase.ENQUEUED, SCHEDULER, id="out of a final phase"),
        pytest.param(
            unit("Succeed"), Phase.FAILED, CONTROLLERS, id="one final phase does not become another"
        ),
    ],
)
def test_illegal_moves_raise_with_the_history_of_the_unit(
    of: QueueUnit, to: Phase, writer: Writer
) -> None:
    with pytest.raises(IllegalMoveError, match="team/a"):
        check_move(of, to, writer)


def test_no_move_leaves_a_final_phase_and_every_other_phase_can_end() -> None:
    assert not [move for move in MOVES if move[0] in FINAL_PHASES]
    for phase in set(Phase) - FINAL_PHASES:
        assert {to for start, to in MOVES if start is phase} >= FINAL_PHASES


def test_every_phase_is_reached() -> None:
    assert {to for _, to in MOVES} == set(Phase)


def test_unknown_phases_count_as_pending() -> None:
    assert phase_of(unit("Preempted")) is Phase.ENQUEUED
    assert phase_of(unit("SchedSucceed")) is Phase.SCHED_SUCCEED


def shown(conditions: tuple[Condition, ...]) -> dict[str, str]:
    return {each.type: f"{each.status}/{each.reason}" for each in conditions}


ADMITTED = {"QuotaReserved": "True/QuotaReserved", "Admitted": "True/Admitted"}


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        (Phase.ENQUEUED, {"QuotaReserved": "False/Pending", "Admitted": "False/Pending"}),
        (
            Phase.RESERVED,
            {
                "QuotaReserved": "True/QuotaReserved",
                "Admitted": "False/WaitingForAdmissionChecks",
            },
        ),
        (Phase.DEQUEUED, ADMITTED),
        (Phase.SCHED_READY, ADMITTED),
        (Phase.SCHED_SUCCEED, ADMITTED),
        (Phase.RUNNING, {**ADMITTED, "PodsReady": "True/PodsRunning"}),
        (Phase.SUCCEED, {"Finished": "True/Succeeded"}),
        (Phase.FAILED, {"Finished": "True/Failed"}),
        (
            Phase.TIMEOUT_BACKOFF,
            {
                "QuotaReserved": "False/BackoffTimeout",
                "Admitted": "False/BackoffTimeout",
                "Evicted": "True/BackoffTimeout",
            },
        ),
        (Phase.SCHED_FAILED, {"Admitted": "False/SchedulingFailed"}),
    ],
)
def test_conditions_follow_the_phase(phase: Phase, want: dict[str, str]) -> None:
    assert shown(conditions_of(phase, (), now=NOW, message="m")) == want


def test_a_requeued_unit_shows_that_it_was_evicted_and_ran() -> None:
    ran = conditions_of(Phase.RUNNING, (evicted(),), now=OLD)
    back = conditions_of(Phase.ENQUEUED, ran, now=NOW)
    assert shown(back)["Evicted"] == "False/Requeued"
    assert shown(back)["PodsReady"] == "False/Pending"


def test_conditions_without_their_own_message_have_the_status_message() -> None:
    for phase, kind in ((Phase.TIMEOUT_BACKOFF, EVICTED), (Phase.SCHED_FAILED, "Admitted")):
        found = find_condition(conditions_of(phase, (), now=NOW, message="why"), kind)
        assert found is not None
        assert found.message == "why"


def test_the_reason_of_an_eviction_is_kept_through_its_backoff() -> None:
    after = conditions_of(Phase.TIMEOUT_BACKOFF, (evicted(reason="CheckRetry"),), now=NOW)
    assert shown(after)["Evicted"] == "True/CheckRetry"


def test_after_the_end_no_condition_claims_quota() -> None:
    after = shown(conditions_of(Phase.FAILED, conditions_of(Phase.RUNNING, (), now=OLD), now=NOW))
    assert [after[each][:5] for each in ("QuotaReserved", "Admitted", "PodsReady")] == ["False"] * 3


def test_a_transition_time_changes_only_with_the_status() -> None:
    before = (Condition(type="X", status="True", reason="A", last_transition_time=OLD),)
    same = with_condition(before, Condition(type="X", status="True", reason="B"), now=NOW)
    flipped = with_condition(before, Condition(type="X", status="False", reason="B"), now=NOW)
    assert [each.last_transition_time for each in (*same, *flipped)] == [OLD, NOW]


def test_the_reason_nothing_requested_is_kept_until_the_admission_ends() -> None:
    free = Condition(type=QUOTA_RESERVED, status="True", reason=NOTHING_REQUESTED, message="none")
    runs = conditions_of(Phase.RUNNING, (free,), now=NOW)
    assert find_condition(runs, QUOTA_RESERVED) == free
    assert has_nothing_requested(runs)
    back = conditions_of(Phase.ENQUEUED, runs, now=NOW)
    assert not has_nothing_requested(back)
    assert not has_nothing_requested(conditions_of(Phase.DEQUEUED, back, now=NOW))


def test_conditions_of_other_writers_stay() -> None:
    mine = Condition(type="Mine", status="True", reason="A", last_transition_time=OLD)
    assert find_condition(conditions_of(Phase.RUNNING, (mine,), now=NOW), "Mine") == mine


def test_a_move_that_releases_quota_empties_the_admissions() -> None:
    of = unit(
        "Running",
        admissions=(Admission(name="main", replicas=2),),
        reclaimable_pods=(ReclaimablePod(name="main", count=1),),
        pod_state=PodState(running=1),
        placement=Placement(quota="a"),
    )
    for to in (Phase.ENQUEUED, Phase.TIMEOUT_BACKOFF, Phase.SUCCEED):
        status = status_of_move(of, to, writer=CONTROLLERS, now=NOW, message="m")
        assert (status["admissions"], status["reclaimablePods"]) == ([], [])
        assert (status["podState"], status["placement"]) == (None, None)


def test_a_move_to_running_resets_the_backoffs_and_keeps_the_admissions() -> None:
    of = unit(
        "Dequeued",
        admissions=(Admission(name="main", replicas=2),),
        requeue_state=RequeueState(count=2),
    )
    status = status_of_move(of, Phase.RUNNING, writer=CONTROLLERS, now=NOW)
    assert "admissions" not in status
    assert status["requeueState"] is None
    assert status["lastUpdateTime"] == NOW


def test_written_conditions_have_all_required_fields() -> None:
    status = status_of_move(unit("Dequeued"), Phase.RUNNING, writer=CONTROLLERS, now=NOW)
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    required = {"type", "status", "reason", "message", "lastTransitionTime"}
    assert all(each.keys() == required for each in conditions)


def test_a_history_has_the_conditions_in_order_of_time() -> None:
    late = Condition(type="B", status="True", reason="Late", last_transition_time=NOW)
    early = Condition(type="A", status="True", reason="Early", last_transition_time=OLD)
    story = story_of(unit("Running", late, early, message="hello"))
    assert story.index("Early") < story.index("Late")
    assert "hello" in story
