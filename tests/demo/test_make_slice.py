"""The slice follows the rule, and the rule chooses as documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.demo.make_slice import (
    HOUR,
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    SLICE,
    WINDOW_SECONDS,
    TraceRow,
    choose_window,
    read_rows,
    write_slice,
)


def row(at: int, tenant: str = "a", *, seconds: int = 600, gpu: int = 1) -> TraceRow:
    return TraceRow(submit_time_s=at, duration_s=seconds, tenant=tenant, gpu=gpu)


def spread(tenant: str, count: int, start: int) -> list[TraceRow]:
    return [row(start + number, tenant) for number in range(count)]


def trace(*parts: list[TraceRow]) -> list[TraceRow]:
    # The last row only extends the range of windows.
    rows = [one for part in parts for one in part]
    last = max(one.submit_time_s for one in rows) + WINDOW_SECONDS + HOUR
    return [*sorted(rows, key=lambda one: one.submit_time_s), row(last)]


def test_the_checked_in_slice_follows_the_rule() -> None:
    rows = read_rows(SLICE)
    assert len(rows) == 311
    assert len({one.tenant for one in rows}) == 6
    times = [one.submit_time_s for one in rows]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < WINDOW_SECONDS
    assert all(SHORTEST_SECONDS <= one.duration_s <= LONGEST_SECONDS for one in rows)


def test_the_window_with_the_most_equal_tenants_is_chosen() -> None:
    lopsided = [*spread("a", 290, 0), *spread("b", 15, 300)]
    even = [*spread("a", 155, 20 * HOUR), *spread("b", 155, 20 * HOUR + 200)]
    chosen = choose_window(trace(lopsided, even))
    assert len(chosen) == 310
    assert {one.tenant for one in chosen} == {"a", "b"}
    # Of equal windows, the earliest: the one whose last hour has the jobs.
    assert chosen[0].submit_time_s == 15 * HOUR


def test_jobs_that_are_too_short_or_too_long_are_excluded() -> None:
    kept = spread("a", 300, 0)
    others = [row(5, seconds=SHORTEST_SECONDS - 1), row(6, seconds=LONGEST_SECONDS + 1)]
    assert len(choose_window(trace(kept, others))) == 300


def test_small_tenants_are_excluded() -> None:
    big = [one for number in range(6) for one in spread(f"t{number}", 50, number)]
    assert "small" not in {one.tenant for one in choose_window(trace(big, [row(9, "small")]))}


def test_no_window_of_the_right_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="300 to 320"):
        choose_window(trace(spread("a", 100, 0)))


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    rows = [row(1, "a"), row(2, "b", gpu=8)]
    write_slice(rows, tmp_path / "one.csv.gz")
    write_slice(rows, tmp_path / "two.csv.gz")
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert read_rows(tmp_path / "one.csv.gz") == rows
