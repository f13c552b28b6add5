"""What users see of bad input, and a check that other units are not affected."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from tests.queue_scheduler.scheduler_world import SchedulerWorld

TOLD_SECONDS = 10.0
"""Within this time, reason, condition, and event are written: two seconds and one sweep."""

Logs = list[MutableMapping[str, Any]]


def assert_all_else_goes_on(world: SchedulerWorld) -> None:
    """Check that a unit of another quota starts at once."""
    world.add_quota("good", cpu=1)
    world.add_unit("good-unit", "good")
    world.settle(1.0)
    assert world.phase("good-unit") == "Dequeued"


def warning_of(logs: Logs, name: str, reason: str) -> str:
    """Return the message of the only warning with this reason about an object."""
    (line,) = [
        line
        for line in logs
        if line["log_level"] == "warning"
        and str(line.get("object", "")).rpartition("/")[2] == name
        and line["reason"] == reason
    ]
    return str(line["note"])


def warnings_of(logs: Logs, event: str) -> list[str]:
    """Return the errors of the warnings of one kind."""
    found = [line for line in logs if line["event"] == event and line["log_level"] == "warning"]
    return [str(line["error"]) for line in found]
