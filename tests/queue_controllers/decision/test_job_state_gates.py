"""The states of jobs that are held by their pods' gates."""

from __future__ import annotations

import pytest

from queue_controllers.decision.job_state import PodCounts, count_gated, judge_gates
from queue_controllers.extensions.pod_group import PodGroupAdapter
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.objects.meta import ObjectMeta
from tests.queue_controllers.pod_kit import build_pod

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
    assert [(each.name, each.pod_set) for each in facts.held] == [("a-held", "a")]
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


def test_pods_that_others_release_are_counted_until_they_are_marked() -> None:
    marked = build_pod("a-marked", gated=False, annotations={"koord-queue/released-at": "x"})
    assert counted(HELD, HELD_GOING, GOING, ENDED, marked).opened == 0
    assert counted(HELD, RUNS, WAITS).opened == 2
