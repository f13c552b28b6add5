"""A unit is requeued when its backoff has ended, whatever happens on the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.unit_controllers.requeue import (
    LONGEST_REST_SECONDS,
    BackoffRequeue,
)
from queue_scheduler.unit_controllers.unit_reconciler import FULL_REST_SECONDS, MAX_IN_FLIGHT
from queue_scheduler.unit_writes.eviction_patches import build_return_status
from shared_api.client.errors import Conflict
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnitStatus, RequeueState
from shared_api.testing.object_builders import queue_unit, queue_unit_body
from shared_api.timestamps import rfc3339
from tests.object_states import condition_of
from tests.queue_scheduler.shell_kit import UNIT_STATUS, HeldWrites, ShellKit, rejected
from tests.queue_scheduler.unit_news import UnitNews, access_of
from tests.stepped_host import exhaust

EARLIER = Timestamp("2026-11-01T09:00:00Z")

WAIT = 100.0
"""Seconds that units of these tests wait."""

RETRIED = 5.0
"""By then a failed write has been retried: the kit's queue pauses for a second."""


class Clinic:
    """A kit, its requeue shell, and an informer that delivers every version of a unit."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.news = UnitNews(kit)
        self.returns = self.restarted()

    def restarted(self) -> BackoffRequeue:
        """Return a new shell, with the first list of its informer."""
        self.due = self.kit.work_queue()
        self.returns = BackoffRequeue(access_of(self.kit, self.due), self.kit.clock)
        self.news.forget()
        self.hear()
        return self.returns

    def hear(self) -> None:
        """Deliver what has changed on the server, as the informer does."""
        self.news.hear(self.returns)

    def at(self, seconds: float) -> str:
        """Return the wall time in this many seconds."""
        return rfc3339(self.kit.clock.now() + timedelta(seconds=seconds))

    def back_off(self, name: str = "a", *, until: str | None, count: int = 1, **more: Any) -> None:
        """Create a unit and write it into backoff, as the controllers do."""
        self.kit.direct.create(queue_unit_body(name, quota="team", **more))
        self.put_off(name, until=until, count=count)

    def put_off(self, name: str = "a", *, until: str | None, count: int = 1) -> None:
        """Write a unit into backoff, or another end of it."""
        evicted = {
            "type": "Evicted",
            "status": "True",
            "reason": "BackoffTimeout",
            "message": "Backoff due to running timeout",
            "lastTransitionTime": self.at(0.0),
        }
        status = {
            "phase": "TimeoutBackoff",
            "admissions": [],
            "conditions": [evicted],
            "requeueState": {"count": count, "requeueAt": until},
        }
        self.kit.direct.patch(
            "queueunits", name, {"status": status}, namespace="default", subresource="status"
        )

    def pass_time(self, seconds: float, *, hears: bool = True) -> None:
        """Let time pass, and every shell do what there is to do."""
        self.news.pass_time(self.returns, seconds, hears=hears)
        self.due.validate()

    def returned(self) -> list[str]:
        """Return the units that are pending for the engine, and Enqueued on the server."""
        pending = pending_units(self.kit.engine.units, "team")
        names = [record.unit.metadata.name for record in pending]
        assert all(self.kit.phase(name) == "Enqueued" for name in names)
        return names


@pytest.fixture
def clinic(kit: ShellKit) -> Clinic:
    return Clinic(kit)


def test_a_unit_is_requeued_when_its_backoff_has_ended_and_not_before(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(WAIT - 1.0)
    assert (clinic.kit.phase("a"), clinic.kit.writes()) == ("TimeoutBackoff", 0)
    clinic.pass_time(2.0)
    assert clinic.returned() == ["a"]
    assert clinic.kit.writes() == 1
    assert clinic.kit.woken, "the queue's worker is asked to decide"
    assert clinic.kit.decide().unit == "default/a"


def test_the_answer_to_the_write_counts_before_the_watch_delivers_it(clinic: Clinic) -> None:
    clinic.back_off(until=None)
    clinic.hear()
    clinic.pass_time(1.0, hears=False)
    assert clinic.returned() == ["a"]
    assert [unit.metadata.name for unit in clinic.kit.noted] == ["a"]


def test_units_that_are_not_in_backoff_cost_nothing(clinic: Clinic) -> None:
    clinic.kit.direct.create(queue_unit_body("waiting", quota="team"))
    clinic.hear()
    assert clinic.due.depth() == 0


def test_the_message_of_a_requeued_unit(clinic: Clinic) -> None:
    until = clinic.at(WAIT)
    clinic.back_off(until=until, count=3)
    clinic.pass_time(WAIT + 1.0)
    unit = clinic.kit.unit("a")
    assert unit["status"]["message"] == "Enqueued because backoff timeout"
    assert unit["status"]["requeueState"] == {"count": 3, "requeueAt": until}
    for kind, reason in (
        ("QuotaReserved", "Pending"),
        ("Admitted", "Pending"),
        ("Evicted", "Requeued"),
    ):
        found = condition_of(unit, kind)
        assert (found["status"], found["reason"]) == ("False", reason)


@pytest.mark.parametrize(
    "until",
    [
        pytest.param(None, id="no time"),
        pytest.param("2001-01-01T00:00:00Z", id="long past"),
        pytest.param("2026-12-31T23:59:60Z", id="a leap second, which Python does not know"),
        pytest.param("0001-01-01T00:00:00+14:00", id="before all years"),
        pytest.param("9999-12-31T23:59:59-14:00", id="after all years"),
    ],
)
def test_no_unit_waits_for_an_impossible_time(clinic: Clinic, until: str | None) -> None:
    clinic.back_off(until=until)
    clinic.pass_time(1.0)
    assert clinic.returned() == ["a"]


def test_a_unit_without_a_requeue_state_is_requeued_at_once(clinic: Clinic) -> None:
    clinic.back_off(until=None)
    none = {"status": {"requeueState": None}}
    clinic.kit.direct.patch("queueunits", "a", none, namespace="default", subresource="status")
    clinic.pass_time(1.0)
    assert clinic.returned() == ["a"]


def test_a_distant_time_is_honored_and_costs_nothing(clinic: Clinic) -> None:
    clinic.back_off(until="9999-12-31T23:59:59Z")
    clinic.pass_time(10 * LONGEST_REST_SECONDS)
    assert (clinic.kit.phase("a"), clinic.kit.writes()) == ("TimeoutBackoff", 0)
    exhaust(clinic.returns.step)
    rest = clinic.returns.step()
    assert rest is not None
    assert 0.0 < rest <= LONGEST_REST_SECONDS


def test_two_units_with_the_same_time_are_both_requeued(clinic: Clinic) -> None:
    until = clinic.at(WAIT)
    clinic.back_off("a", until=until)
    clinic.back_off("b", until=until)
    clinic.pass_time(WAIT + 1.0)
    assert clinic.returned() == ["a", "b"]
    assert clinic.kit.writes() == 2


@pytest.mark.parametrize(
    ("passed", "rest"),
    [
        pytest.param(WAIT / 2, WAIT / 2, id="in the middle"),
        pytest.param(2 * WAIT, 0.0, id="down when the time came"),
    ],
)
def test_a_restart_finds_the_units_that_wait(clinic: Clinic, passed: float, rest: float) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    clinic.kit.clock.advance(passed - 1.0)
    clinic.restarted()
    clinic.pass_time(rest - 1.0)
    assert clinic.returned() == []
    clinic.pass_time(2.0)
    assert clinic.returned() == ["a"]


@pytest.mark.parametrize("later", [WAIT / 2, 2 * WAIT], ids=["earlier", "later"])
def test_an_edited_time_counts(clinic: Clinic, later: float) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    clinic.put_off(until=clinic.at(later))
    clinic.pass_time(later - 1.0)
    assert clinic.returned() == []
    clinic.pass_time(2.0)
    assert clinic.returned() == ["a"]


def test_a_unit_that_was_deleted_or_moved_is_left_alone(clinic: Clinic) -> None:
    for name in ("a", "b"):
        clinic.back_off(name, until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    clinic.kit.direct.delete("queueunits", "a", "default")
    ended = {"status": {"phase": "Succeed"}}
    clinic.kit.direct.patch("queueunits", "b", ended, namespace="default", subresource="status")
    clinic.pass_time(2 * WAIT)
    assert clinic.kit.phase("b") == "Succeed"
    assert clinic.kit.writes() == 0
    assert clinic.returns.step() is None, "nothing is waited for"


def test_a_recreated_unit_waits_for_its_own_time(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    clinic.kit.direct.delete("queueunits", "a", "default")
    clinic.back_off(until=clinic.at(3 * WAIT))
    clinic.pass_time(2 * WAIT)
    assert clinic.kit.phase("a") == "TimeoutBackoff"
    clinic.pass_time(WAIT + 2.0)
    assert clinic.returned() == ["a"]


def test_an_inactive_unit_is_requeued_and_held_for_that(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(WAIT), active=False)
    clinic.pass_time(WAIT + 1.0)
    assert (clinic.kit.phase("a"), clinic.returned()) == ("Enqueued", [])
    refusal = refusal_of_unit(clinic.kit.engine, "default/a")
    assert refusal is not None
    assert refusal.reason == "Inactive"
    clinic.pass_time(2 * WAIT)
    assert (clinic.kit.phase("a"), clinic.returned()) == ("Enqueued", []), "it is held"


# --- faults -----------------------------------------------------------------------------------


def test_a_conflict_is_retried_with_the_fresh_object(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    edited = {"metadata": {"annotations": {"somebody": "was here"}}}
    clinic.kit.direct.patch("queueunits", "a", edited, namespace="default")
    clinic.pass_time(WAIT, hears=False)
    assert clinic.kit.phase("a") == "TimeoutBackoff"
    assert clinic.kit.writes() > 0
    clinic.pass_time(RETRIED)
    assert clinic.returned() == ["a"]


def test_a_conflict_with_another_end_of_the_backoff_honors_it(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    clinic.put_off(until=clinic.at(3 * WAIT), count=2)
    clinic.pass_time(WAIT, hears=False)
    clinic.pass_time(WAIT)
    assert clinic.kit.phase("a") == "TimeoutBackoff"


@pytest.mark.parametrize("status", [403, 422, 500])
def test_a_refused_write_is_retried(clinic: Clinic, status: int) -> None:
    clinic.kit.server.faults.fail(status, times=1, match=UNIT_STATUS)
    clinic.back_off(until=None)
    clinic.pass_time(RETRIED)
    assert clinic.returned() == ["a"]


def test_a_lost_answer_is_detected(clinic: Clinic) -> None:
    clinic.kit.server.faults.lose_answer(times=5, match=UNIT_STATUS)
    clinic.back_off(until=None)
    clinic.pass_time(3 * RETRIED)
    assert clinic.returned() == ["a"]
    clinic.kit.server.faults.clear()
    written = clinic.kit.writes()
    clinic.pass_time(RETRIED)
    assert clinic.kit.writes() == written


def test_the_lease_expires_and_is_regained(clinic: Clinic, kit: ShellKit) -> None:
    clinic.back_off(until=None)
    clinic.hear()
    clinic.returns.step()
    kit.leads = False
    kit.send()
    assert kit.phase("a") == "TimeoutBackoff"
    kit.leads = True
    clinic.pass_time(RETRIED)
    assert clinic.returned() == ["a"]


def test_a_follower_writes_nothing_and_a_leader_catches_up(clinic: Clinic) -> None:
    clinic.kit.leads = False
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(2 * WAIT)
    assert clinic.kit.writes() == 0
    assert clinic.returns.step() is None
    assert clinic.due.seconds_until_ready() is None, "it may follow for months"
    clinic.kit.leads = True
    clinic.pass_time(1.0)
    assert clinic.returned() == ["a"]


def test_an_event_of_a_unit_with_a_write_in_flight_causes_no_second_one(kit: ShellKit) -> None:
    clinic, held = Clinic(kit), HeldWrites()
    returns = BackoffRequeue(access_of(kit, writes=held), kit.clock)
    clinic.returns = returns
    clinic.back_off(until=None)
    clinic.hear()
    exhaust(returns.step)
    clinic.put_off(until=clinic.at(WAIT))
    clinic.hear()
    exhaust(returns.step)
    assert len(held.writes) == 1
    held.settle(rejected(Conflict(409)))
    exhaust(returns.step)
    assert len(held.writes) == 1, "its newest object says that it has to wait"


# --- the clock --------------------------------------------------------------------------------


def test_a_clock_set_back_loses_no_unit(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(WAIT))
    clinic.pass_time(1.0)
    clinic.kit.clock.jump_wall_clock(-WAIT)
    clinic.pass_time(WAIT)
    assert clinic.kit.phase("a") == "TimeoutBackoff"
    clinic.pass_time(WAIT)
    assert clinic.returned() == ["a"]
    assert clinic.kit.writes() == 1


def test_a_clock_set_forward_is_noticed(clinic: Clinic) -> None:
    clinic.back_off(until=clinic.at(1000 * WAIT))
    clinic.pass_time(1.0)
    clinic.kit.clock.jump_wall_clock(1000 * WAIT)
    clinic.pass_time(LONGEST_REST_SECONDS + 1.0)
    assert clinic.returned() == ["a"]
    clinic.kit.clock.jump_wall_clock(-1000 * WAIT)
    clinic.pass_time(LONGEST_REST_SECONDS + 1.0)
    assert clinic.kit.writes() == 1


def test_when_all_are_requeued_at_once_there_is_room_for_decisions(kit: ShellKit) -> None:
    clinic, held = Clinic(kit), HeldWrites()
    returns = BackoffRequeue(access_of(kit, writes=held), kit.clock)
    clinic.returns = returns
    for number in range(MAX_IN_FLIGHT + 1):
        clinic.back_off(f"unit-{number}", until=None)
    clinic.hear()
    exhaust(returns.step)
    assert len(held.writes) == MAX_IN_FLIGHT
    assert returns.step() == FULL_REST_SECONDS
    held.settle(rejected(Conflict(409)))
    exhaust(returns.step)
    assert len(held.writes) == MAX_IN_FLIGHT + 1


# --- only the status ---------------------------------------------------------------------------


def test_the_status_leaves_other_conditions_and_the_requeue_state() -> None:
    other = Condition(type="Other", status="True", reason="R", last_transition_time=EARLIER)
    before = QueueUnitStatus(
        phase="TimeoutBackoff",
        conditions=(other,),
        requeue_state=RequeueState(count=2, requeue_at=EARLIER),
    )
    unit = msgspec.structs.replace(queue_unit("a", quota="team"), status=before)
    status = build_return_status(unit, Timestamp("2026-11-01T10:00:00Z"))
    assert status["phase"] == "Enqueued"
    assert "requeueState" not in status
    kinds = [condition["type"] for condition in status["conditions"]]
    assert kinds == ["Other", "QuotaReserved", "Admitted"]
