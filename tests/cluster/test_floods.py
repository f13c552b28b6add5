"""What some users ask 200 at a time keeps no other from its answers; `make flood` asks it all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.flood.flood_world import FloodWorld, flood_world
from tests.flood.judgement import Window
from tests.flood.questions import Port, User
from tests.flood.report import details
from tests.flood.rounds import Rounds, rounds

UNITS: Final = 1000
SECONDS: Final = 4.0
PER_SECOND: Final = 5.0
INTERVAL_SECONDS: Final = 0.2


class Flooded(NamedTuple):
    """A world that is to be flooded, and what is seen in it before."""

    world: FloodWorld
    rounds: Rounds
    quiet: Window


@pytest.fixture(scope="module")
def flooded(controlplane_binaries: Path) -> Iterator[Flooded]:
    with (
        flood_world(controlplane_binaries, UNITS) as world,
        rounds(world, seconds=SECONDS, per_second=PER_SECOND, interval=INTERVAL_SECONDS) as going,
    ):
        yield Flooded(world, going, going.watch(SECONDS))


@pytest.mark.parametrize(
    ("port", "user"),
    [
        (Port.AGGREGATED, User.VIEW),
        (Port.PAGE, User.NO_RIGHTS),
        (Port.SCHEDULER_DEBUG, User.STRANGER),
    ],
)
def test_a_flood_stops_nobody_else(flooded: Flooded, port: Port, user: User) -> None:
    """A second time if something is wrong: other tests use the machine meanwhile."""
    got = flooded.rounds.flood(port, user, flooded.quiet, tries=1)
    if got.faults:
        got = flooded.rounds.flood(port, user, flooded.rounds.watch(SECONDS), tries=1)
    assert got.answers.open > 0
    assert got.faults == [], "\n".join(details(got))
