"""Use in the record: hours, days, gaps, and two processes that write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from queue_insight.record import record_pruning
from queue_insight.record.record_file import open_store, read_store
from queue_insight.record.record_pruning import Retention
from queue_insight.record.record_store import RecordStore
from queue_insight.record.samples import DAY, HOUR
from queue_insight.record.use_sums import UseBlock, UseKey, UsePart, UseRow
from queue_insight.record.use_tables import UseReach

BEGIN = 1_800_000_000 // DAY * DAY
ANN = UseKey("a", "q", "ns", "", "ann", "Job")
FOREVER = Retention(decisions_seconds=1e12, calls_seconds=1e12)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with closing(open_store(tmp_path / "record", 0.0)) as opened:
        yield opened


def part(since: int, until: int, *, key: UseKey = ANN, used: int | None = None) -> UsePart:
    """Return a part with as many core seconds as it is long; times are since `BEGIN`."""
    amounts = {"cpu": until - since if used is None else used}
    return UsePart(BEGIN + since, BEGIN + until, UseBlock([UseRow(key, amounts)]))


def add_hours(store: RecordStore, first: int, last: int) -> None:
    for hour in range(first, last):
        assert store.use.add(part(hour * HOUR, (hour + 1) * HOUR))


def read(store: RecordStore, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return hour, length in hours and core seconds of what is read."""
    reach = store.use.reach(BEGIN + start, BEGIN + end, BEGIN + end)
    return [
        ((begin - BEGIN) // HOUR, seconds // HOUR, sum(row.used["cpu"] for row in block.rows))
        for begin, seconds, block in store.use.read(reach)
    ]


def test_parts_of_an_hour_are_added_up(store: RecordStore) -> None:
    for since in range(0, 300, 60):
        assert store.use.add(part(since, since + 60))
    assert read(store, 0, HOUR) == [(0, 1, 300)]


def test_a_day_that_is_over_is_one_row_and_its_edges_are_hours(store: RecordStore) -> None:
    add_hours(store, 0, 50)
    assert read(store, 0, 50 * HOUR) == [
        (0, 24, DAY),
        (24, 24, DAY),
        (48, 1, HOUR),
        (49, 1, HOUR),
    ]
    assert read(store, 22 * HOUR, 25 * HOUR) == [(22, 1, HOUR), (23, 1, HOUR), (24, 1, HOUR)]
    assert read(store, 22 * HOUR + 1, 23 * HOUR + 1) == [(22, 1, HOUR), (23, 1, HOUR)]


def test_what_is_counted_already_is_refused(store: RecordStore) -> None:
    assert store.use.add(part(0, 60))
    assert not store.use.add(part(30, 90)), "another process"
    assert not store.use.add(part(0, 60))
    assert store.use.add(part(60, 120))
    assert read(store, 0, HOUR) == [(0, 1, 120)]


def test_gaps_are_missing_and_the_last_one_ends_where_all_is_complete(store: RecordStore) -> None:
    store.use.add(part(600, 1200))
    store.use.add(part(1800, 3600))
    store.use.add(part(3600, 7200))
    reach = store.use.reach(BEGIN, BEGIN + 2 * HOUR, BEGIN + 2 * HOUR)
    assert (reach.complete_from, reach.missing_seconds) == (BEGIN + 1800, 1200)
    later = store.use.reach(BEGIN, BEGIN + 9 * HOUR, BEGIN + 9 * HOUR)
    assert later.missing_seconds == 1200 + 7 * HOUR, "nothing was written since"
    fresh = store.use.reach(BEGIN, BEGIN + 9 * HOUR, BEGIN + 7200 + 100)
    assert fresh.missing_seconds == 1200, "it is about to be"


def test_before_anything_is_written_nothing_is_there(store: RecordStore) -> None:
    reach = store.use.reach(BEGIN, BEGIN + HOUR, BEGIN + HOUR)
    assert reach == UseReach(BEGIN, BEGIN + HOUR, None, HOUR)
    assert list(store.use.read(reach)) == []
    assert store.use.namespaces(reach) == []


def test_the_namespaces_of_a_time_are_known(store: RecordStore) -> None:
    store.use.add(part(0, 60))
    store.use.add(part(HOUR, HOUR + 60, key=ANN._replace(namespace="other")))
    reach = store.use.reach(BEGIN, BEGIN + 2 * HOUR, BEGIN + 2 * HOUR)
    assert store.use.namespaces(reach) == ["ns", "other"]
    assert store.use.namespaces(reach._replace(end=BEGIN + HOUR)) == ["ns"]


def test_a_program_that_has_restarted_makes_the_day_that_the_one_before_it_began(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record"
    with closing(open_store(path, 0.0)) as store:
        add_hours(store, 0, 20)
        store.commit(1, 0.0)
    with closing(open_store(path, 0.0)) as store:
        assert store.use.add(part(30 * HOUR, 30 * HOUR + 60))
        store.commit(1, 0.0)
        assert read(store, 0, 31 * HOUR) == [(0, 24, 20 * HOUR), (30, 1, 60)]
    with closing(read_store(path)) as reader:
        assert read(reader, 0, DAY) == [(0, 24, 20 * HOUR)]


def test_times_that_have_not_come_are_forgotten(store: RecordStore) -> None:
    store.use.add(part(0, 60))
    far = 300 * DAY
    store.use.add(part(far, far + 60))
    assert store.use.add(part(120, 180)), "the clock was ahead, and is right again"
    assert read(store, 0, HOUR) == [(0, 1, 120)]
    assert read(store, far, far + HOUR) == []


def test_a_day_that_a_wrong_clock_has_ended_is_made_anew(store: RecordStore) -> None:
    store.use.add(part(0, HOUR))
    store.use.add(part(300 * DAY, 300 * DAY + 60))
    add_hours(store, 1, 25)
    assert read(store, 0, DAY) == [(0, 24, DAY)]


def test_hours_that_were_dropped_are_read_as_days(store: RecordStore) -> None:
    add_hours(store, 0, 60)
    store.statements.run("DELETE FROM use_hours WHERE id < ?", BEGIN // HOUR + 30)
    reach = store.use.reach(BEGIN + 2 * HOUR, BEGIN + 55 * HOUR, BEGIN + 60 * HOUR)
    assert (reach.start, reach.end) == (BEGIN, BEGIN + 55 * HOUR)
    assert read(store, 2 * HOUR, 3 * HOUR) == [(0, 24, DAY)]
    assert [hour for hour, _, _ in read(store, 2 * HOUR, 55 * HOUR)] == [0, 24, *range(48, 55)]


def test_the_oldest_go_first_and_days_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pruning, "ROWS_AT_ONCE", 10)
    with closing(open_store(tmp_path / "record", 0.0, 1_000_000)) as store:
        for hour in range(24 * 8):
            rows = [UseRow(ANN._replace(user=f"{hash((hour, n))}"), {"cpu": n}) for n in range(40)]
            since = BEGIN + hour * HOUR
            store.use.add(UsePart(since, since + HOUR, UseBlock(rows)))
        store.commit(1, 0.0)
        assert store.is_above_limits()
        store.prune(BEGIN + 8 * DAY, FOREVER)
        hours = [HOUR * hour for (hour,) in store.statements.run("SELECT id FROM use_hours")]
        assert 0 < len(hours) < 24 * 8
        assert max(hours) == BEGIN + (24 * 8 - 1) * HOUR
        assert not store.is_above_limits()


def test_what_is_too_old_is_dropped(store: RecordStore) -> None:
    add_hours(store, 0, 30)
    store.prune(BEGIN + 401 * DAY, FOREVER)
    assert store.statements.run("SELECT id FROM use_hours") == [
        (BEGIN // HOUR + hour,) for hour in range(24, 30)
    ]
    assert len(store.statements.run("SELECT id FROM use_days")) == 0
    store.prune(BEGIN + 500 * DAY, FOREVER)
    assert store.statements.run("SELECT * FROM use_spans") == []
