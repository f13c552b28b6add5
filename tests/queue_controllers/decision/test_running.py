"""What the unit of a released job reports about its pods, and when that is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import NOTHING_KNOWN, JobMemory, JobView
from queue_controllers.decision.running import counts_due
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import Admission, QueueUnit, ReclaimState
from tests.job_situations import (
    ADMITTED,
    JOB,
    NOW,
    RUNS,
    SUCCEEDED,
    TEN,
    TWO_RUNNING,
    evicted,
    facts,
    look,
    unit,
)

RUNS_ON = facts(suspended=False, status=RUNS)
TWO_PENDING = PodCounts(total=2, living=2, pending=2, pending_of_sets={"main": 2})
ONE_FAILED = PodCounts(
    total=3,
    living=2,
    running=1,
    running_of_sets={"main": 1},
    pending=1,
    pending_of_sets={"main": 1},
    failed=1,
    failed_of_sets={"main": 1},
)


def counted(running: int = 0, **more: Any) -> tuple[Admission, ...]:
    return (Admission(name="main", replicas=2, running=running, **more),)


def status_after(
    of: QueueUnit, pods: PodCounts, memory: JobMemory = NOTHING_KNOWN, job: JobFacts = RUNS_ON
) -> dict[str, Any]:
    """Return what is written, after a wait where the first reconcile requests one."""
    first = look(job, of, pods=pods, memory=memory)
    if first.requeue_after_seconds is not None and not first.actions:
        later = NOW.after(first.requeue_after_seconds)
        first = look(job, of, pods=pods, memory=first.memory, moment=later)
    (write,) = first.actions
    assert isinstance(write, PatchUnitStatus)
    return write.status


def test_counts_are_corrected_when_they_have_differed_for_a_second() -> None:
    of = unit("Running", admissions=counted(1))
    first = look(RUNS_ON, of, pods=TWO_RUNNING)
    assert (first.actions, first.requeue_after_seconds) == ((), 1.0)
    early = look(RUNS_ON, of, pods=TWO_RUNNING, memory=first.memory, moment=NOW.after(0.5))
    assert (early.actions, early.requeue_after_seconds) == ((), 0.5)
    (write,) = look(
        RUNS_ON, of, pods=TWO_RUNNING, memory=first.memory, moment=NOW.after(1.0)
    ).actions
    assert isinstance(write, PatchUnitStatus)
    assert write.status == {
        "admissions": [{"name": "main", "replicas": 2, "running": 2}],
        "podState": {"running": 2, "pending": 0},
        "lastUpdateTime": NOW.after(1.0).stamp,
    }


def test_counts_that_match_again_within_the_second_are_not_written() -> None:
    of = unit("Running", admissions=counted(2))
    first = look(RUNS_ON, of, pods=ONE_FAILED)
    assert first.actions == ()
    right = look(RUNS_ON, of, pods=TWO_RUNNING, memory=first.memory, moment=NOW.after(0.9))
    assert (right.actions, right.requeue_after_seconds) == ((), None)
    again = look(RUNS_ON, of, pods=ONE_FAILED, memory=right.memory, moment=NOW.after(5.0))
    assert (again.actions, again.requeue_after_seconds) == ((), 1.0), "its second starts again"


def test_counts_that_change_all_the_time_are_written_as_well() -> None:
    of = unit("Running", admissions=counted(2))
    decision = look(RUNS_ON, of, pods=ONE_FAILED)
    decision = look(RUNS_ON, of, pods=TWO_PENDING, memory=decision.memory, moment=NOW.after(0.9))
    (write,) = look(
        RUNS_ON, of, pods=ONE_FAILED, memory=decision.memory, moment=NOW.after(1.1)
    ).actions
    assert isinstance(write, PatchUnitStatus)


def test_one_correction_comes_long_after_another() -> None:
    of = unit("Running", admissions=counted(1))
    memory = JobMemory(counted_at=NOW.monotonic - 10)
    soon = look(RUNS_ON, of, pods=TWO_RUNNING, memory=memory)
    assert (soon.actions, soon.requeue_after_seconds) == ((), 20.0)
    assert status_after(of, TWO_RUNNING, memory)["lastUpdateTime"] == NOW.after(20.0).stamp


def test_pods_that_wait_long_for_nodes_are_reported() -> None:
    of = unit("Dequeued", admissions=ADMITTED)
    waits = facts(suspended=False)
    first = look(waits, of, pods=TWO_PENDING)
    assert (first.actions, first.requeue_after_seconds) == ((), 30.0)
    assert status_after(of, TWO_PENDING, job=waits)["podState"] == {"running": 0, "pending": 2}


@pytest.mark.parametrize(
    ("before", "pods", "want"),
    [
        pytest.param(
            counted(2),
            ONE_FAILED,
            [{"name": "main", "replicas": 2, "running": 1, "pending": 1, "failed": 1}],
            id="one waits, one has failed",
        ),
        pytest.param(
            counted(1, pending=1, failed=1),
            TWO_RUNNING,
            [{"name": "main", "replicas": 2, "running": 2}],
            id="zero is not written",
        ),
        pytest.param(
            counted(1, reclaim_state=ReclaimState(replicas=1)),
            TWO_RUNNING,
            [{"name": "main", "replicas": 2, "running": 2, "reclaimState": {"replicas": 1}}],
            id="the scheduler's part stays",
        ),
        pytest.param(
            (*counted(0), Admission(name="ps", replicas=1, running=1)),
            ONE_FAILED,
            [
                {"name": "main", "replicas": 2, "running": 1, "pending": 1, "failed": 1},
                {"name": "ps", "replicas": 1, "running": 0},
            ],
            id="[ctl-13] each set has its own",
        ),
    ],
)
def test_the_counts_that_are_written(
    before: tuple[Admission, ...], pods: PodCounts, want: list[dict[str, Any]]
) -> None:
    assert status_after(unit("Running", admissions=before), pods)["admissions"] == want


@pytest.mark.parametrize(
    "admissions",
    [
        pytest.param(counted(1, pending=1, failed=1), id="it is written already"),
        pytest.param((), id="nothing was granted to any set"),
    ],
)
def test_nothing_is_written_where_nothing_differs(admissions: tuple[Admission, ...]) -> None:
    of = unit("Running", adopted=True, admissions=admissions)
    decision = look(RUNS_ON, of, pods=ONE_FAILED)
    assert (decision.actions, decision.requeue_after_seconds) == ((), None)


def test_pods_of_no_known_set_are_left_out() -> None:
    """[ctl-14]."""
    nameless = PodCounts(total=2, living=2, running=2, running_of_sets={"": 2})
    of = unit("Running", admissions=(*counted(), Admission(name="ps", replicas=1)))
    assert look(RUNS_ON, of, pods=nameless).actions == ()


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
def test_children_with_unmarked_pods_are_named_at_once(phase: str) -> None:
    of = unit(phase, admissions=counted(2))
    pods = msgspec.structs.replace(TWO_RUNNING, children=(Uid("a"), Uid("b")))
    assert status_after(of, pods)["podOwners"] == ["a", "b"]
    known = msgspec.structs.replace(of.status, pod_owners=(Uid("b"), Uid("a"), Uid("gone")))
    of = msgspec.structs.replace(of, status=known)
    writes = look(RUNS_ON, of, pods=pods).actions
    said = [each.status for each in writes if isinstance(each, PatchUnitStatus)]
    assert not any("podOwners" in each for each in said)


def test_no_more_children_are_named_than_fit() -> None:
    of = unit("Running", admissions=counted(2))
    children = tuple(Uid(f"{number:02}") for number in range(40))
    pods = msgspec.structs.replace(TWO_RUNNING, children=children)
    assert status_after(of, pods)["podOwners"] == list(children[:32])


@pytest.mark.parametrize(
    ("job", "of", "want"),
    [
        pytest.param({}, {}, NOW.monotonic + 30.0, id="a job that runs"),
        pytest.param({"suspended": True}, {}, None, id="one that is stopping"),
        pytest.param({"status": StatusFacts(outcome=SUCCEEDED)}, {}, None, id="one that has ended"),
        pytest.param({"deletion_timestamp": TEN}, {}, None, id="one that is deleted"),
        pytest.param({"kind": JOB}, {}, None, id="one whose children have the pods"),
        pytest.param({}, {"phase": "Dequeued"}, None, id="one that starts"),
        pytest.param({}, {"active": False}, None, id="one that is to be stopped"),
        pytest.param({}, {"conditions": evicted()}, None, id="one that is evicted"),
    ],
)
def test_only_the_counts_of_a_job_that_runs_depend_on_a_pods_success(
    job: dict[str, Any], of: dict[str, Any], want: float | None
) -> None:
    of = {"phase": "Running", "admissions": counted(2), **of}
    found = unit(of.pop("phase"), **of)
    owns = msgspec.structs.replace(JOB, owns_pods=True)
    seen = facts(**{"suspended": False, "status": RUNS, "kind": owns, **job})
    view = JobView(job=seen, unit=found, pods=TWO_RUNNING, moment=NOW)
    assert counts_due(view, found, JobMemory(counted_at=NOW.monotonic)) == want
