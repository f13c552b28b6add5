"""The example of an admission check: its judge, and how long it is. `tests/cluster` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import opening_hours_check
from examples.opening_hours_check import judge, read_hours
from shared_api.admission_check_kit.rules import RuleJudge
from tests.shared_api.admission_check_kit.check_world import CheckWorld

HOURS = "example.com/open-hours"
MOST_LINES = 30


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> CheckWorld:
    """A world at ten o'clock, with one unit that waits."""
    world = CheckWorld()
    monkeypatch.setattr(opening_hours_check, "CLOCK", world.clock)
    world.add_check()
    world.add_unit()
    return world


def set_hours(world: CheckWorld, hours: str) -> None:
    world.direct.patch("admissionchecks", "check", {"metadata": {"annotations": {HOURS: hours}}})


def start(world: CheckWorld, hours: str) -> None:
    set_hours(world, hours)
    world.start(RuleJudge(judge, read_hours))


@pytest.mark.parametrize(
    ("hours", "want"),
    [
        ("9-17", "Ready"),
        ("10-11", "Ready"),
        ("9-10", "Pending"),
        ("11-17", "Pending"),
        ("22-6", "Pending"),
        ("22-11", "Ready"),
        ("0-24", "Ready"),
        ("10-24", "Ready"),
        ("11-24", "Pending"),
        ("0-10", "Pending"),
    ],
)
def test_units_start_at_the_hours_of_the_check(world: CheckWorld, hours: str, want: str) -> None:
    start(world, hours)
    assert world.activity() == ("True", "Active")
    assert world.state()["state"] == want


def test_who_waits_starts_when_it_opens(world: CheckWorld) -> None:
    start(world, "11-12")
    assert world.state()["message"] == "opens at 11 h"
    world.clock.advance(3600.0)
    world.settle(61.0)
    assert world.state()["state"] == "Ready"


@pytest.mark.parametrize("hours", ["always", "9", "9-", "-9", "9-25", "9-17-18", "٩-17", ""])
def test_hours_that_make_no_sense_are_told_on_the_check_and_hold_the_unit(
    world: CheckWorld, hours: str
) -> None:
    start(world, hours)
    assert world.activity() == ("False", "BadHours")
    assert world.state()["state"] == "Pending"
    assert world.state()["message"].startswith(f"{HOURS} must be")
    set_hours(world, "9-17")
    world.settle()
    assert world.activity() == ("True", "Active")
    assert world.state()["state"] == "Ready"


def test_it_is_as_short_as_the_documentation_says() -> None:
    text = Path(opening_hours_check.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
