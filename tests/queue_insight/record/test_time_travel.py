"""The engine as it was at any time, from the last checkpoint and the calls after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from queue_insight.record import time_travel
from queue_insight.record.checkpoint import thaw
from queue_insight.record.digest import digest
from queue_insight.record.record_file import open_store
from queue_insight.record.time_travel import Restored, TimeTravel, TooEarlyError
from queue_scheduler.engine.engine import Engine
from tests.properties.engine_kit import build_unit
from tests.queue_insight.record.record_kit import Recorded

PATIENCE_SECONDS: Final = 30.0


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


def test_what_is_deleted_while_an_engine_is_restored_is_not_missing_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Recorded(tmp_path / "record")
    for number in range(3):
        world.call("on_queue_unit", build_unit(f"u{number}", "a", version=number + 1))
    world.writer.step()

    def thaw_slowly(data: bytes) -> Engine:
        with closing(sqlite3.connect(world.path)) as other, other:
            other.execute("DELETE FROM calls")
        return thaw(data)

    monkeypatch.setattr(time_travel, "thaw", thaw_slowly)
    found = TimeTravel(world.path).at(world.wall)
    assert (found.number, digest(found.engine)) == (3, digest(world.engine))


def test_an_empty_record_says_so(tmp_path: Path) -> None:
    open_store(tmp_path / "record", 0.0).close()
    with pytest.raises(TooEarlyError, match="is empty"):
        TimeTravel(tmp_path / "record").at(0.0)


class SlowTravel(TimeTravel):
    """Restores an engine only once a test lets it.

    Attributes:
        reads: The times that were restored.
        may_end: Set once they may be.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads: list[float] = []
        self.may_end = Event()

    def _read(self, wall: float) -> Restored:
        self.reads.append(wall)
        assert self.may_end.wait(PATIENCE_SECONDS)
        return super()._read(wall)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(9) as pool:
        yield pool


def test_a_time_is_restored_once_for_all_who_ask(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    world = Recorded(tmp_path / "record")
    world.call("on_queue_unit", build_unit("u", "a"))
    world.writer.step()
    travel = SlowTravel(world.path)
    asked = [threads.submit(travel.at, world.wall) for _ in range(8)]
    travel.may_end.set()
    found = [each.result(PATIENCE_SECONDS) for each in asked]
    assert travel.reads == [world.wall]
    assert len({id(each.engine) for each in found}) == 8, "each its own"
    assert {digest(each.engine) for each in found} == {digest(world.engine)}


def test_what_is_kept_does_not_wait_for_what_is_restored(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    world = Recorded(tmp_path / "record")
    world.call("on_queue_unit", build_unit("u", "a"))
    world.writer.step()
    travel = SlowTravel(world.path)
    travel.may_end.set()
    travel.at(world.wall)
    travel.may_end.clear()
    try:
        slow = threads.submit(travel.at, world.wall + 1)
        assert digest(travel.at(world.wall).engine) == digest(world.engine)
        assert not slow.done()
    finally:
        travel.may_end.set()


def test_a_failure_is_told_to_all_and_not_kept(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    world = Recorded(tmp_path / "record")
    world.writer.step()
    travel = SlowTravel(world.path)
    early = world.wall - 10
    asked = [threads.submit(travel.at, early) for _ in range(3)]
    travel.may_end.set()
    for each in asked:
        with pytest.raises(TooEarlyError):
            each.result(PATIENCE_SECONDS)
    before = len(travel.reads)
    with pytest.raises(TooEarlyError):
        travel.at(early)
    assert len(travel.reads) == before + 1
