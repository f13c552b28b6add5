"""All tables together stay below the limit, on disk; the oldest rows go first."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.record import record_pruning
from queue_insight.record.decision_log import LogEntry, LogKind
from queue_insight.record.log_query import LogQuery, read_log
from queue_insight.record.record_file import bytes_of, open_store, read_store
from queue_insight.record.record_limits import Limits
from queue_insight.record.record_pruning import Retention
from queue_insight.record.record_store import Checkpoint, RecordStore
from queue_insight.record.record_tables import BEFORE, DAYS_TABLE, HOURS_TABLE, StoreFullError
from queue_insight.record.samples import LEVELS, WHOLE, Level, Sample, SampleBatch
from tests.properties.engine_kit import build_unit
from tests.queue_insight.record.record_kit import Recorded

LIMIT: Final = 4_000_000
FOREVER: Final = Retention(decisions_seconds=1e12, calls_seconds=1e12)


def decision(number: int, size: int) -> LogEntry:
    return LogEntry(
        wall=float(number),
        number=number,
        kind=LogKind.REFUSED,
        unit=f"team-a/job-{number}",
        queue="a",
        reason="OverQuotaMax",
        message="x" * size,
    )


def run(number: int) -> FinishedRun:
    return FinishedRun(
        unit=f"a/u{number}",
        uid=f"u{number}",
        kind="Job",
        user="x" * 400,
        queue="a",
        quota="a",
        priority=0,
        charge={},
        created=0.0,
        started=0.0,
        ended=float(number),
        ended_by="finished",
    )


def checkpoint(number: int) -> Checkpoint:
    # Random enough to be as large when it is compressed.
    data = b"".join(hash((number, at)).to_bytes(8, "little", signed=True) for at in range(8_000))
    return Checkpoint(stretch=1, number=number, wall=float(number), data=data)


def fill(store: RecordStore, number: int) -> None:
    """Write one of everything, more than the limit in a hundred rounds."""
    store.add_checkpoint(checkpoint(number))
    for each in range(number * 20, number * 20 + 20):
        store.add_decision(decision(each, 2_000))
        store.add_finished(run(each))


def fill_for_long(store: RecordStore) -> None:
    for number in range(1_000):
        fill(store, number)
        store.commit(1, float(number))


def test_a_flood_of_everything_stays_below_the_limit(tmp_path: Path) -> None:
    """Every byte in the folder counts: the file, its log, and indexes."""
    path, most = tmp_path / "record", 0
    with closing(open_store(path, 0.0, LIMIT)) as store:
        store.begin_stretch(0.0)
        for number in range(300):
            fill(store, number)
            store.commit(1, float(number))
            if store.is_above_limits():
                store.prune(float(number), FOREVER)
            most = max(most, sum(each.stat().st_size for each in tmp_path.iterdir()))
        assert LIMIT / 2 < most <= LIMIT
        kept = [entry.number for _, entry in store.select_decisions("ORDER BY id")]
        assert kept == list(range(kept[0], 6_000)), "the oldest go, and no others"
        assert [each.ended for each in store.finished_since(0.0)][-1] == 5_999.0
        assert store.first_wall() not in {None, 0.0}


@pytest.mark.parametrize("table", ["decisions", "finished", "calls"])
def test_each_table_alone_stays_within_its_share(tmp_path: Path, table: str) -> None:
    path = tmp_path / "record"
    with closing(open_store(path, 0.0, LIMIT)) as store:
        store.begin_stretch(0.0)
        for number in range(8_000):
            match table:
                case "decisions":
                    store.add_decision(decision(number, 500))
                case "finished":
                    store.add_finished(run(number))
                case _ if number % 50 == 0:
                    store.add_checkpoint(checkpoint(number))
            if number % 100 == 0:
                store.commit(1, float(number))
                store.prune(float(number), FOREVER)
    of = "checkpoints" if table == "calls" else table
    rows = f"SELECT sum(length(data)) FROM {of}"  # noqa: S608 - a table of ours
    with closing(sqlite3.connect(path)) as own:
        (size,) = own.execute(rows).fetchone()
    assert size <= Limits(LIMIT).of_table(table)
    assert size >= Limits(LIMIT).of_table(table) / 2


def test_samples_stay_within_their_shares(tmp_path: Path) -> None:
    """One minute of each half hour: all tables have as much."""
    path = tmp_path / "record"
    names = {f"queue/q{each:03}": Sample(used={"x" * 300: 1}) for each in range(30)}
    with closing(open_store(path, 0.0, LIMIT)) as store:
        store.begin_stretch(0.0)
        for number in range(20):
            store.samples.add(SampleBatch(1_800 * number, {WHOLE: Sample(), **names}))
            store.commit(1, 0.0)
            if store.is_above_limits():
                store.prune(0.0, FOREVER)
    with closing(sqlite3.connect(path)) as own:
        for level in LEVELS:
            rows = f"SELECT sum(length(data)), max(wall) FROM {level.table}"  # noqa: S608 - a table of ours
            size, newest = own.execute(rows).fetchone()
            assert Limits(LIMIT).of_table(level.table) / 3 <= size
            assert size <= Limits(LIMIT).of_table(level.table)
            assert newest >= 1_800 * 18


def test_samples_are_kept_for_their_time(tmp_path: Path) -> None:
    path, begin = tmp_path / "record", 1_800_000_000
    with closing(open_store(path, 0.0)) as store:
        store.begin_stretch(0.0)
        for number in range(90):
            store.samples.add(SampleBatch(begin + 60 * number, {WHOLE: Sample()}))
        for level in LEVELS:
            store.prune(begin + level.kept_seconds + 0.5, Retention())
            assert count_of(store, level) > 0
            store.prune(begin + level.kept_seconds + 5_400.0, Retention())
            assert count_of(store, level) == 0


def count_of(store: RecordStore, level: Level) -> int:
    return store.statements.number(f"SELECT count(*) FROM {level.table}")  # noqa: S608 - ours


def test_what_is_deleted_by_hand_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with closing(open_store(path, 0.0, LIMIT)) as store:
        store.begin_stretch(0.0)
        fill(store, 1)
        store.commit(1, 1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        sizes = "SELECT bytes FROM sizes WHERE of = 'decisions'"
        assert own.execute(sizes).fetchone()[0] > 0
        own.execute("DELETE FROM decisions")
        assert own.execute(sizes).fetchone()[0] == 0


def test_stretches_without_checkpoints_are_forgotten(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record", Retention(calls_seconds=100.0))
    for number in range(50):
        world.writer.begin(world.number, world.engine.fork())
        world.call("on_queue_unit", build_unit(f"u{number}", "a"))
        world.clock.advance(record_pruning.DAY / 10)
        world.write()
    with closing(sqlite3.connect(world.path)) as own:
        assert own.execute("SELECT count(*) FROM stretches").fetchone()[0] <= 2


def test_one_checkpoint_is_not_larger_than_its_part(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "record", 0.0, 100_000)) as store:
        store.begin_stretch(0.0)
        with pytest.raises(
            StoreFullError, match=r"a checkpoint has .* bytes, and there is room for"
        ):
            store.add_checkpoint(checkpoint(1))


def test_a_reader_that_does_not_end_stops_the_record_and_not_the_disk(tmp_path: Path) -> None:
    """While it reads, SQLite cannot copy its log into the file."""
    path = tmp_path / "record"
    with closing(open_store(path, 0.0, LIMIT)) as store:
        store.begin_stretch(0.0)
        store.commit(1, 0.0)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM decisions").fetchall()
            with pytest.raises(StoreFullError, match="another program reads"):
                fill_for_long(store)
    assert bytes_of(path) <= LIMIT


def test_a_lower_limit_is_kept_at_once(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with closing(open_store(path, 0.0, LIMIT)) as store:
        store.begin_stretch(0.0)
        for number in range(15):
            fill(store, number)
            store.commit(1, float(number))
    with closing(open_store(path, 0.0, LIMIT // 10)) as store:
        store.prune(0.0, FOREVER)
        newest = store.select_decisions("ORDER BY id DESC LIMIT 1")
    assert newest[0][1].number == 299
    assert bytes_of(path) <= LIMIT // 10


def make_older(path: Path, version: int = 2) -> None:
    """Make the file of a record one of an earlier version."""
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        later = [HOURS_TABLE, DAYS_TABLE] if version < 8 else []
        later += [level.table for level in LEVELS] if version < 6 else []
        for table in later:
            own.execute(f"DROP TABLE {table}")
            own.execute("DELETE FROM sizes WHERE of = ?", [table])
        own.execute("DROP TABLE use_spans")
        if version > 2:
            own.execute(f"PRAGMA user_version={version}")
            return
        triggers = own.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            own.execute(f"DROP TRIGGER {name}")
        own.execute("DROP TABLE sizes")
        own.execute("ALTER TABLE stretches DROP COLUMN writer")
        own.execute("PRAGMA user_version=2")
        own.execute("VACUUM")  # no page is free


def test_a_record_of_the_version_before_that_is_too_large_is_opened_and_pruned(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record"
    with closing(open_store(path, 0.0, LIMIT)) as store:
        for number in range(15):
            fill(store, number)
            store.commit(1, float(number))
    make_older(path)
    with closing(open_store(path, 0.0, LIMIT // 10)) as store:
        store.prune(0.0, FOREVER)
        assert store.select_decisions("ORDER BY id DESC LIMIT 1")
    assert bytes_of(path) <= LIMIT // 10


@pytest.mark.parametrize("version", BEFORE)
def test_a_record_of_an_earlier_version_goes_on(tmp_path: Path, version: int) -> None:
    """Its decisions stay. Its engines are forgotten, since their checkpoints have other names."""
    world = Recorded(tmp_path / "record")
    world.write()
    world.writer.add(decision(1, 10))
    world.writer.close()
    make_older(world.path, version)
    open_store(world.path, 0.0).close()
    with closing(read_store(world.path)) as store:
        assert [entry.number for entry in read_log(store, LogQuery()).entries] == [1]
    with closing(sqlite3.connect(world.path)) as own:
        left = "SELECT 1 FROM stretches UNION SELECT 1 FROM checkpoints UNION SELECT 1 FROM calls"
        bytes_left = own.execute("SELECT bytes FROM sizes WHERE of = 'checkpoints'").fetchone()[0]
        assert (own.execute(left).fetchall(), bytes_left) == ([], 0)
        for table in (*(level.table for level in LEVELS), HOURS_TABLE, DAYS_TABLE):
            assert own.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608 - a table of ours
            of = "SELECT bytes FROM sizes WHERE of = ?"
            assert own.execute(of, [table]).fetchone() == (0,)
    assert not list(tmp_path.glob("*unreadable*"))
