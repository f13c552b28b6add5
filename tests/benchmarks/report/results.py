"""What a run of a stage has measured, and where: one JSON file per stage."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Final

import msgspec

from tests.benchmarks.figures import Figure
from tests.controlplane.binaries import ETCD, KUBERNETES, pinned_version

FOLDER: Final = Path(__file__).parents[1] / "results"
ROOT: Final = Path(__file__).parents[3]
WRITTEN: Final = ("tests/benchmarks/results", "BENCHMARKS.md")
"""What measuring writes: it does not make what is measured another version."""
GIB: Final = 2**30
SIGNIFICANT: Final = 4


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run took place.

    Attributes:
        cpu: The processor's name.
        cores: How many there are.
        memory_gib: Of the machine.
        kernel: Name and version of the operating system's kernel.
        python: Version of Python.
        others: Versions of other programs.
    """

    cpu: str
    cores: int
    memory_gib: int
    kernel: str
    python: str
    others: dict[str, str] = {}


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure.

    Attributes:
        value: What was measured; of several turns the median.
        digits: Digits behind the point that are shown; None: four significant ones.
        unit: Its unit.
        control: What it is compared with.
        control_digits: Digits of it that are shown.
        stated_ratio: To the control, of values with more digits than are stored.
        samples: The values of all turns, if there were several.
        pods: Of a figure about a kind of job, its pods.
    """

    value: float
    digits: int | None = None
    unit: str
    control: float | None = None
    control_digits: int | None = None
    stated_ratio: float | None = None
    samples: tuple[float, ...] = ()
    pods: str = ""

    @property
    def ratio(self) -> float | None:
        """Value / control, None without a control."""
        if self.stated_ratio is not None:
            return self.stated_ratio
        return self.value / self.control if self.control else None


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run of a stage, or of a part of it.

    Attributes:
        measured: The day.
        commit: Of this project.
        state: What else the machine did.
        turns: How often each figure was measured.
        machine: Where; None: it was not recorded, and the report's head says what is known.
        is_stored: Whether this file is of the run itself; else the figures were taken over from
            the report as it was written by hand.
        figures: By name.
    """

    measured: date
    commit: str = ""
    state: str = ""
    turns: int = 1
    machine: Machine | None = None
    is_stored: bool = True
    figures: dict[str, Result]

    def reported(self) -> str:
        """Return when and where it took place, as a clause."""
        parts = [f"{self.measured}"]
        if self.commit:
            parts.append(f"commit {self.commit}")
        if self.machine is not None:
            parts.append(f"Python {self.machine.python}")
        if self.turns > 1:
            parts.append(f"medians of {self.turns} turns")
        if self.state:
            parts.append(self.state)
        if not self.is_stored:
            parts.append("run not stored")
        return ", ".join(parts)


def load_runs(folder: Path = FOLDER) -> dict[str, Run]:
    """Return all runs, by the names of their files."""
    return {
        path.stem: msgspec.json.decode(path.read_bytes(), type=Run)
        for path in sorted(folder.glob("*.json"))
        if not path.stem.startswith("scores-")
    }


def find_figure(runs: dict[str, Run], name: str) -> tuple[Run, Result]:
    """Return a figure, and its latest run.

    Raises:
        KeyError: Nobody has measured it.
    """
    found = [run for run in runs.values() if name in run.figures]
    if not found:
        raise KeyError(f"no result has {name}")
    latest = max(found, key=lambda run: (run.measured, run.is_stored))
    return latest, latest.figures[name]


def store(stage: str, figures: Iterable[Figure], turns: int, folder: Path = FOLDER) -> Path:
    """Write the run of a stage that has just ended, and return its file."""
    run = Run(
        measured=date.today(),  # noqa: DTZ011 - the day on the clock of who measured
        commit=_commit(),
        state=f"load {os.getloadavg()[2]:.1f}",
        turns=turns,
        machine=this_machine(),
        figures={
            each.name: Result(
                value=_rounded(each.value),
                unit=each.unit,
                control=None if each.control is None else _rounded(each.control),
                samples=tuple(_rounded(sample) for sample in each.samples),
                pods=pods_of(each.note),
            )
            for each in figures
        },
    )
    path = folder / f"{stage}.json"
    write_json(path, run)
    return path


def write_json(path: Path, value: object) -> None:
    """Write structs as JSON for people."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def pods_of(note: str) -> str:
    """Return what a figure's note says about its pods: "3 (until it runs)", "" if nothing."""
    found = re.match(r"(\d+) pods(, until they run)?$", note)
    return "" if found is None else found[1] + (" (until it runs)" if found[2] else "")


def this_machine() -> Machine:
    """Return what this machine is."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return Machine(
        cpu=cpu[1].strip() if cpu else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        others={"kube-apiserver": pinned_version(KUBERNETES), "etcd": pinned_version(ETCD)},
    )


def _commit() -> str:
    """Return the commit that is checked out, with `-dirty` if files differ from it."""
    commit = _git("rev-parse", "--short=8", "HEAD")
    changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in WRITTEN))
    return f"{commit}-dirty" if changed else commit


def _git(*words: str) -> str:
    done = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
