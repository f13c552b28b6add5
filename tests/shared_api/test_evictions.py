"""Which evictions lead to a backoff, and its minimum length."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared_api.evictions import (
    backoffs_of,
    ends_in_backoff,
    eviction_reason,
    is_given_back,
    is_losing_quota,
    is_refused_by_checks,
    min_requeue_seconds,
)
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp
from shared_api.objects.queue_unit import (
    Admission,
    AdmissionCheckState,
    PodSet,
    QueueUnit,
    QueueUnitSpec,
    QueueUnitStatus,
    ReclaimState,
    RequeueState,
)


def unit(**status: object) -> QueueUnit:
    return replace(QueueUnit(), status=QueueUnitStatus(**status))  # type: ignore[arg-type] # rows


@pytest.mark.parametrize(
    ("status", "reason", "want"),
    [
        ("True", "BackoffTimeout", True),
        ("True", "AdmissionCheck", True),
        ("True", "Preempted", False),
        ("True", "Deactivated", False),
        ("False", "BackoffTimeout", False),
    ],
)
def test_which_evictions_lead_to_a_backoff(status: str, reason: str, *, want: bool) -> None:
    evicted = unit(conditions=(Condition(type="Evicted", status=status, reason=reason),))
    assert ends_in_backoff(evicted) is want
    assert eviction_reason(evicted) == (reason if status == "True" else "")


def test_backoffs_are_counted_from_the_unit() -> None:
    assert backoffs_of(unit()) == 0
    assert backoffs_of(unit(requeue_state=RequeueState(count=3))) == 3
    assert backoffs_of(unit(requeue_state=RequeueState(count=-3))) == 0, "edited manually"
    most = unit(requeue_state=RequeueState(count=2**31 - 1))
    assert backoffs_of(most) + 1 == 2**31 - 1, "the field holds no more"


@pytest.mark.parametrize(
    ("states", "seconds", "refused"),
    [
        ((), 0, False),
        ((("Ready", 50),), 0, False),
        ((("Pending", 50),), 0, True),
        ((("Retry", None),), 0, True),
        ((("Retry", 50), ("Rejected", 70), ("Pending", 90)), 70, True),
    ],
)
def test_how_long_checks_delay_a_unit(
    states: tuple[tuple[str, int | None], ...], seconds: int, *, refused: bool
) -> None:
    said = tuple(
        AdmissionCheckState(name=f"c{n}", state=state, requeue_after_seconds=after)
        for n, (state, after) in enumerate(states)
    )
    assert min_requeue_seconds(unit(admission_checks=said)) == seconds
    assert is_refused_by_checks(unit(admission_checks=said)) is refused


def granted(*replicas: int, phase: str = "Dequeued", asked: bool = False) -> QueueUnit:
    """Return a unit with one pod per set, of which this many replicas are admitted."""
    state = ReclaimState(replicas=1) if asked else None
    names = [f"s{n}" for n in range(len(replicas))]
    admissions = tuple(
        Admission(name=name, replicas=count, reclaim_state=state)
        for name, count in zip(names, replicas, strict=True)
    )
    spec = QueueUnitSpec(pod_set=tuple(PodSet(name=name, count=1) for name in names))
    return replace(unit(phase=phase, admissions=admissions), spec=spec)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(granted(0, 0), True, id="all"),
        pytest.param(granted(0, 0, phase="Running"), True, id="while it ran"),
        pytest.param(granted(0, -1), True, id="and below"),
        pytest.param(granted(0, 1), False, id="a part"),
        pytest.param(granted(0, 0, asked=True), False, id="a reclaim is requested"),
        pytest.param(granted(), False, id="no admissions, as with old versions"),
        pytest.param(granted(0, 0, phase="Enqueued"), False, id="not booked"),
    ],
)
def test_given_back(given: QueueUnit, *, want: bool) -> None:
    assert is_given_back(given) is want


def test_a_unit_with_a_job_side_or_without_pods_is_not_given_back() -> None:
    given = granted(0)
    managed = {"koord-queue/managed-by": "koord-queue-controllers"}
    assert not is_given_back(replace(given, metadata=ObjectMeta(annotations=managed)))
    nothing = tuple(replace(each, count=0) for each in given.spec.pod_set)
    assert not is_given_back(replace(given, spec=replace(given.spec, pod_set=nothing)))


START = Timestamp("2026-01-01T00:00:00Z")
RUNNING = granted(1, phase="Running")
EVICTED = Condition(type="Evicted", status="True", reason="Preempted")


@pytest.mark.parametrize(
    ("losing", "want"),
    [
        pytest.param(RUNNING, False, id="none of it"),
        pytest.param(
            replace(RUNNING, status=replace(RUNNING.status, conditions=(EVICTED,))),
            True,
            id="it is being evicted",
        ),
        pytest.param(granted(0), True, id="it is given back"),
        pytest.param(
            replace(RUNNING, spec=replace(RUNNING.spec, active=False)), True, id="inactive"
        ),
        pytest.param(
            replace(RUNNING, metadata=ObjectMeta(deletion_timestamp=START)),
            True,
            id="it is being deleted",
        ),
    ],
)
def test_losing_quota(losing: QueueUnit, *, want: bool) -> None:
    assert is_losing_quota(losing) is want
