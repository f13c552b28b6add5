"""What `koord-queue units` and `queues` print of a real cluster, and how answers are reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.command_line_kit import (
    CommandLine,
    assert_golden,
    command_line,
)
from tests.cluster.queue_world import OWN_TIMES_SECONDS, until


@pytest.fixture(scope="module")
def cli(controlplane_binaries: Path) -> Iterator[CommandLine]:
    """In quota team one job runs and two wait; one names a quota that is not there."""
    with command_line(controlplane_binaries) as found:
        world = found.world
        world.create_quota("team", cpu_max=4)
        until(lambda: world.has_queue("team"))
        world.create_job("first", "team", cpu="3", suspend=True, run_seconds=3600)
        until(lambda: world.phase_of_job("first") == "Running", OWN_TIMES_SECONDS)
        for name in ("second", "third"):
            world.create_job(
                name, "team", cpu="2", suspend=True, labels={"koord-queue/user": "ann"}
            )
            until(lambda name=name: reason(found, name) == "OverQuotaMax", OWN_TIMES_SECONDS)
        world.create_job("lost", "none-such", suspend=True)
        until(lambda: reason(found, "lost") == "NoQuota", OWN_TIMES_SECONDS)
        yield found


def reason(cli: CommandLine, job: str) -> str:
    """Return the reason that is shown for the unit of a job, or ""."""
    rows = [line.split() for line in cli.run("units").lines if f"job/{job} " in line]
    return rows[0][-1] if rows else ""


def test_units_are_a_table(cli: CommandLine) -> None:
    printed = cli.run("units")
    assert printed.err == ""
    assert_golden("units", printed.out)
    assert_golden("units-wide", cli.run("units", "-o", "wide", "-A").out)
