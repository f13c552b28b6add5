"""The record is written once a second; a full disk or a broken file only stops recording."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from queue_scheduler.record import record_writer
from queue_scheduler.record.digest import digest
from queue_scheduler.record.record_store import RecordStore, Retention, StoreError, open_store
from queue_scheduler.record.record_writer import RETRY_SECONDS
from queue_scheduler.record.time_travel import TimeTravel, TooEarlyError
from tests.properties.engine_kit import build_unit
from tests.queue_scheduler.record.record_kit import Recorded


def test_a_full_disk_stops_recording_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Recorded(tmp_path / "record")
    world.writer.step()

    def fail(_store: RecordStore) -> None:
        raise StoreError("database or disk is full")

    world.call("on_queue_unit", build_unit("lost", "a"))
    with monkeypatch.context() as patched:
        patched.setattr(RecordStore, "commit", fail)
        world.writer.step()
    assert "disk is full" in world.writer.problem
    assert world.writer.failures == 1
    world.call("on_queue_unit", build_unit("dropped", "a"))
    world.clock.advance(RETRY_SECONDS)
    world.writer.step()
    assert world.writer.problem == ""
    assert world.writer.needs_checkpoint(world.number)
    world.checkpoint()
    restarted = world.wall
    world.call("on_queue_unit", build_unit("kept", "a"))
    world.writer.step()
    found = TimeTravel(world.path).at(world.wall)
    assert digest(found.engine) == digest(world.engine)
    assert found.complete_from == restarted


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


MAX_BYTES = 150_000
"""Without retention the file has eight times as much."""


def test_old_calls_go_and_the_file_stays_small(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record", Retention(calls_seconds=3000.0, calls_bytes=60_000))
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
