"""A unit's state, derived only from its object."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.unit_state import (
    CachedUnit,
    UnitState,
    is_in_flight,
    is_same_claim,
    judge,
    judge_place,
    version_of,
)
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.refusal_texts import stable_message
from shared_api.objects.meta import Condition
from shared_api.objects.queue import (
    AdmissionCheckReference,
    LabelSelector,
)
from shared_api.objects.queue_unit import QueueUnit, RequeueState
from shared_api.well_known_labels import BLOCK_FOR_TEST, GATED_BY, MAX_REFUSAL_CHARS, PODS_REFUSED
from tests.properties.engine_kit import build_queue, build_unit, changed, condition, moment

UNIT = build_unit("u", "a")
MARKED = build_unit("u", "a", annotations={"koord-queue/adopted": "true"})
EVICTED = condition("Evicted", "True")


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        ("", UnitState.WAITING),
        ("Enqueued", UnitState.WAITING),
        ("Preempted", UnitState.WAITING),
        ("Reserved", UnitState.ADMITTED),
        ("Dequeued", UnitState.ADMITTED),
        ("Running", UnitState.ADMITTED),
        ("SchedReady", UnitState.ADMITTED),
        ("SchedSucceed", UnitState.ADMITTED),
        ("SchedFailed", UnitState.ADMITTED),
        ("Succeed", UnitState.ENDED),
        ("Failed", UnitState.ENDED),
        ("TimeoutBackoff", Refusal(reason=Reason.IN_BACKOFF)),
    ],
)
def test_phases(phase: str, want: UnitState | Refusal) -> None:
    unit = replace(UNIT, status=replace(UNIT.status, phase=phase))
    assert judge(unit) == want


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        pytest.param(RequeueState(requeue_at=moment(9)), moment(9), id="until then"),
        pytest.param(RequeueState(), "", id="no time"),
        pytest.param(None, "", id="no requeue state"),
    ],
)
def test_when_a_backoff_ends(state: RequeueState | None, detail: str) -> None:
    status = replace(UNIT.status, phase="TimeoutBackoff", requeue_state=state)
    want = Refusal(reason=Reason.IN_BACKOFF, detail=detail)
    assert judge(replace(UNIT, status=status)) == want


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param("True", "not active: its backoff limit is reached", id="at its limit"),
        pytest.param("False", "not active: spec.active is false", id="by hand, later"),
    ],
)
def test_why_a_unit_is_inactive(status: str, words: str) -> None:
    limit = Condition(type="BackoffLimitReached", status=status)
    unit = build_unit("u", active=False)
    verdict = judge(replace(unit, status=replace(unit.status, conditions=(limit,))))
    assert isinstance(verdict, Refusal)
    assert words in stable_message(verdict)


def test_the_reason_for_refused_pods_is_passed_on_truncated() -> None:
    verdict = judge(build_unit("u", annotations={PODS_REFUSED: "x" * 100_000}))
    assert isinstance(verdict, Refusal)
    assert stable_message(verdict) == "its pods would be refused: " + "x" * MAX_REFUSAL_CHARS


def test_the_gates_of_a_unit_are_named() -> None:
    verdict = judge(build_unit("u", annotations={GATED_BY: "argo,example.com/data"}))
    assert isinstance(verdict, Refusal)
    want = "is held back by argo, example.com/data, in its annotation koord-queue/gated-by"
    assert stable_message(verdict) == want


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(build_unit("u", active=False), Reason.INACTIVE, id="inactive"),
        pytest.param(build_unit("u", deleted=True), Reason.INACTIVE, id="being deleted"),
        pytest.param(
            build_unit("u", annotations={PODS_REFUSED: "RuntimeClass kata does not exist"}),
            Reason.PODS_REFUSED,
            id="its pods would be refused",
        ),
        pytest.param(
            build_unit("u", annotations={GATED_BY: "argo"}), Reason.GATED_BY, id="behind a gate"
        ),
        pytest.param(
            build_unit("u", annotations={BLOCK_FOR_TEST: "true"}),
            Reason.BLOCKED_FOR_TEST,
            id="blocked for a test",
        ),
        pytest.param(
            build_unit("u", annotations={"kube-queue/block-for-test": "true"}),
            Reason.BLOCKED_FOR_TEST,
            id="blocked under the old prefix",
        ),
    ],
)
def test_why_a_unit_is_on_hold(unit: QueueUnit, want: Reason) -> None:
    verdict = judge(unit)
    assert isinstance(verdict, Refusal)
    assert verdict.reason is want
    assert judge(changed(unit, 2, "Running")) is UnitState.ADMITTED, "a running unit is not held"


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(MARKED, UnitState.WAITING, id="marked as adopted by hand"),
        pytest.param(
            changed(MARKED, 2, conditions=(EVICTED,)), UnitState.WAITING, id="marked, and evicted"
        ),
        pytest.param(
            changed(UNIT, 2, "Running", conditions=(condition("Adopted", "True"),)),
            UnitState.ADMITTED,
            id="adopted",
        ),
        pytest.param(
            changed(UNIT, 2, "Running", conditions=(EVICTED,)), UnitState.ADMITTED, id="not freed"
        ),
    ],
)
def test_adoption_and_eviction(unit: QueueUnit, want: UnitState) -> None:
    assert judge(unit) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [("12", 12), ("0", 0), ("", 0), ("abc", 0), ("²", 0), ("٣", 0), ("-1", 0)],
)
def test_version(text: str, want: int) -> None:
    assert version_of(replace(UNIT, metadata=replace(UNIT.metadata, resource_version=text))) == want


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param(changed(UNIT, 9, message="waits"), True, id="a status"),
        pytest.param(build_unit("u", "b"), False, id="another quota"),
        pytest.param(build_unit("u", "a", cpu=3), False, id="another demand"),
        pytest.param(build_unit("u", "a", annotations={"x": "y"}), False, id="an annotation"),
    ],
)
def test_same_claim(after: QueueUnit, *, want: bool) -> None:
    assert is_same_claim(UNIT, after) is want


@pytest.mark.parametrize(
    ("state", "phase", "want"),
    [
        (UnitState.ASSUMED, "Enqueued", True),
        (UnitState.ADMITTED, "Dequeued", True),
        (UnitState.ADMITTED, "Running", False),
        (UnitState.ADMITTED, "Reserved", True),
        (UnitState.ADMITTED, "SchedReady", True),
        (UnitState.ADMITTED, "SchedSucceed", True),
        (UnitState.WAITING, "Enqueued", False),
        (UnitState.ON_HOLD, "TimeoutBackoff", False),
    ],
)
def test_in_flight_is_between_the_decision_and_running(
    state: UnitState, phase: str, *, want: bool
) -> None:
    record = CachedUnit(unit=changed(UNIT, 2, phase), version=2, state=state)
    assert is_in_flight(record) is want
    assert record.occupies is (state in {UnitState.ASSUMED, UnitState.ADMITTED})


CHECK = AdmissionCheckReference(name="nodes")
CHECK_OF_OTHERS = AdmissionCheckReference(
    name="nodes", label_selector=LabelSelector(match_labels={"team": "other"})
)


def test_a_missing_queue_holds_the_unit() -> None:
    assert judge_place(UNIT, None, "q") == Refusal(reason=Reason.NO_QUEUE, other="q")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, None, id="nothing special"),
        pytest.param({"policy": "Nonsense"}, None, id="an unknown policy: the last valid stays"),
        pytest.param({"admission_checks": (CHECK,)}, None, id="a check: reserved for it"),
    ],
)
def test_what_a_queue_asks_for(spec: dict[str, object], want: Reason | None) -> None:
    got = judge_place(UNIT, build_queue("q", **spec), "q")  # type: ignore[arg-type] # a table's row
    assert (got.reason if got else None) is want


@pytest.mark.parametrize(
    ("checks", "want"),
    [
        pytest.param((CHECK_OF_OTHERS,), None, id="of others"),
        pytest.param(
            (CHECK_OF_OTHERS, CHECK), Reason.ADMISSION_CHECK_INACTIVE, id="of others, and its own"
        ),
    ],
)
def test_an_inactive_check_holds_units_that_need_it(
    checks: tuple[AdmissionCheckReference, ...], want: Reason | None
) -> None:
    queue = build_queue("q", admission_checks=checks)
    got = judge_place(UNIT, queue, "q", {"nodes": "no controller", "other": "neither"})
    assert (got.reason if got else None) is want
    if got is not None:
        assert (got.other, got.detail) == ("nodes", "no controller")
