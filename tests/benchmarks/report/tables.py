"""Tables of figures in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from tests.benchmarks.report.aims import aim_of
from tests.benchmarks.report.results import SIGNIFICANT, Result, Run, find_figure

WIDTH: Final = 100
Row = tuple[str, Result]


def figure_table(runs: dict[str, Run], names: Sequence[str]) -> str:
    """Return a table of figures, and below it when they were measured.

    Raises:
        KeyError: Nobody has measured one.
    """
    found = [(name, *find_figure(runs, name)) for name in names]
    rows = [(name, result) for name, _, result in found]
    head, *rest = ["| " + " | ".join(cells) + " |" for cells in _cells(rows)]
    rule = rest.pop(0).replace(" ", "")
    return "\n".join([head, rule, *rest, "", measured({name: run for name, run, _ in found})])


def measured(runs: dict[str, Run]) -> str:
    """Return one sentence about when figures were measured; one for each run, if they differ."""
    by_text: dict[str, list[str]] = {}
    for name, run in runs.items():
        by_text.setdefault(run.reported(), []).append(f"`{name}`")
    if len(by_text) == 1:
        return f"Measured {next(iter(by_text))}."
    reported = sorted(by_text.items(), key=lambda each: -len(each[1]))
    most = f"Measured {reported[0][0]}"
    others = [f"{', '.join(names)} {text}" for text, names in reported[1:]]
    return textwrap.fill(f"{'; '.join([most, *others])}.", WIDTH, break_on_hyphens=False)


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return the header and the rows; columns that would be empty are left out."""
    heads: dict[str, tuple[str, list[str]]] = {
        "figure": ("---", [f"`{name}`" for name, _ in rows]),
        "pods": ("---:", [result.pods for _, result in rows]),
        "value": ("---:", [number(result.value, result.digits) for _, result in rows]),
        "range": ("---:", [_spread(result) for _, result in rows]),
        "unit": ("---", [result.unit for _, result in rows]),
        "control": ("---:", [number(each.control, each.control_digits) for _, each in rows]),
        "ratio": ("---:", ["" if r.ratio is None else f"{r.ratio:.3f}" for _, r in rows]),
        "aim": ("---", [_aim(name, result) for name, result in rows]),
    }
    kept = {head: column for head, column in heads.items() if any(column[1])}
    columns = [[head, rule, *cells] for head, (rule, cells) in kept.items()]
    return [list(line) for line in zip(*columns, strict=True)]


def number(value: float | None, digits: int | None) -> str:
    """Return a number with so many digits behind the point; None: four significant ones."""
    if value is None:
        return ""
    if digits is None:
        before = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
        digits = max(SIGNIFICANT - max(before, 1), 0)
    return f"{value:,.{digits}f}"


def _spread(result: Result) -> str:
    if not result.samples:
        return ""
    low, high = min(result.samples), max(result.samples)
    return f"{number(low, result.digits)} to {number(high, result.digits)}"


def _aim(name: str, result: Result) -> str:
    aim = aim_of(name)
    if aim is None:
        return ""
    return aim.text if aim.is_met(result) else f"**{aim.text}**"
