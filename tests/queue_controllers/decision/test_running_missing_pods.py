"""Which pods of a running job are missing, and since when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.queue_unit_builder import build_unit
from queue_controllers.decision.running import missing_pods, partial_since
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, StatusFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Admission, QueueUnit, ReclaimablePod
from tests.job_situations import RUNS, TEN, facts, unit

READY = Condition(type="PodsReady", status="True", reason="PodsRunning", last_transition_time=TEN)
"""Since 09:50:00."""


def running_unit(running: int = 1, updated: str = TEN, **more: Any) -> QueueUnit:
    """Return a unit of two pods, of which this many were counted."""
    return unit(
        "Running",
        conditions=more.pop("conditions", (READY,)),
        last_update_time=Timestamp(updated),
        admissions=(Admission(name="main", replicas=2, running=running),),
        **more,
    )


def runs(count: int = 2, pods: int = 0) -> JobFacts:
    """Return a job that needs this many pods, and whose operator reports this many."""
    status = StatusFacts(running=True, pods=pods)
    return facts(count=count, suspended=False, status=status)


def seen(running: int, pending: str = "", created: str = TEN, terminating: int = 0) -> PodCounts:
    """Return pods of which this many run, and one has been pending since then."""
    waiting = 1 if pending else 0
    return PodCounts(
        living=running + waiting + terminating,
        terminating=terminating,
        running=running,
        running_of_sets={"main": running},
        pending=waiting,
        pending_since=pending,
        last_created=max(created, pending),
    )


GAVE_BACK = (ReclaimablePod(name="main", count=1),)


@pytest.mark.parametrize(
    ("job", "of", "pods", "want"),
    [
        pytest.param(
            runs(), running_unit(), seen(1, "2026-11-01T09:55:00Z"), "09:55:00", id="one is pending"
        ),
        pytest.param(
            runs(), running_unit(), seen(1, "2026-11-01T09:40:00Z"), "09:50:00", id="before any ran"
        ),
        pytest.param(runs(), running_unit(2), seen(2), "", id="all run"),
        pytest.param(runs(), running_unit(), seen(0, TEN), "", id="none runs"),
        pytest.param(runs(count=1), running_unit(), seen(1), "", id="the other has finished"),
        pytest.param(
            runs(count=3), running_unit(2), seen(2, TEN), "", id="what it has grown by is missing"
        ),
        pytest.param(
            runs(),
            running_unit(reclaimable_pods=GAVE_BACK),
            seen(1, TEN),
            "",
            id="what it has released is missing",
        ),
        pytest.param(
            runs(),
            running_unit(updated="2026-11-01T09:53:00Z"),
            seen(1),
            "09:53:00",
            id="there is none: since that was counted",
        ),
        pytest.param(
            runs(),
            running_unit(),
            seen(1, created="2026-11-01T09:54:00Z"),
            "09:54:00",
            id="another was created since",
        ),
        pytest.param(runs(), running_unit(2), seen(1), "", id="it has just gone: not counted yet"),
        pytest.param(
            runs(pods=2), running_unit(), seen(1), "", id="the operator reports another one"
        ),
        pytest.param(
            runs(pods=2),
            running_unit(),
            seen(1, terminating=1),
            "09:50:00",
            id="one is terminating, and not replaced",
        ),
        pytest.param(runs(), running_unit(updated=""), seen(1), "", id="never counted"),
        pytest.param(
            runs(),
            running_unit(conditions=()),
            seen(1, TEN),
            "",
            id="the start of any run is unknown",
        ),
    ],
)
def test_the_start_of_a_partial_run(
    job: JobFacts, of: QueueUnit, pods: PodCounts, want: str
) -> None:
    since = partial_since(job, of, pods)
    assert ("" if since is None else since.strftime("%H:%M:%S")) == want


def sets(**counts: tuple[int, int | None]) -> tuple[JobPodSet, ...]:
    """Return pod sets by name: how many pods, and how many it needs at least."""
    (one,) = facts().pod_sets
    return tuple(
        msgspec.structs.replace(one, name=name, count=count, min_count=least)
        for name, (count, least) in counts.items()
    )


@pytest.mark.parametrize(
    ("pod_sets", "running", "want"),
    [
        pytest.param(sets(head=(1, None), work=(4, None)), {"work": 4}, 1, id="another set's"),
        pytest.param(sets(head=(1, None), work=(4, None)), {"head": 1, "work": 4}, 0, id="all"),
        pytest.param(sets(head=(1, None), work=(4, 2)), {"head": 1, "work": 2}, 0, id="the least"),
        pytest.param(sets(head=(1, None), work=(4, 2)), {"head": 1, "work": 1}, 1, id="below it"),
        pytest.param(sets(head=(1, None), work=(4, None)), {"": 4}, 1, id="they have no minimum"),
    ],
)
def test_sets_are_judged_separately_and_by_their_minimum(
    pod_sets: tuple[JobPodSet, ...], running: dict[str, int], want: int
) -> None:
    job = facts(suspended=False, status=RUNS, pod_sets=pod_sets)
    of = msgspec.convert(build_unit(job, ClusterContext(), name="main"), QueueUnit)
    total = sum(running.values())
    pods = PodCounts(living=total, running=total, running_of_sets=running)
    assert missing_pods(job, of, pods) == want
