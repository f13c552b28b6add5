"""Additions are loaded by name: what is not installed adds nothing, and what is broken is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from queue_insight.scheduler_additions import InsightAddition
from queue_scheduler.configuration import parse_flags
from queue_scheduler.setup.additions import load_additions
from shared_api.program_flags import ConfigurationError


def test_insight_is_added_where_it_is_installed() -> None:
    assert [type(each) for each in load_additions()] == [InsightAddition]


def test_a_package_that_is_not_installed_adds_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert load_additions(["no_such_package.additions:Addition"]) == ()
    with pytest.raises(SystemExit):
        parse_flags(["--insight-socket-dir=/sockets"])
    assert "unrecognized arguments: --insight-socket-dir" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    ["queue_scheduler.no_such_module:Addition", "queue_scheduler.setup.additions:NoClass"],
)
def test_an_installed_addition_that_cannot_be_imported_is_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"scheduler_additions .*{name}.* cannot be"):
        load_additions([name])


WITHOUT_INSIGHT = """
import sys
sys.modules["queue_insight"] = None
from queue_scheduler.__main__ import run
run(["--help"])
"""


def test_the_scheduler_runs_where_insight_is_not_installed() -> None:
    """What decides is complete without it: `SchedulerWorld` starts it so, and it schedules."""
    command = [sys.executable, "-c", WITHOUT_INSIGHT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--queue-namespace" in done.stdout
    assert "insight" not in done.stdout
    assert "shadow" not in done.stdout
