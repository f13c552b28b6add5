"""Strict queues: one value configures both programs."""

from __future__ import annotations

from typing import Any

import pytest

from queue_controllers import configuration as controllers_configuration
from queue_scheduler import configuration as scheduler_configuration
from tests.charts.test_chart import containers
from tests.queue_scheduler.all_flags import parse_all_flags

Json = Any


def scheduler_flags(values: Json) -> scheduler_configuration.Flags:
    return parse_all_flags(containers(values)["scheduler"]["args"])


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({}, False),
        ({"strictDequeue": {"enabled": True}}, True),
        ({"controller": {"enableResourceCheckWithScheduler": True}}, True),
    ],
)
def test_strict_mode_configures_both_programs(values: Json, want: bool) -> None:
    arguments = containers(values)["controllers"]["args"]
    assert controllers_configuration.parse_flags(arguments).enable_reservation is want
    assert scheduler_flags(values).strict.is_on is want


def test_which_queues_are_strict_and_which_units_are_small() -> None:
    strict = {
        "enabled": True,
        "queues": ["a", "!b"],
        "smallUnits": {"cpu": 1.5, "nvidia.com/gpu": 8},
        "verdictTimeout": "1h",
    }
    flags = scheduler_flags({"strictDequeue": strict})
    assert flags.strict.included == frozenset("a")
    assert flags.strict.excluded == frozenset("b")
    assert flags.strict.small == {"cpu": 1500, "nvidia.com/gpu": 8}
    assert flags.verdict_seconds == 3600.0
