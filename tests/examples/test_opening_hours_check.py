"""The example of an admission check, in a cluster."""

from __future__ import annotations

import pytest

from examples.opening_hours_check import OPEN_HOURS, OpeningHours
from tests.shared_api.admission_check_kit.check_world import CheckWorld


def started(hours: str) -> CheckWorld:
    """Return a world at ten o'clock, with one unit that waits."""
    world = CheckWorld()
    world.add_check()
    world.direct.patch(
        "admissionchecks", "check", {"metadata": {"annotations": {OPEN_HOURS: hours}}}
    )
    world.add_unit()
    world.start(OpeningHours(world.clock))
    return world


@pytest.mark.parametrize(
    ("hours", "want"),
    [
        ("9-17", "Ready"),
        ("10-11", "Ready"),
        ("9-10", "Pending"),
        ("22-6", "Pending"),
        ("22-11", "Ready"),
        ("10-10", "Pending"),
    ],
)
def test_units_start_at_the_hours_of_the_check(hours: str, want: str) -> None:
    assert started(hours).state()["state"] == want


def test_who_waits_starts_when_it_opens() -> None:
    world = started("11-12")
    assert world.state()["message"] == "opens at 11 h"
    world.clock.advance(3600.0)
    world.settle(61.0)
    assert world.state()["state"] == "Ready"


def test_hours_that_make_no_sense_are_told_on_the_check_and_hold_the_unit() -> None:
    world = started("always")
    assert world.activity() == ("False", "BadHours")
    assert world.state()["state"] == "Pending"
    world.direct.patch(
        "admissionchecks", "check", {"metadata": {"annotations": {OPEN_HOURS: "9-17"}}}
    )
    world.settle()
    assert world.activity() == ("True", "Active")
    assert world.state()["state"] == "Ready"
