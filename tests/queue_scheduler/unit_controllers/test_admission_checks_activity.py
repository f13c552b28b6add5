"""AdmissionChecks that cannot be carried out hold units, and units say so."""

from __future__ import annotations

import pytest

from queue_scheduler.engine.unit_questions import refusal_of_unit
from tests.object_states import condition_of
from tests.queue_scheduler.check_kit import Checked
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.fixture
def checked(kit: ShellKit) -> Checked:
    return Checked(kit)


def test_an_inactive_check_holds_waiting_and_reserved_units(checked: Checked) -> None:
    kit = checked.kit
    checked.reserve()
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.activate("b", "False", "its controller is gone")
    kit.add_unit("next")
    checked.pass_time(5.0)
    assert kit.phase("u") == "Reserved"
    refusal = refusal_of_unit(kit.engine, "default/next")
    assert refusal is not None
    assert (refusal.reason, refusal.other) == ("AdmissionCheckInactive", "b")
    kit.woken.clear()
    checked.activate("b", "True")
    assert kit.woken == ["team"], "the waiting unit is asked again"
    checked.pass_time()
    assert kit.phase("u") == "Dequeued"
    assert kit.dequeue().unit == "default/next"


def test_a_reserved_unit_names_its_inactive_checks(checked: Checked) -> None:
    def reported() -> str:
        return str(condition_of(checked.kit.unit("u"), "Admitted")["message"])

    checked.reserve()
    checked.pass_time()
    before = checked.kit.writes()
    checked.activate("b", "False", "no backend")
    checked.activate("other", "False")
    checked.pass_time(40.0)
    assert reported() == "Admission checks are open; not active: b"
    checked.activate("b", "False", "other words")
    checked.pass_time(40.0)
    assert checked.kit.writes() == before + 1
    checked.activate("a", "False")
    checked.pass_time(40.0)
    assert reported() == "Admission checks are open; not active: a, b"
    for name in "ab":
        checked.activate(name, "True")
        checked.pass_time(40.0)
    assert reported() == "Admission checks are open"
    assert checked.kit.writes() == before + 4
    assert condition_of(checked.kit.unit("u"), "Admitted")["reason"] == "WaitingForAdmissionChecks"


def test_a_check_with_flapping_activity_costs_no_write(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time()
    before = checked.kit.writes()
    for active in ("False", "True") * 5:
        checked.activate("b", active)
        checked.pass_time(20.0)
    assert checked.kit.writes() == before


def test_messages_of_others_stay_while_all_checks_are_active(checked: Checked) -> None:
    checked.reserve()
    admitted = condition_of(checked.kit.unit("u"), "Admitted")
    checked.patch({"conditions": [{**admitted, "message": "somebody's"}]})
    before = checked.kit.writes()
    checked.pass_time(5.0)
    assert checked.kit.writes() == before
