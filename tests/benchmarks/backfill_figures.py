"""What a unit costs that passes a head, and ends, in a queue that backfills.

In the engine. 60 units run and have declared how long; a head waits for all of their cores; units
wait behind it, each of one core and with a time of its own, that would delay it. Then short units
come one by one, pass, and end a second later. Both change what is charged, and so may let any of
those that wait start.
"""

from __future__ import annotations

import time
from typing import Final

from tests.benchmarks.figures import Figure
from tests.properties.backfill_world import BackfillWorld

RUNNING: Final = 60
CORES: Final = 100
WAITING: Final = 90
"""Near to the most: a queue that backfills considers its first 100 positions."""
SHORT: Final = 200
LONG_SECONDS: Final = 100_000


def run(*, quick: bool = False) -> list[Figure]:
    """Measure behind a head for which many units wait, and for which none does."""
    short = SHORT // 10 if quick else SHORT
    return [
        Figure(
            name="backfill_pass_ms",
            value=_milliseconds(WAITING, short),
            unit="ms",
            control=_milliseconds(0, short),
            note=f"CPU of a unit that passes and ends beside {WAITING} that wait; control: none",
        ),
    ]


def _milliseconds(waiting: int, short: int) -> float:
    """Return the CPU time of one short unit, from its creation to its end."""
    world = BackfillWorld(cpu=CORES, validates=False)
    for number in range(RUNNING):
        seconds = LONG_SECONDS // 10 + number
        world.add(f"runs-{number:03}", says=seconds, lasts=seconds)
    world.go_on()
    world.add("head", cpu=CORES, says=5)
    for number in range(waiting):
        world.add(f"waits-{number:03}", says=LONG_SECONDS + number)
    world.go_on()
    started = 0
    began = time.process_time()
    for number in range(short):
        world.add(f"short-{number:03}", says=1, lasts=1)
        started += len(world.go_on(1))
    spent = time.process_time() - began
    if started != short:
        raise AssertionError(f"{started} of {short} short units have passed")
    return 1000 * spent / short
