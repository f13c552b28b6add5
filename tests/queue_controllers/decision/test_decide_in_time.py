"""How long a job may take until its pods run, where its queue waits for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_settings import JobSettings, backoff_from
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory, Moment
from shared_api.evictions import RUNNING_TIMEOUT_SECONDS
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import (
    Admission,
    AdmissionCheckState,
    PodSet,
    QueueUnit,
    RequeueState,
)
from tests.job_situations import (
    ADMITTED,
    NOW,
    RELEASED,
    RUNS,
    TEN,
    action_names,
    evicted,
    facts,
    look,
    unit,
)

AWAITED = Condition(type="PodsReady", status="False", reason="WaitForPodsRunning")
RELEASED_AT = Moment(monotonic=1.0, wall=datetime(2026, 11, 1, 9, 51, tzinfo=UTC))
EVICTED = ["write status", "RecordUnitEvent"]


@pytest.mark.parametrize(
    ("conditions", "own", "seconds", "want"),
    [
        pytest.param((AWAITED,), 0, 599, ([], 1.0), id="ten minutes"),
        pytest.param((AWAITED,), 0, 600, (EVICTED, None), id="they are over"),
        pytest.param((AWAITED,), 60, 60, (EVICTED, None), id="a shorter one of its own"),
        pytest.param((AWAITED,), 3600, 600, ([], 60.0), id="a longer one of its own"),
        pytest.param((), 0, 10_000, ([], 60.0), id="its queue does not wait for it"),
    ],
)
def test_no_job_is_waited_for_for_ever(
    conditions: tuple[Condition, ...],
    own: float,
    seconds: float,
    want: tuple[list[str], float | None],
) -> None:
    job = facts(annotations=RELEASED, suspended=False, status=RUNS)
    decision = look(
        job,
        unit("Dequeued", admissions=ADMITTED, conditions=conditions),
        pods=PodCounts(),
        moment=RELEASED_AT.after(seconds),
        settings=JobSettings(running_timeout_seconds=own),
    )
    assert (action_names(decision.actions), decision.requeue_after_seconds) == want
    assert RUNNING_TIMEOUT_SECONDS == 600.0


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        pytest.param((0,), "Running", id="scaled to none"),
        pytest.param((0, 0), "Running", id="both sets"),
        pytest.param((0, 1), "RecordUnitEvent", id="one set has a pod to wait for"),
    ],
)
def test_a_job_that_wants_no_pods_is_not_waited_for(counts: tuple[int, ...], want: str) -> None:
    (pod_set,) = facts().pod_sets
    pod_sets = tuple(
        msgspec.structs.replace(pod_set, name=f"set-{place}", count=count)
        for place, count in enumerate(counts)
    )
    job = facts(annotations=RELEASED, suspended=False, pod_sets=pod_sets)
    of = unit("Dequeued", conditions=(AWAITED,))
    sets = [PodSet(name=each.name, count=each.count) for each in pod_sets]
    of = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, pod_set=tuple(sets)))
    actions = look(job, of, pods=PodCounts(), moment=RELEASED_AT.after(10_000)).actions
    *_, last = actions
    said = last.status["phase"] if isinstance(last, PatchUnitStatus) else type(last).__name__
    assert said == want


@pytest.mark.parametrize(
    ("conditions", "own", "settled"),
    [
        pytest.param((AWAITED,), 0, False, id="waited for"),
        pytest.param((), 60, False, id="a time of its own"),
        pytest.param((), 0, True, id="no time at all"),
    ],
)
def test_a_release_is_reconciled_again_where_time_counts(
    conditions: tuple[Condition, ...], own: float, settled: bool
) -> None:
    of = unit("Dequeued", admissions=ADMITTED, conditions=conditions)
    decision = look(facts(), of, settings=JobSettings(running_timeout_seconds=own))
    assert action_names(decision.actions) == ["release"]
    assert decision.is_complete is settled


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(599, ([], 1.0), id="ten minutes"),
        pytest.param(600, (EVICTED, None), id="they are over"),
    ],
)
def test_remains_of_an_earlier_run_do_not_hold_up_others_for_ever(
    seconds: float, want: tuple[list[str], float | None]
) -> None:
    """Its pod has ended, and a finalizer keeps the object."""
    admitted_at = Timestamp("2026-11-01T09:51:00Z")
    of = unit(
        "Dequeued", admissions=ADMITTED, conditions=(AWAITED,), last_allocate_time=admitted_at
    )
    left = PodCounts(total=1, terminating=1)
    decision = look(facts(), of, pods=left, moment=RELEASED_AT.after(seconds))
    assert (action_names(decision.actions), decision.requeue_after_seconds) == want


REFUSED = AdmissionCheckState(name="nodes", state="Retry")


def backing_off(
    *, until: str, reason: str = "BackoffTimeout", count: int = 2, **status: Any
) -> QueueUnit:
    """Return a unit that lost its quota at 09:50:00."""
    lost = (
        Condition(type=each, status="False", reason="BackoffTimeout", last_transition_time=TEN)
        for each in ("QuotaReserved", "Admitted")
    )
    return unit(
        "TimeoutBackoff",
        conditions=(*lost, *evicted(reason)),
        requeue_state=RequeueState(count=count, requeue_at=Timestamp(until)),
        **status,
    )


@pytest.mark.parametrize(
    ("annotation", "of", "want"),
    [
        pytest.param("5m", backing_off(until="2026-11-01T09:50:20Z"), "10:01:00", id="later"),
        pytest.param("30s", backing_off(until="2026-11-01T10:05:00Z"), "09:51:06", id="earlier"),
        pytest.param("5m", backing_off(until="2026-11-01T09:59:01Z"), "", id="within the jitter"),
        pytest.param("9s", backing_off(until="2026-11-01T09:50:17Z"), "", id="about the same"),
        pytest.param("", backing_off(until="2026-11-01T10:05:00Z"), "", id="not for this job"),
        pytest.param("soon", backing_off(until="2026-11-01T10:05:00Z"), "", id="unreadable"),
        pytest.param("30s", backing_off(until="once"), "", id="until an unknown time"),
        pytest.param(
            "30s", backing_off(until="2026-11-01T10:05:00Z", reason="Preempted"), "", id="by others"
        ),
        pytest.param(
            "30s",
            backing_off(until="2026-11-01T10:05:00Z", admission_checks=(REFUSED,)),
            "",
            id="by a check, which may set the time",
        ),
    ],
)
def test_a_backoff_that_is_edited_ends_at_another_time(
    annotation: str, of: QueueUnit, want: str
) -> None:
    job = facts(annotations={"koord-queue/backoff-timeout": annotation})
    meta = msgspec.structs.replace(
        of.metadata, annotations={**of.metadata.annotations, **job.metadata.annotations}
    )
    of = msgspec.structs.replace(of, metadata=meta)
    writes = look(job, of, jitter=0.1, settings=JobSettings(backoff=backoff_from(450.0))).actions
    times = [
        each.status["requeueState"]["requeueAt"][11:19]
        for each in writes
        if isinstance(each, PatchUnitStatus)
    ]
    assert times == [want] * bool(want)


@pytest.mark.parametrize(
    ("own", "seconds", "want"),
    [
        pytest.param("20s", 20, (EVICTED, None), id="shorter than for all"),
        pytest.param("20s", 19, ([], 1.0), id="not over yet"),
        pytest.param("2m", 60, ([], 60.0), id="longer than for all"),
        pytest.param("0", 600, ([], 60.0), id="for ever"),
    ],
)
def test_a_job_may_have_a_time_of_its_own(
    own: str, seconds: float, want: tuple[list[str], float | None]
) -> None:
    marks = {**RELEASED, "koord-queue/running-timeout": own}
    decision = look(
        facts(annotations=marks, suspended=False, status=RUNS),
        unit("Dequeued", admissions=ADMITTED),
        moment=RELEASED_AT.after(seconds),
        settings=JobSettings(running_timeout_seconds=60.0),
    )
    assert (action_names(decision.actions), decision.requeue_after_seconds) == want


READY = Condition(type="PodsReady", status="True", reason="PodsRunning", last_transition_time=TEN)
ONE_OF_TWO = PodCounts(
    total=2, living=2, running=1, running_of_sets={"main": 1}, pending=1, pending_since=TEN
)
TWO_OF_TWO = PodCounts(total=2, living=2, running=2, running_of_sets={"main": 2})
SOME_RUN_SINCE = Moment(monotonic=1.0, wall=datetime(2026, 11, 1, 9, 50, tzinfo=UTC))
COUNTED = (Admission(name="main", replicas=2, running=1, pending=1),)


def partly_running(**more: Any) -> QueueUnit:
    """Return a unit with one of two pods counted as running."""
    return unit("Running", admissions=COUNTED, conditions=(READY,), **more)


@pytest.mark.parametrize(
    ("own", "of", "managed", "seconds", "want"),
    [
        pytest.param("", partly_running(), True, 299, ([], 1.0), id="not yet"),
        pytest.param("", partly_running(), True, 300, (EVICTED, None), id="too long"),
        pytest.param("1m", partly_running(), True, 60, (EVICTED, None), id="a time of its own"),
        pytest.param("0", partly_running(), True, 999, ([], None), id="for ever, of its own"),
        pytest.param("", partly_running(), False, 999, ([], None), id="not managed any more"),
        pytest.param(
            "", partly_running(adopted=True), True, 999, ([], None), id="adopted: never stopped"
        ),
    ],
)
def test_a_partially_running_job_is_evicted(
    own: str, of: QueueUnit, managed: bool, seconds: float, want: tuple[list[str], float | None]
) -> None:
    marks = {**RELEASED, "koord-queue/partial-running-timeout": own}
    decision = look(
        facts(annotations=marks, suspended=False, status=RUNS),
        of,
        pods=ONE_OF_TWO,
        ownership=Ownership(managed=managed, reason=""),
        memory=JobMemory(reported_events=frozenset({"NotManaged"})),
        moment=SOME_RUN_SINCE.after(seconds),
        settings=JobSettings(partial_running_timeout_seconds=300.0),
    )
    assert (action_names(decision.actions), decision.requeue_after_seconds) == want


@pytest.mark.parametrize(
    ("timeout", "pods", "want"),
    [
        pytest.param(300.0, ONE_OF_TWO, {"count": 2}, id="some run: the count goes on"),
        pytest.param(300.0, TWO_OF_TWO, None, id="all run: it is over"),
        pytest.param(0.0, ONE_OF_TWO, None, id="some are enough"),
    ],
)
def test_backoffs_are_counted_until_enough_pods_run(
    timeout: float, pods: PodCounts, want: dict[str, int] | None
) -> None:
    settings = JobSettings(partial_running_timeout_seconds=timeout)
    job = facts(annotations=RELEASED, suspended=False, status=RUNS)
    state = RequeueState(count=2)
    starts = unit("Dequeued", admissions=ADMITTED, requeue_state=state)
    memory = JobMemory(running_since=NOW.monotonic - 1.0)
    (move,) = look(job, starts, pods=pods, memory=memory, settings=settings).actions
    assert isinstance(move, PatchUnitStatus)
    assert (move.status["phase"], move.status["requeueState"]) == ("Running", want)
    later = partly_running(requeue_state=state, last_update_time=NOW.stamp)
    pods = msgspec.structs.replace(pods, pending_since=NOW.stamp)
    memory = JobMemory(counted_at=NOW.monotonic)
    writes = look(job, later, pods=pods, memory=memory, settings=settings).actions
    cleared = [each.status["requeueState"] for each in writes if isinstance(each, PatchUnitStatus)]
    assert cleared == ([] if want else [None])


def test_counts_that_a_short_timeout_depends_on_are_corrected_sooner() -> None:
    two = unit("Running", admissions=(Admission(name="main", replicas=2, running=2),))
    decision = look(
        facts(annotations=RELEASED, suspended=False, status=RUNS),
        two,
        pods=ONE_OF_TWO,
        memory=JobMemory(counted_at=NOW.monotonic),
        settings=JobSettings(partial_running_timeout_seconds=20.0),
    )
    assert decision.requeue_after_seconds == 10.0


@pytest.mark.parametrize(("seconds", "want"), [(59, []), (61, EVICTED)])
def test_in_strict_mode_the_time_begins_when_the_nodes_are_reserved(
    seconds: float, want: list[str]
) -> None:
    at = Moment(monotonic=1.0, wall=datetime(2026, 11, 1, 10, 0, tzinfo=UTC))
    reserved = unit(
        "SchedSucceed", admissions=ADMITTED, last_allocate_time=TEN, last_update_time=at.stamp
    )
    decision = look(
        facts(),
        reserved,
        pods=PodCounts(total=1, terminating=1),  # of an earlier run: it is not released yet
        moment=at.after(seconds),
        settings=JobSettings(running_timeout_seconds=60),
    )
    assert action_names(decision.actions) == want


def test_in_strict_mode_counts_of_its_pods_do_not_renew_the_time() -> None:
    """Its pods fail one after another; each write of their counts has a time."""
    of = unit("SchedSucceed", admissions=ADMITTED, last_allocate_time=TEN, last_update_time=TEN)
    job, memory = facts(annotations=RELEASED, suspended=False), JobMemory()
    writes, ended = 0, None
    for seconds in range(0, 600, 5):
        failed = seconds // 20
        pods = PodCounts(total=2 + failed, living=2, pending=2, failed=failed)
        decision = look(
            job,
            of,
            pods=pods,
            memory=memory,
            moment=RELEASED_AT.after(seconds),
            settings=JobSettings(running_timeout_seconds=120),
        )
        memory = decision.memory
        if action_names(decision.actions) == EVICTED:
            ended = seconds
            break
        for each in decision.actions:
            assert isinstance(each, PatchUnitStatus)
            writes += 1
            said = {**msgspec.to_builtins(of.status), **each.status}
            of = msgspec.structs.replace(of, status=msgspec.convert(said, type(of.status)))
    assert (writes > 0, ended) == (True, 120)


@pytest.mark.parametrize("year", ["0001", "2126", "9999"])
def test_a_backoff_that_begins_in_the_future_ends_at_its_time(year: str) -> None:
    """The condition was edited: nothing is counted from a time in the future."""
    of = backing_off(until="2026-11-01T10:05:00Z")
    at = f"{year}-12-31T23:59:59Z"
    conditions = [
        msgspec.structs.replace(each, last_transition_time=at) for each in of.status.conditions
    ]
    status = msgspec.structs.replace(of.status, conditions=tuple(conditions))
    of = msgspec.structs.replace(of, status=status)
    marks = {"koord-queue/backoff-timeout": "2562047h"}
    meta = msgspec.structs.replace(of.metadata, annotations={**of.metadata.annotations, **marks})
    of = msgspec.structs.replace(of, metadata=meta)
    actions = look(facts(annotations=marks), of, jitter=0.1).actions
    assert action_names(actions) == (["write status"] if year == "0001" else [])
