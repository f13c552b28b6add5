"""Faults while checks are carried out: restarts, refused writes, a change of leader."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.preemption_cycle import PreemptionCycle
from queue_scheduler.decision import Notice, Preempt, Reason, Refusal, Victim
from queue_scheduler.unit_controllers.queue_drain import QueueDrain
from shared_api.objects.meta import Uid
from shared_api.well_known_labels import STOP_POLICY
from tests.object_states import condition_of
from tests.queue_scheduler.check_kit import TIMEOUT, Checked
from tests.queue_scheduler.shell_kit import UNIT_STATUS, ShellKit
from tests.stepped_host import exhaust


@pytest.fixture
def checked(kit: ShellKit) -> Checked:
    return Checked(kit)


def all_are_ready(checked: Checked) -> None:
    checked.reserve()
    for name in ("a", "b"):
        checked.say(name, "Ready")


def decide_admission(checked: Checked) -> None:
    """Have the admission decided; its write is still to be sent."""
    all_are_ready(checked)
    checked.news.hear(checked.cycle)
    exhaust(checked.cycle.step)


def test_a_restart_continues_where_it_was(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.pass_time(TIMEOUT / 2)
    checked.say("b", "Ready")
    checked.restarted()
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"


def test_a_restart_does_not_restart_the_timeout(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time(TIMEOUT - 5.0)
    checked.restarted()
    checked.pass_time(10.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_a_failed_write_is_retried(checked: Checked, status: int) -> None:
    all_are_ready(checked)
    checked.kit.server.faults.fail(status, times=1, match=UNIT_STATUS)
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Dequeued"
    assert checked.admitted == ["team"]


@pytest.mark.parametrize("pause", [0.5, 30.0], ids=["at once", "when it is requeued"])
def test_a_requeue_whose_answer_is_lost_is_reported_once(checked: Checked, pause: float) -> None:
    checked.reserve()
    checked.say("b", "Rejected")
    checked.news.hear(checked.cycle)
    exhaust(checked.cycle.step)
    checked.kit.server.faults.lose_answer(times=9, match=UNIT_STATUS)
    checked.kit.send()
    checked.kit.server.faults.clear()
    checked.kit.clock.advance(pause)
    if pause > 1.0:
        checked.patch({"phase": "Enqueued", "conditions": [], "message": "in the queue"})
    checked.pass_time(5.0)
    assert [notice.reason for notice in checked.reported] == ["AdmissionCheckRejected"]
    assert checked.failed == [("b", Shortfall.REJECTED)]


def test_an_admission_whose_answer_is_lost_counts_once(checked: Checked) -> None:
    all_are_ready(checked)
    checked.kit.server.faults.lose_answer(match=UNIT_STATUS)
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Dequeued"
    assert checked.admitted == ["team"]


def test_an_admission_that_was_not_written_does_not_count(checked: Checked) -> None:
    decide_admission(checked)
    checked.kit.server.faults.fail(504, times=9, match=UNIT_STATUS)
    checked.kit.send()
    checked.kit.server.faults.clear()
    checked.say("b", "Rejected")
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"
    assert checked.admitted == []


def test_an_eviction_whose_answer_is_lost_is_reported_once(checked: Checked) -> None:
    all_are_ready(checked)
    checked.pass_time()
    checked.say("a", "Retry")
    checked.kit.server.faults.lose_answer(match=UNIT_STATUS)
    checked.pass_time(5.0)
    assert condition_of(checked.kit.unit("u"), "Evicted")["status"] == "True"
    assert [notice.reason for notice in checked.reported] == ["AdmissionCheckRetry"]
    assert checked.failed == [("a", Shortfall.RETRY)]


def test_an_answer_that_changes_while_the_write_is_in_flight_counts(checked: Checked) -> None:
    decide_admission(checked)
    checked.say("b", "Rejected")
    checked.kit.send()
    assert checked.kit.phase("u") == "Reserved", "the version that was judged no longer exists"
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


def test_a_follower_writes_nothing_and_a_leader_catches_up(checked: Checked) -> None:
    checked.reserve()
    checked.kit.leads = False
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Reserved"
    assert checked.cycle.step() is None
    checked.kit.leads = True
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"


def test_units_without_checks_cost_nothing(checked: Checked) -> None:
    checked.ask()
    checked.reserve()
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Dequeued"
    assert checked.due.depth() == 0
    assert checked.line.observer.seen[0][0] == "team"
    assert "admissionChecks" not in checked.status()


def test_answers_of_an_earlier_try_are_removed_with_it(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Rejected")
    checked.pass_time()
    checked.ask()
    checked.patch({"phase": "Enqueued", "conditions": []})
    checked.pass_time()
    checked.line.cycle.carry_out(checked.kit.dequeue())
    checked.kit.send()
    assert (checked.kit.phase("u"), checked.entries()) == ("Dequeued", [])
    record = checked.kit.engine.record("default/u")
    assert record is not None
    assert record.state is UnitState.ADMITTED


# --- other writers of the same unit ------------------------------------------------------------


@pytest.mark.parametrize("first", ["the checks", "the drain"])
def test_a_drain_and_a_withdrawal_on_one_version_leave_a_unit_that_can_start(
    checked: Checked, first: str
) -> None:
    """Both are pending: the second one meets a conflict, and looks again."""
    kit = checked.kit
    checked.reserve()
    checked.pass_time(1.0)
    checked.ask("a", "b", annotations={STOP_POLICY: "HoldAndDrain"})
    drains = QueueDrain(kit.shared, kit.dispatcher, kit.note_written, kit.may_write, kit.clock)
    if first == "the drain":
        drains.step()
    exhaust(checked.cycle.step)
    drains.step()
    kit.send()
    phase, asked = ("Reserved", "True") if first == "the drain" else ("Enqueued", "")
    assert (kit.phase("u"), condition_of(kit.unit("u"), "Evicted").get("status", "")) == (
        phase,
        asked,
    )
    before = kit.writes()
    for _ in range(20):
        drains.step()
        checked.pass_time(1.0)
    assert kit.writes() == before, "no write is repeated again and again"


@pytest.mark.parametrize("first", ["the checks", "the round"])
def test_an_eviction_and_an_admission_on_one_version_do_not_lose_the_eviction(
    checked: Checked, first: str
) -> None:
    """The second writer meets a conflict."""
    kit = checked.kit
    checked.reserve()
    checked.news.hear(checked.cycle)
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.news.hear(checked.cycle)
    counted = Counted()
    cycle = PreemptionCycle(
        kit.shared, kit.dispatcher, kit.note_written, counted.events.append, kit.clock, counted
    )
    if first == "the checks":
        exhaust(checked.cycle.step)
    cycle.carry_out(eviction_of(kit, "u"))
    exhaust(checked.cycle.step)
    kit.send()
    asked = condition_of(kit.unit("u"), "Evicted").get("status", "")
    if first == "the checks":
        assert (kit.phase("u"), asked) == ("Dequeued", "")
        assert (counted.victims, counted.events) == ([], [])
    else:
        assert (kit.phase("u"), asked) == ("Reserved", "True")
        assert counted.victims == [1]
        assert checked.admitted == []
    before = kit.writes()
    checked.pass_time(20.0)
    assert kit.writes() == before, "no write is repeated again and again"


class Counted:
    """A `PreemptionObserver`, and events."""

    def __init__(self) -> None:
        self.victims: list[int] = []
        self.events: list[Notice] = []

    def on_preempted(self, queue: str, reason: str, victims: int) -> None:
        self.victims.append(victims)


def eviction_of(kit: ShellKit, name: str) -> Preempt:
    """Return a round, for a unit deleted meanwhile, with this unit as its only victim."""
    record = kit.engine.record(f"default/{name}")
    assert record is not None
    victim = Victim(
        unit=record.key,
        uid=record.uid,
        resource_version=record.unit.metadata.resource_version,
        priority=0,
        lost_seconds=0,
    )
    return Preempt(
        unit="default/other",
        uid=Uid("other"),
        queue="team",
        quota="team",
        priority=9,
        reason="Preempted",
        victims=(victim,),
        refusal=Refusal(reason=Reason.OVER_QUOTA_MAX),
    )
