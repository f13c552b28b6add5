"""Decisions about the reservations of a unit, by its phase."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.reservations.decide import (
    NOT_SERVED_SECONDS,
    PER_LOOK,
    DeleteReservations,
    decide_reservations,
    has_part,
)
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.queue_unit_phases import Phase
from tests.job_situations import NOW, evicted, facts, unit
from tests.queue_controllers.reservations.reservation_kit import (
    NO,
    SINCE,
    YES,
    asked,
    do,
    reservation,
    said,
    strict,
    view_of,
)

READY = strict()
AGAIN = strict(attempts=2)
NOT_SERVED = Condition(type="ReservationsNotServed", status="True", last_transition_time=SINCE)
LONG_AGO = "2026-11-01T08:00:00Z"
ONE_OF_TWO = (Admission(name="main", replicas=2, running=1),)
TWO_OF_TWO = (Admission(name="main", replicas=2, running=2),)
EACH_PHASE = (
    reservation("pending"),
    reservation("available", phase="Available"),
    reservation("succeeded", phase="Succeeded"),
    reservation("failed", phase="Failed"),
)
OLD = reservation("old", phase="Available", attempt=0)
ALL = "delete available failed pending succeeded"


@pytest.mark.parametrize(
    ("of", "reservations", "want"),
    [
        pytest.param(READY, (), ["create 2"], id="none exists"),
        pytest.param(READY, asked(READY)[:1], ["create 1"], id="one is missing"),
        pytest.param(READY, asked(READY), [], id="not decided"),
        pytest.param(READY, asked(READY, YES), ["move SchedSucceed"], id="granted"),
        pytest.param(READY, asked(READY, NO), ["move SchedFailed", "event NoNodes"], id="refused"),
        pytest.param(
            AGAIN, asked(AGAIN, said("False", "X/1")), [], id="reported for the attempt before"
        ),
        pytest.param(AGAIN, (OLD,), ["delete old"], id="one of an earlier attempt is left"),
        pytest.param(
            READY, (reservation("other", unit_uid="qu-0"),), ["delete other"], id="of another unit"
        ),
        pytest.param(
            AGAIN,
            (reservation("old", attempt=1, deleted=Timestamp("x")),),
            ["create 2"],
            id="a terminating one is not waited for",
        ),
        pytest.param(strict(conditions=evicted()), (), [], id="being evicted"),
        pytest.param(strict(active=False), (), [], id="deactivated"),
    ],
)
def test_while_nodes_are_reserved(
    of: QueueUnit, reservations: tuple[Reservation, ...], want: list[str]
) -> None:
    assert do(of, reservations) == want


def test_a_job_that_needs_no_pod_needs_no_node() -> None:
    assert do(READY, job=facts(count=0)) == ["move SchedSucceed"]


def test_no_more_is_reserved_than_was_granted() -> None:
    assert do(READY, job=facts(count=9)) == ["create 2"]


def test_an_unknown_job_is_waited_for() -> None:
    assert do(READY, job=None) == []


def test_a_kind_whose_pods_cannot_be_selected_is_released_with_an_event() -> None:
    got = do(READY, why_none="those of a Foo cannot be told")
    assert got == ["move SchedSucceed", "RecordUnitEvent"]


def test_many_are_created_in_batches() -> None:
    of = strict(admissions=(Admission(name="main", replicas=250),))
    job = facts(count=250)
    assert do(of, job=job) == [f"create {PER_LOOK}"]
    assert do(of, asked(of, job=job)[:200], job=job) == ["create 50"]


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(strict("SchedSucceed"), ["delete failed"], id="SchedSucceed"),
        pytest.param(strict("SchedFailed"), ["delete available failed"], id="SchedFailed"),
        pytest.param(
            strict("Running", admissions=ONE_OF_TWO),
            ["delete failed pending succeeded"],
            id="Running, one pod starting",
        ),
        pytest.param(strict("Running", admissions=TWO_OF_TWO), [ALL], id="Running"),
        *(
            pytest.param(strict(phase, admissions=()), [ALL], id=phase)
            for phase in ("Enqueued", "TimeoutBackoff", "Dequeued", "Succeed", "Failed")
        ),
        pytest.param(None, [ALL], id="gone"),
    ],
)
def test_which_reservations_are_deleted(of: QueueUnit | None, want: list[str]) -> None:
    assert do(of, EACH_PHASE) == want


@pytest.mark.parametrize("phase", ["SchedReady", "SchedSucceed", "SchedFailed", "Running"])
def test_those_of_an_earlier_attempt_are_deleted_in_any_phase(phase: str) -> None:
    assert do(strict(phase, admissions=ONE_OF_TWO), (OLD,)) == ["delete old"]


def test_those_of_a_unit_that_is_being_deleted_are_deleted() -> None:
    meta = msgspec.structs.replace(READY.metadata, deletion_timestamp=SINCE)
    assert do(msgspec.structs.replace(READY, metadata=meta), EACH_PHASE) == [ALL]


def test_terminating_ones_are_not_deleted_twice() -> None:
    assert do(None, (reservation("a", deleted=SINCE),)) == []


def test_many_are_deleted_in_batches() -> None:
    many = tuple(reservation(f"r{number:03}") for number in range(250))
    (action,) = decide_reservations(view_of(None, many)).actions
    assert isinstance(action, DeleteReservations)
    assert len(action.reservations) == PER_LOOK


# --- the kind is not served -----------------------------------------------------------------------


def test_without_the_kind_it_reports_that_and_waits() -> None:
    decision = decide_reservations(view_of(READY, is_served=False))
    assert do(READY, is_served=False) == [
        "write status",
        "RecordUnitEvent",
        "event ReservationsNotServed",
    ]
    assert decision.requeue_after_seconds == NOT_SERVED_SECONDS


def test_it_goes_on_waiting_for_its_minute() -> None:
    of = strict(conditions=(NOT_SERVED,))
    decision = decide_reservations(view_of(of, is_served=False))
    assert (decision.actions, decision.requeue_after_seconds) == ((), 30.0)


def test_after_its_minute_it_is_released_with_the_reason() -> None:
    of = strict(conditions=(NOT_SERVED,))
    (moved,) = decide_reservations(view_of(of, is_served=False, moment=NOW.after(31.0))).actions
    assert status_of(moved)["phase"] == "SchedFailed"
    assert "has no Reservations" in status_of(moved)["message"]
    assert condition_status(moved, "ReservationsNotServed") == "False"
    assert condition_status(moved, "Admitted") == "False"


@pytest.mark.parametrize(
    ("conditions", "allocated"),
    [
        pytest.param((Condition(type="Admitted", last_transition_time=SINCE),), None, id="told"),
        pytest.param((), SINCE, id="not told"),
    ],
)
def test_an_attempt_has_its_minute_regardless_of_earlier_ones(
    conditions: tuple[Condition, ...], allocated: Timestamp | None
) -> None:
    left = msgspec.structs.replace(NOT_SERVED, last_transition_time=Timestamp(LONG_AGO))
    of = strict(conditions=(left, *conditions), last_allocate_time=allocated)
    decision = decide_reservations(view_of(of, is_served=False))
    assert (decision.actions, decision.requeue_after_seconds) == ((), 30.0)


def test_it_waits_since_the_report_where_it_was_admitted_earlier() -> None:
    admitted = Condition(type="Admitted", status="True", last_transition_time=Timestamp(LONG_AGO))
    decision = decide_reservations(
        view_of(strict(conditions=(NOT_SERVED, admitted)), is_served=False)
    )
    assert (decision.actions, decision.requeue_after_seconds) == ((), 30.0)


def test_when_the_kind_appears_nodes_are_reserved() -> None:
    of = strict(conditions=(NOT_SERVED,))
    assert do(of) == ["create 2"]
    (moved,) = decide_reservations(view_of(of, asked(of, YES))).actions
    assert condition_status(moved, "ReservationsNotServed") == "False"


def test_a_unit_that_was_released_meanwhile_no_longer_reports_it() -> None:
    (written,) = decide_reservations(view_of(unit("Enqueued", conditions=(NOT_SERVED,)))).actions
    assert condition_status(written, "ReservationsNotServed") == "False"


@pytest.mark.parametrize("phase", list(Phase))
def test_phases_with_reservations(phase: Phase) -> None:
    assert has_part(strict(phase.value)) is phase.value.startswith("Sched")
    assert not has_part(None)
    assert has_part(strict(phase.value, conditions=(NOT_SERVED,)))


def test_the_result_is_reported_with_its_message() -> None:
    moved, _ = decide_reservations(view_of(READY, asked(READY, NO))).actions
    assert "0/3 nodes are available" in status_of(moved)["message"]
    (moved,) = decide_reservations(view_of(READY, asked(READY, YES))).actions
    assert status_of(moved)["message"] == "Nodes are reserved for 2 pods"


def status_of(action: Any) -> dict[str, Any]:
    assert isinstance(action, PatchUnitStatus)
    return action.status


def condition_status(action: Any, condition_type: str) -> str:
    conditions = status_of(action)["conditions"]
    return next((str(c["status"]) for c in conditions if c["type"] == condition_type), "")
