"""The record is written once a second; a full disk or a broken file only stops recording."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from queue_insight.record import record_writer
from queue_insight.record.digest import digest
from queue_insight.record.record_file import open_store
from queue_insight.record.record_pruning import DAY, Retention
from queue_insight.record.record_store import RecordStore
from queue_insight.record.record_tables import StoreError
from queue_insight.record.record_writer import RETRY_SECONDS, RecordWriter
from queue_insight.record.time_travel import TimeTravel, TooEarlyError
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import build_unit
from tests.properties.real_quotas import new_engine
from tests.queue_insight.record.full_volume import record
from tests.queue_insight.record.record_kit import Recorded


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


VOLUME_BYTES = 4 << 20


def test_a_full_volume_ends_recording_until_there_is_room(tmp_path: Path) -> None:
    """A real volume, where a user may mount one; elsewhere `full_disk` stands in for it."""
    own_mounts = ["unshare", "--map-root-user", "--mount"]
    mounted = f"mount -t tmpfs -o size={VOLUME_BYTES} none {tmp_path}"
    if subprocess.run(
        [*own_mounts, "sh", "-c", mounted], capture_output=True, check=False
    ).returncode:
        pytest.skip("no volume can be mounted here")
    run = f"{sys.executable} -m tests.queue_insight.record.full_volume {tmp_path}"
    done = subprocess.run(
        [*own_mounts, "sh", "-c", f"{mounted} && {run}"], capture_output=True, check=True, text=True
    )
    got = json.loads(done.stdout)
    assert got["alone"] == "", "on its own it keeps to what the volume has"
    assert VOLUME_BYTES / 4 < got["taken"] <= VOLUME_BYTES
    assert "there is no room for the record" in got["full"]
    assert "0.0 MiB of its volume are free" in got["full"]
    assert (got["again"], got["same"]) == ("", True)


def test_what_is_above_the_limit_of_the_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is deleted, SQLite refuses to let the file grow."""
    monkeypatch.setattr(RecordStore, "is_above_limits", lambda _: False)
    monkeypatch.setattr(record_writer, "PRUNE_SECONDS", 1e9)
    world = Recorded(tmp_path / "record", limit_bytes=1_000_000)
    record(world, 60)
    assert "there is no room for the record: database or disk is full" in world.writer.problem
    assert "of at most 1.0 MiB (--record-limit)" in world.writer.problem
    monkeypatch.undo()
    world.clock.advance(RETRY_SECONDS)
    world.write()
    assert world.writer.problem == "", "it makes room, and goes on"


def test_files_that_were_moved_aside_count_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "record"
    for number in range(3):
        aside = tmp_path / f"record.unreadable-{number}"
        aside.write_bytes(b"x" * 150_000)
        os.utime(aside, (number, number))
    open_store(path, 12.0, 1_000_000).close()
    assert sorted(each.name for each in tmp_path.glob("*unreadable*")) == [
        "record.unreadable-1",
        "record.unreadable-2",
    ]


def test_a_failure_in_the_midst_of_a_beginning_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> RecordStore:
        raise StoreError("no disk")

    monkeypatch.setattr(record_writer, "open_store", fail)
    failed: list[Future[float]] = []
    is_beginning = False

    def now() -> datetime:
        nonlocal is_beginning
        if is_beginning:
            is_beginning = False
            failed.append(threads.submit(writer.step))  # the thread that writes
            wait(failed, 0.2)  # it waits for the beginning, or is done in its midst
        return VirtualClock().now()

    with ThreadPoolExecutor(1) as threads:
        writer = RecordWriter(tmp_path / "record", now)
        is_beginning = True
        writer.begin(1, new_engine(QuotaSettings(mode=QuotaMode.MAX)))
        assert failed[0].result(10.0) == RETRY_SECONDS
    assert writer.problem
    assert writer.complete_from == 0.0
    monkeypatch.undo()
    writer.checkpoint(2, new_engine(QuotaSettings(mode=QuotaMode.MAX)))
    assert writer.complete_from == 0.0, "there is a problem until the next commit"


def test_what_waits_for_a_slow_disk_is_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_writer, "MAX_WAITING_BYTES", 1_000_000)
    monkeypatch.setattr(record_writer, "ITEMS_AT_ONCE", 1)
    world = Recorded(tmp_path / "record")

    def call(number: int) -> None:
        notes = {"note": "x" * 300_000}
        world.call("on_queue_unit", build_unit(f"u{number}", "a", annotations=notes))

    for number in range(10):
        call(number)
    assert len(vars(world.writer)["_waiting"]) == 1 + 4
    assert not world.writer.needs_checkpoint(world.number)
    world.write()
    for number in range(10, 13):  # there is room again
        assert world.writer.needs_checkpoint(world.number)
        world.checkpoint()
        call(number)
        world.write()
        assert not world.writer.needs_checkpoint(world.number)
        with full_disk(world.path):
            for _ in range(3):
                call(number)
            world.write()  # what is lost takes no room either
        assert world.writer.problem
        world.clock.advance(RETRY_SECONDS)
        world.write()
    world.checkpoint()
    for number in range(13, 16):  # as many as have room where nothing waits
        call(number)
    world.write()
    found = TimeTravel(world.path).at(world.wall)
    assert digest(found.engine) == digest(world.engine)


def test_a_row_has_few_calls_if_they_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_writer, "ROW_BYTES", 500_000)
    world = Recorded(tmp_path / "record")
    for number in range(5):
        notes = {"note": "x" * 300_000}
        world.call("on_queue_unit", build_unit(f"u{number}", "a", annotations=notes))
    world.write()
    with closing(sqlite3.connect(world.path)) as own:
        assert own.execute("SELECT last FROM calls").fetchall() == [(2,), (4,), (5,)]
    found = TimeTravel(world.path).at(world.wall)
    assert digest(found.engine) == digest(world.engine)


def test_while_the_disk_is_too_slow_no_fork_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_writer, "MAX_WAITING", 5)
    world = Recorded(tmp_path / "record")
    for number in range(20):
        world.call("on_queue_unit", build_unit(f"u{number}", "a"))
        if world.writer.needs_checkpoint(world.number):
            world.checkpoint()
    assert len(vars(world.writer)["_waiting"]) == 5
    assert not world.writer.needs_checkpoint(world.number), "else each call would fork the engine"
    world.checkpoint()
    assert len(vars(world.writer)["_waiting"]) == 5
    world.write()
    assert world.writer.needs_checkpoint(world.number)
    world.checkpoint()
    world.write()
    found = TimeTravel(world.path).at(world.wall)
    assert digest(found.engine) == digest(world.engine)
