"""The state machine of a job, from facts alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_state import (
    NO_PODS,
    PodCounts,
    State,
    count_pods,
    judge_job,
)
from queue_controllers.jobframework.generic_job import JobFacts, JobKind, Outcome, StatusFacts
from shared_api.objects.meta import ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import Pod, PodSpec, PodStatus
from shared_api.well_known_labels import RELATED_QUEUE_UNIT, RELEASED_AT

JOB = JobKind(key="job", group="batch", version="v1", kind="Job", plural="jobs")
BEFORE, AFTER = Timestamp("2026-11-01T10:00:09Z"), Timestamp("2026-11-01T10:00:11Z")
SAME_SECOND = Timestamp("2026-11-01T10:00:10Z")
RELEASE = "2026-11-01T10:00:10.500000Z"
NOTHING = StatusFacts(is_empty=True)
RUNS = StatusFacts(running=True)
ENDED = StatusFacts(outcome=Outcome(succeeded=True), running=True)
RUNNING_PODS = PodCounts(total=2, living=2, running=2)
PENDING_PODS = PodCounts(total=2, living=2)
DYING_PODS = PodCounts(total=2, living=2, terminating=2)
ENDED_PODS = PodCounts(total=2, living=0, terminating=1)


def job(
    status: StatusFacts, *, suspended: bool = True, released: str = "", deleted: bool = False
) -> JobFacts:
    meta = ObjectMeta(
        name="main",
        annotations={RELEASED_AT: released} if released else {},
        deletion_timestamp=AFTER if deleted else None,
    )
    return JobFacts(kind=JOB, metadata=meta, suspended=suspended, status=status)


def said(at: Timestamp | None, pods: int = 0) -> StatusFacts:
    return StatusFacts(suspended=True, suspended_since=at, pods=pods)


@pytest.mark.parametrize(
    ("of", "pods", "want"),
    [
        pytest.param(job(NOTHING), NO_PODS, "held resumable", id="born suspended"),
        pytest.param(job(said(BEFORE)), NO_PODS, "held resumable", id="the operator reports it"),
        pytest.param(job(NOTHING), PENDING_PODS, "stopping", id="created unsuspended, with pods"),
        pytest.param(job(NOTHING), ENDED_PODS, "stopping unclear", id="had pods, no status"),
        pytest.param(job(RUNS), NO_PODS, "stopping unclear", id="suspended, no status yet"),
        pytest.param(job(said(BEFORE)), RUNNING_PODS, "stopping", id="reported, but pods run"),
        pytest.param(job(said(BEFORE)), ENDED_PODS, "held", id="a pod object is being deleted"),
        pytest.param(
            job(said(BEFORE, pods=2)), NO_PODS, "stopping unclear", id="reports unseen pods"
        ),
        pytest.param(
            job(said(AFTER), released=RELEASE), NO_PODS, "held resumable", id="reported since"
        ),
        pytest.param(
            job(said(BEFORE), released=RELEASE), NO_PODS, "stopping unclear", id="reported before"
        ),
        pytest.param(
            job(said(SAME_SECOND), released=RELEASE),
            NO_PODS,
            "stopping unclear",
            id="reported in the second of the release",
        ),
        pytest.param(
            job(said(None), released=RELEASE), NO_PODS, "stopping unclear", id="reports no time"
        ),
        pytest.param(
            job(NOTHING, released=RELEASE), NO_PODS, "stopping unclear", id="released, not seen"
        ),
        pytest.param(job(NOTHING, suspended=False), NO_PODS, "starting", id="just released"),
        pytest.param(job(RUNS, suspended=False), PENDING_PODS, "starting", id="pods pend"),
        pytest.param(job(RUNS, suspended=False), RUNNING_PODS, "running", id="pods run"),
        pytest.param(
            job(RUNS, suspended=False), DYING_PODS, "starting", id="only deleted pods run"
        ),
        pytest.param(
            job(NOTHING, suspended=False), RUNNING_PODS, "starting", id="the status is behind"
        ),
        pytest.param(job(ENDED, suspended=False), RUNNING_PODS, "finished", id="ended, pods live"),
        pytest.param(job(ENDED), NO_PODS, "finished", id="ended, then suspended"),
        pytest.param(job(ENDED, deleted=True), NO_PODS, "finished", id="ended, then deleted"),
        pytest.param(job(RUNS, deleted=True), RUNNING_PODS, "deleting", id="deleted, pods live"),
        pytest.param(job(NOTHING, deleted=True), NO_PODS, "deleting", id="the object is there"),
        pytest.param(None, RUNNING_PODS, "deleting", id="the object is gone, pods live"),
        pytest.param(None, ENDED_PODS, "gone", id="gone, and nothing lives"),
    ],
)
def test_states(of: JobFacts | None, pods: PodCounts, want: str) -> None:
    got = judge_job(of, pods, admitted=False, believed=False)
    words = [got.state.value]
    words += ["resumable"] if got.resumable else []
    words += ["unclear"] if got.unclear else []
    assert " ".join(words) == want
    assert got.stopped == (got.state is State.HELD)


def test_an_admitted_job_is_released_only_when_it_is_stopped() -> None:
    assert judge_job(job(NOTHING), NO_PODS, admitted=True, believed=False).state is State.RELEASED
    stopping = judge_job(job(said(BEFORE)), RUNNING_PODS, admitted=True, believed=False)
    assert stopping.state is State.STOPPING


def test_silence_counts_as_confirmation_but_never_over_a_living_pod() -> None:
    of = job(RUNS, released=RELEASE)
    assert judge_job(of, NO_PODS, admitted=False, believed=True).stopped
    assert not judge_job(of, DYING_PODS, admitted=False, believed=True).stopped


def pod(
    phase: str, *, deleted: bool = False, pod_set: str = "", created: Timestamp = SAME_SECOND
) -> Pod:
    meta = ObjectMeta(
        labels={"set": pod_set},
        creation_timestamp=created,
        deletion_timestamp=AFTER if deleted else None,
    )
    return Pod(metadata=meta, status=PodStatus(phase=phase))


def test_pods_are_counted_by_state_and_by_set() -> None:
    pods = [
        pod("Pending", created=BEFORE),
        pod("Pending", created=SAME_SECOND),
        pod("Running", pod_set="a"),
        pod("Running", pod_set="b"),
        pod("Running", pod_set="b", deleted=True),
        pod("Failed", deleted=True),
        pod("Failed", pod_set="b"),
        pod("Succeeded", created=AFTER),
    ]
    assert count_pods(pods, lambda each: each.metadata.labels["set"]) == PodCounts(
        total=8,
        living=5,
        terminating=2,
        running=2,
        running_of_sets={"a": 1, "b": 1},
        pending=2,
        pending_of_sets={"": 2},
        failed=1,
        failed_of_sets={"b": 1},
        pending_since=BEFORE,
        last_created=AFTER,
        bound=3,
        bound_since=SAME_SECOND,
    )


def test_pods_with_a_node_are_counted_and_the_oldest_is_known() -> None:
    def bound(phase: str, created: Timestamp, **more: Any) -> Pod:
        made = pod(phase, created=created, **more)
        return msgspec.structs.replace(made, spec=PodSpec(node_name="n1"))

    pods = [
        pod("Pending", created=BEFORE),
        bound("Pending", SAME_SECOND),
        bound("Pending", BEFORE, deleted=True),
        bound("Succeeded", BEFORE),
        pod("Running", created=AFTER),
    ]
    counts = count_pods(pods, lambda _: "")
    assert (counts.bound, counts.bound_since) == (3, SAME_SECOND)


def owned(uid: str, phase: str = "Running", *, unit: str = "") -> Pod:
    owner = OwnerReference(kind="RayCluster", name="c", uid=Uid(uid), controller=True)
    marks = {RELATED_QUEUE_UNIT: unit} if unit else {}
    meta = ObjectMeta(owner_references=(owner,), annotations=marks)
    return Pod(metadata=meta, status=PodStatus(phase=phase))


def test_children_with_living_unmarked_pods_are_named() -> None:
    pods = [
        owned("b"),
        owned("a", "Pending"),
        owned("a"),
        owned("job"),
        owned("marked", unit="team/main"),
        owned("over", "Succeeded"),
        pod("Running"),
    ]
    assert count_pods(pods, lambda _: "", Uid("job")).children == ("a", "b")
    assert count_pods(pods, lambda _: "").children == ()
