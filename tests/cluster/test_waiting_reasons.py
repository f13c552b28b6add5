"""Which units have their reason to wait written, and when, on a real API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QueueWorld, reason_of, refusal_of
from tests.waiting import until

CROWD: Final = 150
FIRST: Final = 20
PER_SECOND: Final = 5
SPARE: Final = 20
"""On a slow machine: reasons written between two checks."""


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    with QueueWorld(controlplane_binaries) as world:
        yield world


@pytest.fixture(scope="module")
def scheduler(world: QueueWorld) -> ProgramProcess:
    return world.start_scheduler()


def reported(world: QueueWorld) -> list[str]:
    """Return the units of the crowd whose reason is written, by name."""
    return sorted(
        unit["metadata"]["name"]
        for unit in world.units()
        if unit["metadata"]["name"].startswith("crowd-") and reason_of(unit) == "OverQuotaMax"
    )


def test_the_first_units_and_actionable_reasons_come_before_the_crowd(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    world.create_quota("team", cpu_max=4)
    world.create_unit("runs", "team", cpu=4)
    assert until(lambda: world.phase("runs") == "Dequeued")
    began = time.monotonic()
    names = [f"crowd-{number:03}" for number in range(CROWD)]
    for name in names:
        world.create_unit(name, "team", cpu=1)
    world.create_unit("lost", "nowhere", cpu=1)
    assert until(lambda: reason_of(world.unit("lost")) == "NoQuota")
    assert until(lambda: set(names[:FIRST]) <= set(reported(world)))
    most = FIRST + SPARE + PER_SECOND * (time.monotonic() - began)
    assert len(reported(world)) <= most
    # The others have reason Waiting, and the debug API has the full reason.
    last = names[-1]
    assert world.unit(last)["status"]["message"] == "Waiting"
    assert refusal_of(scheduler, last)["reason"] == "OverQuotaMax"
    shown = world.plane.kubectl("get", "queueunit", last, "--output", "wide", "--no-headers")
    assert "Waiting" in shown.split()


@pytest.mark.usefixtures("scheduler")
def test_an_admission_does_not_wait_for_them(world: QueueWorld) -> None:
    waits = [
        name for name in (f"crowd-{n:03}" for n in range(CROWD)) if name not in reported(world)
    ]
    began = time.monotonic()
    world.finish_unit("runs")
    assert until(lambda: world.phase("crowd-003") == "Dequeued")
    assert time.monotonic() - began < len(waits) / PER_SECOND
