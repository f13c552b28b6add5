"""Rows that are damaged, or were written by another version, are refused in one sentence."""

from __future__ import annotations

import random
import sqlite3
import tracemalloc
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.log_query import LogQuery, read_log
from queue_insight.record.record_file import open_store, read_store
from queue_insight.record.record_store import MAX_UNPACKED
from queue_insight.record.record_tables import StoreError
from queue_insight.record.time_travel import TimeTravel
from queue_insight.record.writer_version import describe_writer
from tests.properties.engine_kit import build_unit
from tests.queue_insight.record.record_kit import Recorded


def recorded(path: Path, change: str, *values: object) -> Recorded:
    """Return a record in which a statement has changed something."""
    world = Recorded(path)
    world.call("on_queue_unit", build_unit("u", "a"))
    world.call("decide_next", "a", 0.0)
    world.writer.step(world.wall)
    world.writer.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        own.execute(change, values)
    return world


@pytest.mark.parametrize(
    ("writer", "said"),
    [
        ("version 0.0.9 on cpython 3.10", "version 0.0.9 on cpython 3.10"),
        ("", "an older version"),
    ],
)
def test_a_checkpoint_of_another_version_is_not_read(
    tmp_path: Path, writer: str, said: str
) -> None:
    world = recorded(tmp_path / "record", "UPDATE stretches SET writer = ?", writer)
    with pytest.raises(CheckpointError) as refused:
        TimeTravel(world.path).at(world.wall)
    want = f"it was recorded by {said}, which {describe_writer()} cannot restore"
    assert str(refused.value) == want


def bomb(size: int) -> bytes:
    """Return zeros, compressed to a thousandth."""
    packing = zlib.compressobj(9)
    block = bytes(1 << 20)
    parts = [packing.compress(block) for _ in range(size >> 20)]
    return b"".join(parts) + packing.flush()


def test_a_row_that_unpacks_to_gigabytes_takes_no_more_than_a_checkpoint_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4 << 20
    monkeypatch.setattr("queue_insight.record.record_store.MAX_UNPACKED", most)
    data = bomb(64 << 20)
    world = recorded(tmp_path / "record", "UPDATE checkpoints SET data = ?", data)
    tracemalloc.start()
    with pytest.raises(StoreError, match=f"has more than {most} bytes"):
        TimeTravel(world.path).at(world.wall)
    _, taken = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 4 * most
    assert most < MAX_UNPACKED


@pytest.mark.parametrize("data", [b"no zlib", zlib.compress(b"x" * 100)[:-3], zlib.compress(b"[")])
def test_damaged_calls_are_an_error_of_the_record(tmp_path: Path, data: bytes) -> None:
    world = recorded(tmp_path / "record", "UPDATE calls SET data = ?", data)
    with pytest.raises(StoreError):
        TimeTravel(world.path).at(world.wall)


def test_rows_are_read_one_by_one_while_the_engine_plays_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_insight.record.record_store.MAX_READ_BYTES", 1_000_000)
    rows, length, seed = 40, 200_000, random.Random(1)  # texts that hardly shrink
    world = Recorded(tmp_path / "record")
    for _ in range(rows):
        notes = {"note": seed.randbytes(length // 2).hex()}
        world.call("on_queue_unit", build_unit("u", "a", annotations=notes))
        world.write()
    with closing(read_store(world.path)) as store:
        checkpoint = store.checkpoint_before(world.wall)
        assert checkpoint is not None
        tracemalloc.start()
        got = sum(1 for _ in store.calls_after(checkpoint, world.wall))
        _, taken = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert got == rows
    assert taken < rows * length / 4, "the rows together have half of their length"


def test_a_reader_that_plays_holds_back_nobody_and_notices_what_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_insight.record.record_store.MAX_READ_BYTES", 0)
    world = Recorded(tmp_path / "record")
    for number in range(3):
        world.call("on_queue_unit", build_unit(f"u{number}", "a"))
        world.write()
    world.writer.close()
    with (
        closing(read_store(world.path)) as store,
        closing(sqlite3.connect(world.path, isolation_level=None)) as own,
    ):
        checkpoint = store.checkpoint_before(world.wall)
        assert checkpoint is not None
        calls = store.calls_after(checkpoint, world.wall)
        assert next(calls).number == 1
        own.execute("DELETE FROM calls WHERE last <= 2")
        is_busy, *_ = own.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not is_busy
        with pytest.raises(StoreError, match="deleted while they were read"):
            next(calls)


def test_the_last_run_of_a_unit_is_found_by_its_name_alone(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "record", 0.0)) as store:
        stretch = store.begin_stretch(0.0)
        for number, unit in enumerate(("ns/a", "ns/ab", "ns/a", "ns/b")):
            user = 'x","unit":"ns/c"'
            run = FinishedRun(unit=unit, uid="u", user=user, charge={}, created=0.0, ended=number)
            store.add_finished(run)
        store.commit(stretch, 9.0)
        last = [next(store.finished_since(0.0, 1, unit), None) for unit in ("ns/a", "ns/c", "ns")]
        assert [each and each.ended for each in last] == [2.0, None, None]
        assert len(list(store.finished_since(0.0))) == 4


def test_a_damaged_decision_is_an_error_of_the_record(tmp_path: Path) -> None:
    world = recorded(tmp_path / "record", "UPDATE decisions SET data = ?", b"{")
    with (
        closing(read_store(world.path)) as store,
        pytest.raises(StoreError, match="a decision that cannot be read"),
    ):
        read_log(store, LogQuery())
