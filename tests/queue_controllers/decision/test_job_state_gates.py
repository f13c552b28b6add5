"""The states of jobs that are held by their pods' gates, and which of their pods may start."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.decision.job_state import PodCounts, count_gated, judge_gates, room_of
from queue_controllers.extensions.pod_group import PodGroupAdapter
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit
from tests.queue_controllers.extensions.pod_kit import build_pod

FACTS = JobFacts(kind=PodGroupAdapter.kind, metadata=ObjectMeta(name="g"), suspended=False)


def name_of(pod: object) -> str:
    assert isinstance(pod, ScheduledPod)
    return pod.metadata.name.partition("-")[0]


def counted(*pods: ScheduledPod) -> PodCounts:
    return count_gated(pods, name_of)


HELD = build_pod("a-held")
HELD_GOING = build_pod("a-held-going", deleted=True)
RUNS = build_pod("a-runs", gated=False, phase="Running")
WAITS = build_pod("b-waits", gated=False)
GOING = build_pod("b-going", gated=False, phase="Running", deleted=True)
ENDED = build_pod("b-ended", gated=False, phase="Failed")


def test_held_pods_use_nothing() -> None:
    facts = counted(HELD, HELD_GOING, RUNS, WAITS, GOING, ENDED)
    assert (facts.total, facts.living, facts.terminating) == (4, 3, 1)
    assert (facts.running, facts.pending, facts.failed) == (1, 1, 1)
    assert facts.held_of_sets == {"a": 1}
    assert facts.living_of_sets == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("pods", "waiting", "admitted"),
    [
        ((), True, False),
        ((HELD,), True, True),
        ((HELD, RUNS), False, False),
        ((RUNS,), False, False),
        ((HELD, WAITS), False, False),
        ((GOING,), True, False),
        ((HELD, GOING), True, True),
        ((ENDED, HELD), True, True),
    ],
)
def test_when_it_counts_as_suspended(
    pods: tuple[ScheduledPod, ...], waiting: bool, admitted: bool
) -> None:
    facts = counted(*pods)
    assert judge_gates(FACTS, facts, admitted=False).suspended is waiting
    assert judge_gates(FACTS, facts, admitted=True).suspended is admitted


def unit_of(**granted: int) -> QueueUnit:
    sets = [{"name": name, "count": 9} for name in granted]
    shares = [{"name": name, "replicas": count} for name, count in granted.items()]
    body = {"spec": {"podSet": sets}, "status": {"admissions": shares}}
    return msgspec.convert(body, QueueUnit)


def test_no_more_start_than_are_granted() -> None:
    second = build_pod("a-second")
    assert room_of(unit_of(a=5, b=5), counted(HELD, second)) == {"a": 2}
    assert room_of(unit_of(a=2, b=5), counted(HELD, second, RUNS)) == {"a": 1}
    assert room_of(unit_of(a=1, b=5), counted(HELD, second, RUNS)) == {}
    held = build_pod("b-held")
    assert room_of(unit_of(a=1, b=1), counted(held, GOING)) == {}, "it is still charged"
    assert room_of(unit_of(a=1), counted(held)) == {}, "a set without an admission"


def test_a_set_with_too_few_that_started_and_one_with_too_many() -> None:
    """[ctl-61] Of `a` one more may start. Upstream sets the gate of the second of `b` again.

    The API server forbids that: the pod starts and is charged, and no more of `b` start.
    """
    first, second = build_pod("a-1", gated=False), build_pod("a-2")
    others = [build_pod(f"b-{number}", gated=False) for number in (3, 4)]
    pods = counted(first, second, *others, build_pod("b-5"))
    assert room_of(unit_of(a=2, b=1), pods) == {"a": 1}
    assert not judge_gates(FACTS, pods, admitted=True).suspended


def test_pods_that_others_release_are_counted_until_they_are_marked() -> None:
    marked = build_pod("a-marked", gated=False, annotations={"koord-queue/released-at": "x"})
    assert counted(HELD, HELD_GOING, GOING, ENDED, marked).opened == 0
    assert counted(HELD, RUNS, WAITS).opened == 2
