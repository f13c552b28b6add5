"""Which checks a unit needs, and what follows from their states."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import (
    NOT_ACTIVE,
    SHOWN_CHARS,
    AddEntries,
    AskBack,
    CheckVerdict,
    GoOn,
    KnownChecks,
    PutBack,
    Shortfall,
    WaitForChecks,
    Withdraw,
    entries_of,
    fresh_entries,
    judge_checks,
    lists_check,
    needed_checks,
    phase_after,
    selects,
)
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue import (
    AdmissionCheckReference,
    LabelSelector,
    LabelSelectorRequirement,
    Queue,
)
from shared_api.objects.queue_unit import (
    Admission,
    AdmissionCheckState,
    PodSetUpdate,
    QueueUnit,
    Toleration,
)
from shared_api.queue_unit_phases import Phase
from tests.properties.engine_kit import build_check, build_queue, build_unit, changed, condition

NOW = Timestamp("2026-11-01T10:00:00Z")
BEFORE = Timestamp("2026-11-01T09:00:00Z")
RED = LabelSelector(match_labels={"team": "red"})
BLUE = LabelSelector(match_labels={"team": "blue"})
UNIT = build_unit("u", "a", labels={"team": "red"})


def asking(*names: str | tuple[str, LabelSelector]) -> Queue:
    """Return a queue that lists these checks."""
    checks = tuple(
        AdmissionCheckReference(name=each)
        if isinstance(each, str)
        else AdmissionCheckReference(name=each[0], label_selector=each[1])
        for each in names
    )
    return build_queue("q", admission_checks=checks)


def state(name: str, said: str, message: str = "", **more: Any) -> AdmissionCheckState:
    return AdmissionCheckState(
        name=name, state=said, message=message, last_transition_time=BEFORE, **more
    )


def reserved(*states: AdmissionCheckState, phase: str = "Reserved", **status: Any) -> QueueUnit:
    return changed(UNIT, 2, phase, admission_checks=states, **status)


def judged(
    unit: QueueUnit,
    queue: Queue | None,
    inactive: dict[str, str] | None = None,
    *,
    is_late: bool = False,
    when_admitted: Phase | None = Phase.DEQUEUED,
) -> CheckVerdict:
    return judge_checks(
        unit,
        queue,
        inactive or {},
        is_late=is_late,
        timeout_seconds=60.0,
        when_admitted=when_admitted,
    )


# --- what is needed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param(asking(), (), id="none"),
        pytest.param(asking("b", "a"), ("b", "a"), id="all, in the queue's order"),
        pytest.param(asking(("a", RED), ("b", BLUE)), ("a",), id="by its labels"),
        pytest.param(asking(("a", BLUE), ("a", RED)), ("a",), id="the second selector fits"),
        pytest.param(asking(("a", RED), ("b", RED), "a"), ("a", "b"), id="both fit: one entry"),
    ],
)
def test_needed_checks(queue: Queue, want: tuple[str, ...]) -> None:
    assert needed_checks(queue, UNIT) == want


def test_a_listed_check_is_not_always_needed() -> None:
    queue = asking(("a", BLUE))
    assert lists_check(queue, "a")
    assert not lists_check(queue, "b")


def test_what_follows_the_decision_and_the_last_check() -> None:
    assert phase_after(("a",)) is Phase.RESERVED
    assert phase_after(()) is Phase.DEQUEUED
    assert phase_after(("a",), Phase.SCHED_READY) is Phase.RESERVED
    assert phase_after((), Phase.SCHED_READY) is Phase.SCHED_READY


def expression(operator: str, *values: str, key: str = "team") -> LabelSelector:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=values)
    return LabelSelector(match_expressions=(requirement,))


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        (None, True),
        (LabelSelector(), True),
        (LabelSelector(match_labels={"team": "red"}), True),
        (LabelSelector(match_labels={"team": "red", "size": "big"}), False),
        (expression("In", "red", "blue"), True),
        (expression("In", "blue"), False),
        (expression("In", "x", key="absent"), False),
        (expression("NotIn", "blue"), True),
        (expression("NotIn", "red"), False),
        (expression("NotIn", "x", key="absent"), True),
        (expression("Exists"), True),
        (expression("Exists", key="absent"), False),
        (expression("DoesNotExist"), False),
        (expression("DoesNotExist", key="absent"), True),
        (expression("Unheard"), True),
    ],
)
def test_selectors(selector: LabelSelector | None, *, want: bool) -> None:
    assert selects(selector, {"team": "red"}) is want


# --- entries ------------------------------------------------------------------------------------


def test_fresh_entries_have_what_the_schema_requires() -> None:
    assert fresh_entries(("a",), NOW) == [
        {"name": "a", "state": "Pending", "lastTransitionTime": NOW, "message": ""}
    ]


def test_entries_written_by_a_check_are_kept_unchanged() -> None:
    update = PodSetUpdate(
        name="main", node_selector={"pool": "x"}, tolerations=(Toleration(key="t"),)
    )
    said = state("a", "Ready", "here", retry_count=2, pod_set_updates=(update,))
    silent = replace(state("b", "Pending"), last_transition_time=None)
    entries = entries_of(reserved(said, silent, state("gone", "Ready")), ("a", "b", "c"), NOW)
    assert [entry["name"] for entry in entries] == ["a", "b", "c"]
    assert msgspec.convert(entries[0], AdmissionCheckState) == said
    assert {**entries[1]} == {
        "name": "b",
        "state": "Pending",
        "lastTransitionTime": NOW,
        "message": "",
    }
    assert entries[2:] == fresh_entries(("c",), NOW)


# --- what follows -------------------------------------------------------------------------------

TWO = asking("a", "b")
READY_BOTH = (state("a", "Ready"), state("b", "Ready"))
EVICTED = (condition("Evicted", "True"),)
GIVEN_BACK = (Admission(name="main", replicas=0),)
"""As the job side of an unmanaged unit lowers it."""


@pytest.mark.parametrize(
    ("unit", "queue", "want"),
    [
        pytest.param(reserved(*READY_BOTH), TWO, GoOn(Phase.DEQUEUED, ("a", "b")), id="ready"),
        pytest.param(reserved(), asking(), GoOn(Phase.DEQUEUED, ()), id="none is needed"),
        pytest.param(
            reserved(state("a", "Ready"), state("b", "Pending")),
            asking("a"),
            GoOn(Phase.DEQUEUED, ("a",)),
            id="the pending one was removed",
        ),
        pytest.param(
            reserved(state("a", "Ready"), state("b", "Rejected")),
            asking("a", ("b", BLUE)),
            GoOn(Phase.DEQUEUED, ("a",)),
            id="the rejected one is for others",
        ),
        pytest.param(
            reserved(state("b", "Ready")), TWO, AddEntries(("a", "b")), id="one was added"
        ),
        pytest.param(
            reserved(state("a", "Ready"), state("b", "Pending")),
            TWO,
            WaitForChecks(),
            id="one is pending",
        ),
        pytest.param(
            reserved(state("a", "Ready"), state("b", "Unheard")),
            TWO,
            WaitForChecks(),
            id="an unknown state",
        ),
        pytest.param(reserved(*READY_BOTH), None, WaitForChecks(), id="no queue"),
        pytest.param(reserved(*READY_BOTH, conditions=EVICTED), TWO, None, id="it leaves"),
        pytest.param(
            reserved(*READY_BOTH, admissions=GIVEN_BACK), TWO, None, id="its pods are given back"
        ),
    ],
)
def test_what_follows_from_the_states(
    unit: QueueUnit, queue: Queue | None, want: CheckVerdict
) -> None:
    assert judged(unit, queue) == want


def test_units_of_a_stopped_queue_neither_go_on_nor_hold_quota() -> None:
    for unit in (reserved(*READY_BOTH), reserved(), reserved(state("a", "Pending"))):
        assert judged(unit, TWO, when_admitted=None) == Withdraw()
    assert judged(reserved(*READY_BOTH, phase="Dequeued"), TWO, when_admitted=None) is None
    assert judged(reserved(*READY_BOTH, conditions=EVICTED), TWO, when_admitted=None) is None


@pytest.mark.parametrize("spec", [{"active": False}, {"deleted": True}], ids=str)
def test_a_leaving_unit_does_not_go_on(spec: dict[str, Any]) -> None:
    unit = changed(build_unit("u", "a", **spec), 2, "Reserved")
    assert judged(unit, asking()) is None


@pytest.mark.parametrize(
    ("states", "culprits", "why"),
    [
        pytest.param(("Ready", "Rejected"), ("b",), Shortfall.REJECTED, id="rejected"),
        pytest.param(("Retry", "Pending"), ("a",), Shortfall.RETRY, id="retry"),
        pytest.param(("Retry", "Rejected"), ("a", "b"), Shortfall.REJECTED, id="both"),
    ],
)
@pytest.mark.parametrize("queue", [TWO, None], ids=["queue", "no queue"])
def test_a_refusal_evicts_and_names_the_check(
    states: tuple[str, str], culprits: tuple[str, ...], why: Shortfall, queue: Queue | None
) -> None:
    unit = reserved(state("a", states[0], "no a"), state("b", states[1], "no b"))
    verdict = judged(unit, queue)
    assert isinstance(verdict, PutBack)
    assert (verdict.checks, verdict.why) == (culprits, why)
    assert all(f"(no {name})" in verdict.message for name in culprits)
    asked_back = judged(replace(unit, status=replace(unit.status, phase="Running")), queue)
    assert asked_back == AskBack(verdict.checks, verdict.why, verdict.message)


def test_the_message_of_a_check_is_truncated() -> None:
    verdict = judged(reserved(state("a", "Retry", 9 * SHOWN_CHARS * "x")), asking("a"))
    assert isinstance(verdict, PutBack)
    assert len(verdict.message) < 2 * SHOWN_CHARS


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
@pytest.mark.parametrize(
    ("states", "more"),
    [
        pytest.param(READY_BOTH, {}, id="all ready"),
        pytest.param((state("a", "Pending"), state("b", "Ready")), {}, id="one is pending again"),
        pytest.param((state("b", "Ready"),), {}, id="one was added later"),
        pytest.param((state("a", "Retry"),), {"conditions": EVICTED}, id="evicted already"),
        pytest.param((state("c", "Rejected"),), {}, id="one that it does not need"),
    ],
)
def test_an_admitted_unit_is_left_alone(
    phase: str, states: tuple[AdmissionCheckState, ...], more: dict[str, Any]
) -> None:
    assert judged(reserved(*states, phase=phase, **more), TWO, is_late=True) is None


# --- time ---------------------------------------------------------------------------------------


def test_it_waits_until_its_timeout() -> None:
    unit = reserved(state("a", "Pending"))
    assert judged(unit, asking("a")) == WaitForChecks()
    assert isinstance(judged(unit, asking("a"), is_late=True), PutBack)


def test_silent_checks_are_named_after_the_timeout() -> None:
    unit = reserved(state("a", "Pending", "asked the cloud"), state("b", "Ready"))
    verdict = judged(unit, TWO, {"b": "no controller"}, is_late=True)
    assert isinstance(verdict, PutBack)
    assert (verdict.checks, verdict.why) == (("a", "b"), Shortfall.TIMEOUT)
    assert verdict.message == (
        "admission checks not Ready within 60 s of the reservation: "
        "a (asked the cloud); b (is not active: no controller)"
    )


def test_a_unit_without_queue_does_not_hold_quota_forever() -> None:
    verdict = judged(reserved(), None, is_late=True)
    assert isinstance(verdict, PutBack)
    assert verdict.message.endswith("its queue is missing")


def test_an_inactive_check_keeps_a_reserved_unit_waiting() -> None:
    assert judged(reserved(*READY_BOTH), TWO, {"b": "why"}) == WaitForChecks(("b",))
    assert judged(reserved(*READY_BOTH), TWO, {"c": "why"}) == GoOn(Phase.DEQUEUED, ("a", "b"))


# --- the checks themselves ----------------------------------------------------------------------


def test_only_a_check_that_says_so_is_inactive() -> None:
    known = KnownChecks()
    assert not known.put(build_check("a"))
    assert not known.put(build_check("a", "Unknown"))
    assert known.put(build_check("a", "False", "why"))
    assert not known.put(build_check("a", "False", "why"))
    assert known.put(build_check("a", "False"))
    assert known.inactive == {"a": NOT_ACTIVE}
    assert known.put(build_check("a", "True"))
    assert known.inactive == {}


def test_a_deleted_check_holds_no_unit_and_is_missing() -> None:
    known = KnownChecks()
    known.put(build_check("a", "False", "why"))
    twin = known.copy()
    assert known.missing(asking("a", "b", "b")) == ("b",)
    assert known.drop("a")
    assert not known.drop("a")
    assert (known.inactive, known.names()) == ({}, ())
    assert known.missing(asking("a", "b")) == ("a", "b")
    assert (twin.inactive, twin.names()) == ({"a": "why"}, ("a",)), "a copy is independent"
