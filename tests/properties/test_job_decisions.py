"""Decisions about a job keep the rules, whatever is known of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_controllers.decision.actions import (
    CreateUnit,
    DeleteUnit,
    PatchUnit,
    PatchUnitStatus,
    ReleaseJob,
    SuspendJob,
)
from queue_controllers.decision.decide import decide
from queue_controllers.decision.eviction import DEACTIVATING
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory, JobView
from queue_controllers.decision.pending import AGAINST_EVICTION
from queue_controllers.jobframework.generic_job import JobFacts, Outcome, StatusFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Admission, QueueUnit, RequeueState
from shared_api.queue_unit_phases import (
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    RELEASED_PHASES,
    Phase,
    is_being_evicted,
    occupies_quota,
    phase_of,
)
from shared_api.well_known_labels import (
    ACTIVE,
    DEACTIVATION_MARKS,
    LIMIT_REACHED,
    MAX_EXEC_TIME,
)
from tests.job_situations import NOW, RELEASED, TEN, facts, unit

pytestmark = pytest.mark.properties

SUSPENDED_SINCE = st.sampled_from(
    ["2026-11-01T09:50:30Z", "2026-11-01T09:51:00Z", "2026-11-01T09:52:00Z"]
)


MARKS = st.sampled_from(DEACTIVATION_MARKS)
REASONS = st.sampled_from(
    ["Preempted", "BackoffTimeout", MAXIMUM_EXECUTION_TIME_EXCEEDED, AGAINST_EVICTION]
)


@st.composite
def jobs(draw: st.DrawFn) -> JobFacts:
    outcomes = [Outcome(succeeded=True), Outcome(succeeded=False), None, None, None]
    status = StatusFacts(
        is_empty=draw(st.booleans()),
        suspended=draw(st.booleans()),
        suspended_since=Timestamp(draw(SUSPENDED_SINCE)),
        running=draw(st.booleans()),
        outcome=draw(st.sampled_from(outcomes)),
        pods=draw(st.integers(0, 1)),
    )
    return facts(
        count=draw(st.integers(0, 3)),
        cpu=draw(st.sampled_from(["1", "2", "broken"])),
        suspended=draw(st.booleans()),
        status=status,
        annotations=draw(
            st.sampled_from(
                [{}, RELEASED, {ACTIVE: "true"}, {ACTIVE: "false"}, {MAX_EXEC_TIME: "60"}]
            )
        ),
        deletion_timestamp=draw(st.sampled_from([None, None, None, TEN])),
        why_not_suspendable=draw(st.sampled_from(["", "", "spec.x"])),
    )


@st.composite
def units(draw: st.DrawFn) -> QueueUnit:
    kinds = st.sampled_from(
        ["Evicted", "SuspendContested", "OperatorSilent", "PodsReady", "BackoffLimitReached"]
    )
    conditions = tuple(
        Condition(
            type=kind,
            status=draw(st.sampled_from(["True", "False"])),
            reason=draw(REASONS),
            last_transition_time=TEN,
        )
        for kind in sorted(draw(st.sets(kinds)))
    )
    replicas = draw(st.integers(0, 2))
    count, mark = draw(st.integers(0, 3)), draw(st.sampled_from([None, None, "", "true"]))
    return unit(
        draw(st.sampled_from([*(phase.value for phase in Phase), "Preempted"])),
        adopted=draw(st.booleans()),
        active=draw(st.sampled_from([None, True, False])),
        conditions=conditions,
        requeue_state=RequeueState(count=count) if count else None,
        annotations={} if mark is None else {draw(MARKS): mark},
        accumulated_past_execution_time_seconds=draw(st.sampled_from([None, 30])),
        last_update_time=TEN,
        admissions=(Admission(name="main", replicas=replicas),) if replicas else (),
    )


@st.composite
def pods(draw: st.DrawFn) -> PodCounts:
    living = draw(st.integers(0, 2))
    running = draw(st.integers(0, living))
    ended = draw(st.integers(0, 1))
    terminating = draw(st.integers(0, living - running + ended))
    return PodCounts(
        total=living + ended,
        living=living,
        bound=draw(st.integers(running, living)),
        terminating=terminating,
        running=running,
        running_of_sets={"main": running},
        pending=living - running,
        pending_since=TEN if living > running else "",
    )


@st.composite
def views(draw: st.DrawFn) -> JobView:
    memory = JobMemory(
        arrived=draw(st.booleans()),
        unsuspended_at=draw(st.sampled_from([(), (999.0,), (998.0, 999.0)])),
        evicting=draw(st.booleans()),
        quiet_since=draw(st.sampled_from([None, 900.0, 990.0])),
        running_since=draw(st.sampled_from([None, 900.0])),
        counted_at=draw(st.sampled_from([None, 900.0])),
        first_release=draw(st.sampled_from([None, NOW.after(-600.0).wall])),
        suspended_at=draw(st.sampled_from([(), (999.0,) * 4])),
        short_since=draw(st.sampled_from([None, 900.0, 990.0])),
    )
    return JobView(
        job=draw(st.none() | jobs()),
        unit=draw(st.none() | units()),
        pods=draw(pods()),
        ownership=Ownership(managed=draw(st.sampled_from([True, True, False])), reason=""),
        settings=JobSettings(
            running_timeout_seconds=draw(st.sampled_from([0.0, 60.0])),
            partial_running_timeout_seconds=draw(st.sampled_from([0.0, 60.0])),
            backoff_limit=draw(st.integers(0, 2)),
        ),
        memory=memory,
        moment=NOW,
    )


@given(views())
def test_at_most_one_write_per_object(view: JobView) -> None:
    actions = decide(view).actions
    assert sum(isinstance(each, SuspendJob | ReleaseJob) for each in actions) <= 1
    of_unit = CreateUnit | DeleteUnit | PatchUnit | PatchUnitStatus
    assert sum(isinstance(each, of_unit) for each in actions) <= 1


@given(views())
def test_an_unmanaged_job_is_left_alone(view: JobView) -> None:
    if view.job is not None and view.ownership.managed:
        return
    actions = decide(view).actions
    assert not any(isinstance(each, SuspendJob | ReleaseJob | CreateUnit) for each in actions)
    if view.job is None or view.unit is None:
        assert actions == ()


@given(views())
def test_a_unit_is_deleted_only_when_its_job_is_managed_elsewhere_and_does_not_run(
    view: JobView,
) -> None:
    decision = decide(view)
    if not any(isinstance(each, DeleteUnit) for each in decision.actions):
        return
    assert view.unit is not None
    assert not view.ownership.managed
    if occupies_quota(view.unit):
        assert decision.state is not None
        assert decision.state.stopped
        assert view.pods.living == 0


@given(views())
def test_only_an_admitted_and_resumable_job_is_released(view: JobView) -> None:
    if not any(isinstance(each, ReleaseJob) for each in decide(view).actions):
        return
    assert view.job is not None
    assert view.unit is not None
    assert view.job.suspended
    assert (view.pods.living, view.pods.terminating) == (0, 0)
    assert view.unit.spec.active is not False
    assert not is_being_evicted(view.unit)
    assert phase_of(view.unit) in RELEASED_PHASES


@given(views())
def test_nothing_that_may_run_is_suspended(view: JobView) -> None:
    if not any(isinstance(each, SuspendJob) for each in decide(view).actions):
        return
    assert view.job is not None
    assert not view.job.suspended
    assert view.job.status.outcome is None
    if view.unit is not None and occupies_quota(view.unit):
        admitted = phase_of(view.unit) in RELEASED_PHASES
        assert is_being_evicted(view.unit) or not admitted


@given(views())
def test_a_booking_ends_only_with_the_job_or_when_it_is_stopped(view: JobView) -> None:
    decision = decide(view)
    for action in decision.actions:
        if not isinstance(action, PatchUnitStatus) or "phase" not in action.status:
            continue
        to = Phase(action.status["phase"])
        assert view.job is not None
        if to in {Phase.SUCCEED, Phase.FAILED}:
            gone = view.job.metadata.deletion_timestamp is not None and not view.pods.living
            assert view.job.status.outcome is not None or (to is Phase.FAILED and gone)
        elif to is not Phase.RUNNING:
            assert decision.state is not None
            assert decision.state.stopped
            assert view.pods.living == 0


@given(views())
def test_a_unit_is_requeued_below_its_limit_or_inactive(view: JobView) -> None:
    for action in decide(view).actions:
        if not isinstance(action, PatchUnitStatus) or not action.status.get("requeueState"):
            continue
        assert view.unit is not None
        reached = action.status["requeueState"]["count"] >= view.settings.backoff_limit > 0
        if action.status["phase"] == Phase.TIMEOUT_BACKOFF:
            assert not reached
        elif action.status["phase"] == Phase.ENQUEUED:
            assert LIMIT_REACHED in view.unit.metadata.annotations


@given(views(), st.sampled_from(sorted(DEACTIVATING)))
def test_a_unit_evicted_for_good_is_deactivated_before_it_is_released(
    view: JobView, reason: str
) -> None:
    asked = Condition(type="Evicted", status="True", reason=reason, last_transition_time=TEN)
    of = view.unit or unit("Running")
    status = msgspec.structs.replace(of.status, conditions=(asked,))
    of = msgspec.structs.replace(of, status=status)
    stopped = facts(annotations=RELEASED)
    view = msgspec.structs.replace(view, job=stopped, unit=of, pods=PodCounts())
    for action in decide(view).actions:
        if isinstance(action, PatchUnitStatus) and action.status.get("phase") == Phase.ENQUEUED:
            assert not of.metadata.annotations.keys().isdisjoint(DEACTIVATION_MARKS)


@given(views())
def test_deciding_twice_gives_the_same_result(view: JobView) -> None:
    assert decide(view) == decide(view)
