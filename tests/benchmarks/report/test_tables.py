"""Tables, their spread and their aims, and medians of turns."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.benchmarks.figures import Figure, medians
from tests.benchmarks.report.document import fill
from tests.benchmarks.report.plot import bars_of, draw
from tests.benchmarks.report.results import Result, Run, find_figure, load_runs, store
from tests.benchmarks.report.tables import figure_table, number

DAY = date(2026, 11, 26)
GOOD = Result(value=3.0, unit="ms", control=1.5, digits=1, control_digits=1)
BAD = Result(value=61.0, unit="ms", samples=(60.0, 61.0, 64.5))


def run(day: date = DAY, **figures: Result) -> Run:
    return Run(measured=day, commit="abc", figures=figures)


def test_a_table_has_spread_ratio_and_aim() -> None:
    """What misses its aim is in bold; it is said when it was measured."""
    runs = {"engine": run(fork_ms=BAD, fork_lock_ms=GOOD)}
    got = figure_table(runs, ["fork_lock_ms", "fork_ms"]).splitlines()
    assert got == [
        "| figure | value | range | unit | control | ratio | aim |",
        "|---|---:|---:|---|---:|---:|---|",
        "| `fork_lock_ms` | 3.0 |  | ms | 1.5 | 2.000 | ≤ 10 |",
        "| `fork_ms` | 61.00 | 60.00 to 64.50 | ms |  |  | **≤ 50** |",
        "",
        "Measured 2026-11-26, commit abc.",
    ]


def test_figures_of_several_runs_are_told_apart() -> None:
    """The run of most of them first."""
    runs = {"a": run(x=GOOD, y=GOOD), "b": run(date(2026, 11, 20), z=GOOD)}
    got = figure_table(runs, ["z", "x", "y"]).splitlines()[-1]
    assert got == "Measured 2026-11-26, commit abc; `z` 2026-11-20, commit abc."


def test_a_text_names_only_what_was_measured() -> None:
    """Else the report cannot be made."""
    with pytest.raises(KeyError, match="no result has y"):
        fill("{{ figures x\ny }}", {"a": run(x=GOOD)})


def test_the_latest_run_counts() -> None:
    """A figure may be in the files of two stages."""
    runs = {"a": run(date(2026, 11, 27), x=BAD), "b": run(x=GOOD)}
    assert find_figure(runs, "x")[1] is BAD


def test_a_stored_run_is_read_as_it_was_measured(tmp_path: Path) -> None:
    """With its samples, its machine, and what a kind's note says of its pods."""
    figures = [Figure(name="x", value=1.23456789, unit="us", note="3 pods, until they run")]
    turns = [figures, [Figure(name="x", value=3.0, unit="us")], [*figures]]
    store("engine", medians(turns), 3, tmp_path)
    got = load_runs(tmp_path)["engine"]
    assert got.figures == {
        "x": Result(
            value=1.23457, unit="us", samples=(1.23457, 3.0, 1.23457), pods="3 (until it runs)"
        )
    }
    assert got.machine is not None
    assert got.is_stored


def test_the_median_of_turns_has_the_median_of_controls() -> None:
    """So that neither is of a turn that was disturbed."""
    turns = [
        [Figure(name="x", value=value, unit="s", control=control)]
        for value, control in ((1.0, 9.0), (2.0, 1.0), (9.0, 2.0))
    ]
    (got,) = medians(turns)
    assert (got.value, got.control, got.samples) == (2.0, 2.0, (1.0, 2.0, 9.0))


@pytest.mark.parametrize(
    ("value", "digits", "want"),
    [
        pytest.param(22134.0, 0, "22,134", id="digits as stored"),
        pytest.param(22134.4, None, "22,134", id="a large one"),
        pytest.param(3.14159, None, "3.142", id="a small one"),
        pytest.param(0.012345, None, "0.012", id="a very small one"),
    ],
)
def test_numbers(value: float, digits: int | None, want: str) -> None:
    """Four significant digits, unless it is said how many."""
    assert number(value, digits) == want


def test_the_picture_shows_shares_of_aims() -> None:
    """A missed one has another color; the same figures give the same bytes."""
    bars = bars_of({"a": run(fork_ms=BAD, fork_lock_ms=GOOD)})
    assert bars == [("fork_ms", 61 / 50), ("fork_lock_ms", 0.3)]
    assert draw(bars) == draw(bars)
    assert draw(bars).count("#b3452c") == 1
