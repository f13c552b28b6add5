"""Fills the texts with tables: BENCHMARKS.md and its picture.

Directives of the texts, each alone on a line:

- `{{ figures NAME... }}`: a table of these figures, and when they were measured.
- `{{ scores TRACE }}`: the table of a trace's forecasts.
- `{{ machines }}`: the machines of the stored runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.benchmarks.report.plot import bars_of, draw
from tests.benchmarks.report.results import FOLDER, ROOT, Machine, Run, load_runs
from tests.benchmarks.report.scores import load_worlds, score_table
from tests.benchmarks.report.tables import figure_table

TEXTS: Final = Path(__file__).with_name("BENCHMARKS.md.in")
DIRECTIVE: Final = re.compile(r"^\{\{ (\w+)([^}]*) \}\}$", re.MULTILINE)


def outputs(folder: Path = FOLDER) -> dict[Path, str]:
    """Return the files that the report consists of, and what should be in them.

    Raises:
        KeyError: A text names what was not measured.
    """
    runs = load_runs(folder)
    text = fill(TEXTS.read_text(encoding="utf-8"), runs, folder)
    return {ROOT / "BENCHMARKS.md": text, FOLDER / "aims.svg": draw(bars_of(runs))}


def fill(text: str, runs: dict[str, Run], folder: Path = FOLDER) -> str:
    """Return a text with its directives replaced."""

    def replace(found: re.Match[str]) -> str:
        words = found[2].split()
        match found[1]:
            case "figures":
                return figure_table(runs, words)
            case "scores":
                return score_table(load_worlds(folder / f"scores-{words[0]}.json"))
            case "machines":
                return _machines(runs)
            case other:
                raise KeyError(f"there is no directive {other}")

    return DIRECTIVE.sub(replace, text)


def _machines(runs: dict[str, Run]) -> str:
    stages: dict[str, list[str]] = {}
    for stage, run in runs.items():
        if run.machine is not None:
            stages.setdefault(_machine(run.machine), []).append(f"`{stage}`")
    if not stages:
        return "No run is stored with its machine yet."
    return "\n".join(f"- {', '.join(names)}: {machine}." for machine, names in stages.items())


def _machine(machine: Machine) -> str:
    others = "".join(f", {name} {version}" for name, version in sorted(machine.others.items()))
    return (
        f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib} GiB, {machine.kernel},"
        f" Python {machine.python}{others}"
    )
