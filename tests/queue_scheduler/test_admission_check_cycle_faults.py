"""What can go wrong while checks are carried out: restarts, refused writes, a change of leader."""

from __future__ import annotations

import pytest

from queue_scheduler.unit_record import Standing
from tests.queue_scheduler.check_kit import TIMEOUT, Checked
from tests.queue_scheduler.shell_kit import UNIT_STATUS, ShellKit, exhaust


@pytest.fixture
def checked(kit: ShellKit) -> Checked:
    return Checked(kit)


def test_a_restart_goes_on_where_it_was(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.pass_time(TIMEOUT / 2)
    checked.say("b", "Ready")
    checked.restarted()
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"


def test_a_restart_does_not_begin_the_time_anew(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time(TIMEOUT - 5.0)
    checked.restarted()
    checked.pass_time(10.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_what_is_not_written_is_tried_again(checked: Checked, status: int) -> None:
    checked.reserve()
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.kit.server.faults.fail(status, times=1, match=UNIT_STATUS)
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Dequeued"
    assert checked.admitted == ["team"]


def test_an_answer_that_changes_while_the_write_is_under_way_counts(checked: Checked) -> None:
    checked.reserve()
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.news.hear(checked.cycle)
    exhaust(checked.cycle.step)
    checked.say("b", "Rejected")
    checked.kit.send()
    assert checked.kit.phase("u") == "Reserved", "the version that was judged is not there any more"
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


def test_a_follower_writes_nothing_and_a_leader_makes_up_for_it(checked: Checked) -> None:
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


def test_what_checks_said_of_an_earlier_try_goes_with_them(checked: Checked) -> None:
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
    assert record.standing is Standing.BOOKED
