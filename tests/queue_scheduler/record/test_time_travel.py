"""The engine as it was at any time, from the last checkpoint and the calls after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_scheduler.record.digest import digest
from queue_scheduler.record.record_file import open_store
from queue_scheduler.record.time_travel import TimeTravel, TooEarlyError
from tests.properties.engine_kit import build_unit
from tests.queue_scheduler.record.record_kit import Recorded


def test_every_moment_can_be_had_again(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record")
    began, moments = world.wall, [(world.wall, 0, digest(world.engine))]
    for number in range(9):
        world.call("on_queue_unit", build_unit(f"u{number}", "a", version=number + 1))
        world.call("decide_next", "a", float(number))
        moments.append((world.wall, world.number, digest(world.engine)))
        if number == 4:
            world.checkpoint()
        if number % 3 == 2:
            world.writer.step()
    travel = TimeTravel(world.path)
    for wall, number, want in moments:
        found = travel.at(wall)
        assert (found.number, digest(found.engine)) == (number, want)
        assert found.complete_from == began
    with pytest.raises(TooEarlyError, match="the record begins at 2026"):
        travel.at(began - 1)


def test_an_answer_is_the_callers_own(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record")
    world.call("on_queue_unit", build_unit("u", "a"))
    world.writer.step()
    travel = TimeTravel(world.path, most=1)
    travel.at(world.wall).engine.decide_next("a", 0.0)
    assert digest(travel.at(world.wall).engine) == digest(world.engine)


def test_an_empty_record_says_so(tmp_path: Path) -> None:
    open_store(tmp_path / "record", 0.0).close()
    with pytest.raises(TooEarlyError, match="is empty"):
        TimeTravel(tmp_path / "record").at(0.0)
