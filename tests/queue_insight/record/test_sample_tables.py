"""Samples in the record: from the first minute on, over restarts, gaps and wrong clocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from queue_insight.record.record_file import open_store, read_store
from queue_insight.record.record_store import RecordStore
from queue_insight.record.record_tables import StoreError
from queue_insight.record.sample_tables import MAX_POINTS, REACHES
from queue_insight.record.samples import (
    DAY,
    FIVE_MINUTES,
    HALF_HOURS,
    HOUR,
    WHOLE,
    Sample,
    SampleBatch,
    of_queue,
)
from tests.queue_insight.record.record_kit import Recorded

BEGIN: Final = 1_800_000_000
"""A multiple of a day's half hours."""
TEAM: Final = of_queue("team")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with closing(open_store(tmp_path / "record", 0.0)) as opened:
        yield opened


def add(store: RecordStore, minute: int, pending: float = 1.0, **more: Sample) -> None:
    """Keep the samples of a minute; `more`: those of queues."""
    samples = {WHOLE: Sample(pending), **{of_queue(name): each for name, each in more.items()}}
    store.samples.add(SampleBatch(BEGIN + 60 * minute, samples))


def read(store: RecordStore, reach: str, minute: float, of: str = WHOLE) -> list[tuple[float, ...]]:
    """Return minute, length and pending units of what is read at a minute."""
    found = store.samples.read(of, REACHES[reach], BEGIN + 60 * minute)
    return [((at - BEGIN) / 60, seconds, sample.pending) for at, seconds, sample in found]


@pytest.mark.parametrize("reach", REACHES)
def test_the_first_minute_is_there_at_once(store: RecordStore, reach: str) -> None:
    add(store, 7, 3)
    assert read(store, reach, 7.5) == [(7, 60, 3)]


def test_longer_times_are_averages_and_what_is_not_over_is_by_minutes(store: RecordStore) -> None:
    for minute in range(38):
        add(store, minute, minute)
    minutes, fives = [(35, 60, 35), (36, 60, 36), (37, 60, 37)], (FIVE_MINUTES.seconds,)
    assert read(store, "1h", 37) == [(each, 60, each) for each in range(38)]
    assert read(store, "1d", 37) == [*((5 * n, *fives, 5 * n + 2) for n in range(7)), *minutes]
    assert read(store, "7d", 37) == [(0, HALF_HOURS.seconds, 14.5), (30, *fives, 32), *minutes]


def test_a_week_is_few_points(store: RecordStore) -> None:
    for minute in range(0, 7 * 24 * 60 + 44, 5):
        add(store, minute)
    got = read(store, "7d", 7 * 24 * 60 + 40)
    assert 330 < len(got) <= MAX_POINTS
    assert got[-1][0] == 7 * 24 * 60 + 40


def test_what_has_no_sample_had_nothing_while_the_whole_has_one(store: RecordStore) -> None:
    add(store, 0, 5, team=Sample(4))
    add(store, 1, 5)
    add(store, 3, 5, team=Sample(8))
    assert read(store, "1h", 3, TEAM) == [(0, 60, 4), (1, 60, 0), (3, 60, 8)]
    add(store, 5)
    assert read(store, "1d", 5, TEAM) == [(0, 300, 4), (5, 60, 0)]


def test_a_restart_folds_what_was_begun_before(tmp_path: Path) -> None:
    path = tmp_path / "record"
    for minutes in (range(3), range(6, 7)):
        with closing(open_store(path, 0.0)) as store:
            for minute in minutes:
                add(store, minute, minute)
            store.statements.run("COMMIT")
    with closing(read_store(path)) as store:
        assert read(store, "1d", 6) == [(0, 300, 1), (6, 60, 6)]


def test_a_gap_has_no_points(store: RecordStore) -> None:
    add(store, 0)
    add(store, 200)
    assert read(store, "1d", 200) == [(0, 300, 1), (200, 60, 1)]
    assert read(store, "1h", 200) == [(200, 60, 1)]


def test_what_was_begun_before_a_long_gap_is_folded_before_it_is_deleted(tmp_path: Path) -> None:
    world = Recorded(tmp_path / "record")
    begin = int(world.wall) // 1_800 * 1_800
    for again in range(2):
        world.writer.add_samples(SampleBatch(begin + 60 * again, {WHOLE: Sample(3)}))
    world.writer.close()
    world.clock.advance(5 * HOUR)
    world.write()
    with closing(read_store(world.path)) as store:
        assert store.statements.number("SELECT count(*) FROM minutes") == 0
        got = store.samples.read(WHOLE, REACHES["7d"], world.wall)
    assert got == [(begin, HALF_HOURS.seconds, Sample(3.0))]


def test_a_minute_that_comes_again_is_replaced(store: RecordStore) -> None:
    """The clock was set back."""
    add(store, 0, 1, team=Sample(9))
    add(store, 0, 2)
    assert read(store, "1h", 0) == [(0, 60, 2)]
    assert read(store, "1h", 0, TEAM) == [(0, 60, 0)]


def test_a_clock_that_was_ahead_leaves_nothing(store: RecordStore) -> None:
    ahead = 7 * 24 * 60
    for minute in range(ahead, ahead + 12):
        add(store, minute, 99)
    for minute in range(12):
        add(store, minute, 1)
    assert read(store, "7d", 11) == [(0, 300, 1), (5, 300, 1), (10, 60, 1), (11, 60, 1)]
    for minute in range(ahead, ahead + 12):
        add(store, minute, 2)
    assert {pending for _, _, pending in read(store, "1d", ahead + 11)} == {2}


def test_a_clock_that_was_behind_deletes_nothing(store: RecordStore) -> None:
    for minute in range(20):
        add(store, minute)
    add(store, -BEGIN // 60)
    assert len(read(store, "1h", 20)) == 20
    assert len(read(store, "1d", 20)) == 8


def test_a_sample_that_is_broken_is_told(store: RecordStore) -> None:
    add(store, 0)
    store.statements.run("UPDATE minutes SET data = 'x'")
    with pytest.raises(StoreError, match="a sample that cannot be read"):
        read(store, "1h", 0)


def test_reaches_are_as_long_as_what_is_kept() -> None:
    assert {each.seconds for each in REACHES.values()} == {HOUR, DAY, 7 * DAY}
    for reach in REACHES.values():
        assert reach.seconds < reach.levels[0].kept_seconds
        assert reach.seconds // reach.levels[0].seconds < MAX_POINTS
