"""Of what others ask meanwhile, a flood lets nothing be refused.

`make flood` has all ports and users, for a minute each, and measures how long others wait. Here no
time is judged: beside other tests, on two cores, it would tell about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.flood.bystanders import AVAILABLE, DISCOVERY
from tests.flood.flood_world import flood_world
from tests.flood.judgement import refusals
from tests.flood.questions import Port, User
from tests.flood.report import details
from tests.flood.rounds import Rounds, rounds

UNITS: Final = 1000
SECONDS: Final = 6.0
PER_SECOND: Final = 3.0
INTERVAL_SECONDS: Final = 0.2
SEEN: Final = {DISCOVERY, AVAILABLE, "kubectl get", "a unit on the page", "/livez of insight"}
"""Of those who ask meanwhile, who surely did."""


@pytest.fixture(scope="module")
def going(controlplane_binaries: Path) -> Iterator[Rounds]:
    with (
        flood_world(controlplane_binaries, UNITS) as world,
        rounds(
            world,
            seconds=SECONDS,
            per_second=PER_SECOND,
            interval=INTERVAL_SECONDS,
            awaits_rest=False,
        ) as going,
    ):
        yield going


@pytest.mark.parametrize(
    ("port", "user"),
    [
        (Port.AGGREGATED, User.VIEW),
        (Port.PAGE, User.ADMIN),
        (Port.SCHEDULER_DEBUG, User.STRANGER),
        (Port.SCHEDULER_METRICS, User.STRANGER),
    ],
)
def test_a_flood_has_nobody_else_refused(going: Rounds, port: Port, user: User) -> None:
    got = going.flood(port, user, going.watch(1.0), tries=1)
    reported = "\n".join(details(got))
    seen = got.figures.flooded
    assert got.answers.refused + got.answers.failed > 0, (
        reported
    )  # 200 clients are more than it serves
    assert refusals(seen) == [], reported
    assert set(seen.names()) >= SEEN, reported
    assert all(each.peak <= each.limit for each in got.figures.memory.values()), reported
