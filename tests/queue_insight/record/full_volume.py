"""Records on a volume that another file fills, and tells what it says: run by a test on a tmpfs.

python -m tests.queue_insight.record.full_volume FOLDER
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from queue_insight.record.decision_log import LogEntry, LogKind
from queue_insight.record.digest import digest
from queue_insight.record.record_writer import RETRY_SECONDS
from queue_insight.record.time_travel import TimeTravel
from tests.properties.engine_kit import build_unit
from tests.queue_insight.record.record_kit import Recorded


def fill_up(file: Path) -> None:
    """Take all that is free."""
    with suppress(OSError), file.open("wb", buffering=0) as other:
        while other.write(b"x" * 4096):
            pass


def record(world: Recorded, rounds: int) -> str:
    """Record some 50 kB a round; return why it stopped, "" if it did not."""
    for _ in range(rounds):
        world.clock.advance(1.0)
        for _ in range(10):
            world.writer.add(long_decision(world.wall))
        world.call("on_queue_unit", build_unit("u", "a", version=world.number + 1))
        world.checkpoint()
        world.write()
        if world.writer.problem:
            break
    return world.writer.problem


def long_decision(wall: float) -> LogEntry:
    return LogEntry(
        wall=wall, number=1, kind=LogKind.REFUSED, unit="a/u", queue="a", message="x" * 4_000
    )


def main(folder: Path) -> None:
    """Record more than the volume has, then with another file on it, then without."""
    world = Recorded(folder / "record")
    alone = record(world, 120)
    taken = sum(each.stat().st_size for each in folder.iterdir())
    fill_up(folder / "other")
    full = record(world, 120)
    (folder / "other").unlink()
    world.clock.advance(RETRY_SECONDS)
    world.write()
    again = record(world, 10)
    twin = TimeTravel(world.path).at(world.wall).engine
    print(
        json.dumps(
            {
                "alone": alone,
                "taken": taken,
                "full": full,
                "again": again,
                "same": digest(twin) == digest(world.engine),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
