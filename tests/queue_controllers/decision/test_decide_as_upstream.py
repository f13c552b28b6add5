"""Upstream's tests of its reports about pods, restated: the ids are those of `cluster/upstream`.

Upstream's controllers lower `admissions[].replicas` to what runs. Here the scheduler writes those:
the controllers report in `reclaimablePods` what is not needed any more, living pods stay charged,
and a job that runs partially for long is evicted whole. `spec.resource` is never rewritten.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodCounts
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Admission, PodSet, QueueUnit
from tests.job_situations import NOW, RELEASED, RUNS, action_names, facts, look, unit

FIVE_MINUTES = JobSettings(partial_running_timeout_seconds=300.0)
EVICTED = ["write status", "RecordUnitEvent"]
LATE_COUNTS = JobMemory(miscounted_since=NOW.monotonic - 60)


def at(minutes_ago: int) -> Timestamp:
    return Timestamp(f"2026-11-01T{10 - (minutes_ago > 0):02}:{-minutes_ago % 60:02}:00Z")


def job_of(**counts: int) -> JobFacts:
    """Return a released job with pod sets of this many pods."""
    of = facts(suspended=False, status=RUNS, annotations=RELEASED)
    (one,) = of.pod_sets
    sets = (msgspec.structs.replace(one, name=name, count=n) for name, n in counts.items())
    return msgspec.structs.replace(of, pod_sets=tuple(sets))


def pods_of(
    running: dict[str, int], pending: dict[str, int] | None = None, minutes: int = 0
) -> PodCounts:
    """Return pods by set, the pending ones created this long ago."""
    waiting = pending or {}
    runs, waits = sum(running.values()), sum(waiting.values())
    return PodCounts(
        total=runs + waits,
        living=runs + waits,
        running=runs,
        running_of_sets=running,
        pending=waits,
        pending_of_sets=waiting,
        pending_since=at(minutes) if waits else "",
    )


def unit_of(phase: str, *admissions: Admission, **more: Any) -> QueueUnit:
    """Return a unit whose pod sets were admitted, and whose pods ran an hour ago."""
    ready = Condition(
        type="PodsReady", status="True", reason="PodsRunning", last_transition_time=at(59)
    )
    conditions = (ready,) if phase == "Running" else ()
    of = unit(phase, admissions=admissions, conditions=conditions, **more)
    (one,) = of.spec.pod_set
    sets = (
        PodSet(name=each.name, count=each.replicas, template=one.template) for each in admissions
    )
    spec = msgspec.structs.replace(of.spec, pod_set=tuple(sets))
    return msgspec.structs.replace(of, spec=spec)


def admitted(name: str, replicas: int, **resources: str) -> Admission:
    body = {"name": name, "replicas": replicas, "resources": resources}
    return msgspec.convert(body, Admission)


def status_of(job: JobFacts, of: QueueUnit, pods: PodCounts) -> dict[str, Any]:
    """Return the status that is written about pods that have been so for a while."""
    written = look(job, of, pods=pods, memory=LATE_COUNTS).actions
    (status,) = [each.status for each in written if isinstance(each, PatchUnitStatus)] or [{}]
    return status


@pytest.mark.parametrize(
    ("demand", "replicas", "pods", "want"),
    [
        pytest.param(2, 2, pods_of({"main": 1}), [], id="ctl-5 as many as were admitted"),
        pytest.param(
            1,
            3,
            pods_of({"main": 3}),
            [{"name": "main", "count": 2}],
            id="ctl-6 three live: they stay charged until they are gone",
        ),
        pytest.param(
            2,
            4,
            pods_of({"main": 1}, {"main": 1}),
            [{"name": "main", "count": 2}],
            id="ctl-7 two of four are not needed",
        ),
    ],
)
def test_a_demand_below_the_admission(
    demand: int, replicas: int, pods: PodCounts, want: list[dict[str, Any]]
) -> None:
    status = status_of(job_of(main=demand), unit_of("Running", admitted("main", replicas)), pods)
    assert status.get("reclaimablePods", []) == want
    assert [each["replicas"] for each in status.get("admissions", ())] in ([], [replicas])


def test_usage_is_counted_and_the_admission_stays() -> None:
    """[ctl-12]."""
    of = unit_of(
        "Running", admitted("ps-1", 1, cpu="1"), admitted("gpu-ps", 1, **{"nvidia.com/gpu": "8"})
    )
    written = status_of(job_of(**{"ps-1": 1, "gpu-ps": 1}), of, pods_of({"ps-1": 1, "gpu-ps": 1}))
    assert written["admissions"] == [
        {"name": "ps-1", "replicas": 1, "running": 1, "resources": {"cpu": "1"}},
        {"name": "gpu-ps", "replicas": 1, "running": 1, "resources": {"nvidia.com/gpu": "8"}},
    ]


def test_a_pod_on_a_node_that_does_not_run_yet_is_pending() -> None:
    """[ctl-13] Upstream counts it as running."""
    of = unit_of("Dequeued", admitted("ps-1", 1), admitted("gpu-ps", 1))
    job = job_of(**{"ps-1": 1, "gpu-ps": 1})
    waits = msgspec.structs.replace(job, status=facts().status)
    written = status_of(waits, of, pods_of({}, {"ps-1": 1}))
    assert written["admissions"] == [
        {"name": "ps-1", "replicas": 1, "running": 0, "pending": 1},
        {"name": "gpu-ps", "replicas": 1, "running": 0},
    ]


def partly(minutes: int) -> PodCounts:
    """Return a unit of which two of four pods run, and the others wait since then."""
    return pods_of({"main": 2}, {"main": 2}, minutes)


TWO_OF_FOUR = Admission(name="main", replicas=4, running=2, pending=2)
ALL_FOUR = Admission(name="main", replicas=4, running=4)


@pytest.mark.parametrize(
    ("of", "pods", "want"),
    [
        pytest.param(unit_of("Running", TWO_OF_FOUR), partly(0), [], id="ctl-15 first seen"),
        pytest.param(unit_of("Running", TWO_OF_FOUR), partly(10), EVICTED, id="ctl-16 for long"),
        pytest.param(unit_of("Running", TWO_OF_FOUR), partly(2), [], id="ctl-17 not for long yet"),
        pytest.param(
            unit_of("Running", ALL_FOUR), pods_of({"main": 4}), [], id="ctl-18 all of them run"
        ),
        pytest.param(
            unit_of("Enqueued", TWO_OF_FOUR),
            partly(10),
            ["suspend", "event SuspendedAgain"],
            id="ctl-19 not admitted: it may not run at all",
        ),
        pytest.param(
            unit_of("Dequeued", Admission(name="main", replicas=4)),
            pods_of({"main": 1}, {"main": 3}, 10),
            [],
            id="ctl-20 the first one runs: Running in half a second",
        ),
    ],
)
def test_partially_running_jobs(of: QueueUnit, pods: PodCounts, want: list[str]) -> None:
    decision = look(job_of(main=4), of, pods=pods, settings=FIVE_MINUTES)
    assert action_names(decision.actions) == want


def test_of_two_sets_the_incomplete_one_counts() -> None:
    """[ctl-21] Upstream lowers that set's replicas; a job that needs both cannot run so."""
    whole = Admission(name="ps-1", replicas=4, running=4)
    part = Admission(name="ps-2", replicas=3, running=1, pending=2)
    pods = pods_of({"ps-1": 4, "ps-2": 1}, {"ps-2": 2}, 10)
    job = job_of(**{"ps-1": 4, "ps-2": 3})
    decision = look(job, unit_of("Running", whole, part), pods=pods, settings=FIVE_MINUTES)
    assert action_names(decision.actions) == EVICTED
