"""The result of a benchmark: a figure with a control from the same run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

INDENT: Final = " " * 8


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured value.

    `control` is the value to compare with, measured in the same run on the same machine; None
    without one. `ratio` is value / control. `note` describes what was measured. `samples` has the
    values of all turns, if there were several.
    """

    name: str
    value: float
    unit: str
    control: float | None = None
    note: str = ""
    samples: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return value / control, None without a control."""
        return self.value / self.control if self.control else None

    def renamed(self, name: str) -> Figure:
        """Return the figure with another name."""
        return replace(self, name=name)

    def with_note(self, note: str) -> Figure:
        """Return the figure with this note."""
        return replace(self, note=note)


def medians(turns: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Return the figures of several turns as one: medians, with all values as samples.

    The control's median is taken of all turns as well. A figure that a turn lacks has fewer.
    """
    if len(turns) == 1:
        return list(turns[0])
    by_name: dict[str, list[Figure]] = {}
    for turn in turns:
        for figure in turn:
            by_name.setdefault(figure.name, []).append(figure)
    found = []
    for figures in by_name.values():
        values = tuple(each.value for each in figures)
        controls = [each.control for each in figures if each.control is not None]
        control = median(controls) if controls else None
        found.append(replace(figures[-1], value=median(values), control=control, samples=values))
    return found


def figure_of_turns(
    name: str, unit: str, ours: Sequence[float], others: Sequence[float] = ()
) -> Figure:
    """Return the median of all turns; control: that of another version, which took turns with ours.

    The note has the ratios of turns that followed each other, which a slow minute changes least.
    """
    note = f"median of {len(ours)} turns"
    ratios = [mine / other for mine, other in zip(ours, others, strict=False) if other]
    if ratios:
        note += f"; ratios of pairs: median {median(ratios):.3f}"
        note += f", {min(ratios):.3f} to {max(ratios):.3f}"
    return Figure(
        name=name,
        value=median(ours),
        unit=unit,
        control=median(others) if others else None,
        note=note,
        samples=tuple(ours),
    )


def percentile(values: list[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed."""
    return sorted(values)[int(share * (len(values) - 1))]


def print_figures(figures: list[Figure]) -> None:
    """Print a table."""
    for figure in figures:
        beside = ""
        if figure.ratio is not None:
            beside = f"  control {figure.control:>10.3f}  ratio {figure.ratio:.3f}"
        if figure.samples:
            beside += f"  {min(figure.samples):.3f} to {max(figure.samples):.3f}"
        print(f"{figure.name:<38}{figure.value:>14.3f} {figure.unit:<10}{beside}")
        if figure.note:
            print(textwrap.fill(figure.note, 100, initial_indent=INDENT, subsequent_indent=INDENT))


def write_json(figures: list[Figure], path: Path) -> None:
    """Write `{"name": {"value", "unit", "control", "ratio"}}`."""
    document = {
        figure.name: {
            "value": figure.value,
            "unit": figure.unit,
            "control": figure.control,
            "ratio": figure.ratio,
            "note": figure.note,
            "samples": figure.samples,
        }
        for figure in figures
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
