"""The record is written once a second; a full disk or a broken file only stops recording."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from queue_scheduler.record import record_writer
from queue_scheduler.record.digest import digest
from queue_scheduler.record.record_file import open_store
from queue_scheduler.record.record_pruning import DAY, Retention
from queue_scheduler.record.record_writer import RETRY_SECONDS
from queue_scheduler.record.time_travel import TimeTravel, TooEarlyError
from tests.properties.engine_kit import build_unit
from tests.queue_scheduler.record.record_kit import Recorded


@contextmanager
def full_disk(_path: Path) -> Iterator[None]:
    """Let no file grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def cut_short(path: Path) -> Iterator[None]:
    """Leave less than a page of the file, and nothing of its log."""
    os.truncate(path, 100)
    os.truncate(f"{path}-wal", 0)
    yield


@contextmanager
def overwritten(path: Path) -> Iterator[None]:
    """Replace the content of the file and of its log."""
    for each in (path, Path(f"{path}-wal")):
        each.write_bytes(b"not a database" * 10_000)
    yield


@contextmanager
def deleted(path: Path) -> Iterator[None]:
    """Delete the file under the open connection."""
    path.unlink()
    yield


@pytest.mark.parametrize("meanwhile", [pytest.param(0, id="quiet"), pytest.param(1, id="a call")])
@pytest.mark.parametrize("breaking", [full_disk, cut_short, overwritten, deleted])
def test_recording_stops_and_goes_on_after_a_gap(
    tmp_path: Path, breaking: Callable[[Path], AbstractContextManager[None]], meanwhile: int
) -> None:
    world = Recorded(tmp_path / "record")
    world.write()
    with breaking(world.path):
        for number in range(MAX_UNNOTICED):
            world.call("on_queue_unit", build_unit(f"lost-{number}", "a"))
            world.clock.advance(record_writer.PRUNE_SECONDS)
            world.write()
            if world.writer.problem:
                break
    assert world.writer.problem
    assert world.writer.failures == 1
    assert not world.writer.complete_from
    for _ in range(meanwhile):
        world.call("on_queue_unit", build_unit("dropped", "a"))
    world.clock.advance(RETRY_SECONDS)
    world.write()
    assert world.writer.problem == ""
    # Without a checkpoint it would follow on a gap.
    world.call("on_queue_unit", build_unit("after a gap", "a"))
    assert world.writer.needs_checkpoint(world.number)
    world.checkpoint()
    restarted = world.wall
    world.call("on_queue_unit", build_unit("kept", "a"))
    world.write()
    found = TimeTravel(world.path).at(world.wall)
    assert digest(found.engine) == digest(world.engine)
    assert found.complete_from == restarted
    with pytest.raises(TooEarlyError, match=r"nothing was recorded after|the record begins at"):
        TimeTravel(world.path).at(restarted - 0.5)


def test_a_time_is_answered_until_recording_has_stopped(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record")
    world.call("on_queue_unit", build_unit("first", "a"))
    world.write()
    before = digest(world.engine)
    world.clock.advance(50.0)  # nothing happens, and that is known
    world.write()
    with full_disk(world.path):
        world.call("on_queue_unit", build_unit("lost", "a"))
        world.write()
    world.clock.advance(RETRY_SECONDS)
    world.write()
    world.checkpoint()
    world.write()
    travel = TimeTravel(world.path)
    lost = world.wall - RETRY_SECONDS
    assert digest(travel.at(lost - 1.5).engine) == before
    for gap in (lost - 0.5, world.wall - 0.5):
        with pytest.raises(TooEarlyError, match="nothing was recorded after"):
            travel.at(gap)


@pytest.mark.parametrize("content", [b"not a database" * 100, None])
def test_an_unreadable_file_is_moved_aside(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "record"
    if content is None:
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA user_version=99")
            other.execute("CREATE TABLE t (x)")
        content = path.read_bytes()
    else:
        path.write_bytes(content)
    open_store(path, 12.0).close()
    assert (tmp_path / "record.unreadable-12").read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_process_goes_on_with_the_file(tmp_path: Path) -> None:
    first = Recorded(tmp_path / "record")
    first.writer.close()
    second = Recorded(tmp_path / "record")
    second.clock.advance(5.0)
    second.checkpoint()
    second.call("on_queue_unit", build_unit("u", "a"))
    second.writer.close()
    assert digest(TimeTravel(second.path).at(second.wall).engine) == digest(second.engine)


MAX_UNNOTICED = 3
"""Minutes until a broken file is noticed."""

MAX_BYTES = 150_000
"""Without retention the file has eight times as much."""


@pytest.mark.timeout(600)  # a thousand commits, which wait for the disk and the processor
def test_old_calls_go_and_the_file_stays_small(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record", Retention(calls_seconds=3000.0), 200_000)
    began = world.wall
    for number in range(1000):
        world.call("on_queue_unit", build_unit(f"u{number % 7}", "a", version=number + 1))
        if number % 5 == 0:
            world.checkpoint()
        world.clock.advance(record_writer.PRUNE_SECONDS)
        world.writer.step()
    world.writer.step()
    assert world.path.stat().st_size <= MAX_BYTES
    travel = TimeTravel(world.path)
    assert digest(travel.at(world.wall).engine) == digest(world.engine)
    with pytest.raises(TooEarlyError):
        travel.at(began)


def test_space_is_given_back(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record")
    for number in range(100):
        world.call("on_queue_unit", build_unit(f"u{number}", "a"))
        world.checkpoint()
    world.writer.close()
    full = world.path.stat().st_size
    world.clock.advance(2 * DAY)
    world.writer.close()
    assert world.path.stat().st_size < full / 2
