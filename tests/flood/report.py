"""Prints rounds as a table, and writes them to a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.flood.bystanders import is_probe
from tests.flood.judgement import Quiet, Window
from tests.flood.rounds import Round

Json = dict[str, Any]

HEAD: Final = (
    f"{'port':22} {'user':10} {'answers':>8} {'refused':>8} {'failed':>7} {'open':>5} {'cores':>6}"
    f" {'users s':>8} {'probes s':>9} {'ratio':>6} {'rest s':>7}  memory (peak MiB)"
)


def line(one: Round) -> str:
    """Return a round as a line of the table."""
    seen = one.figures
    rest = "-" if seen.rest_seconds is None else f"{seen.rest_seconds:.0f}"
    memory = " ".join(f"{name} {each.peak:.0f}" for name, each in seen.memory.items())
    return (
        f"{one.port:22} {one.user:10} {one.answers.made:8} {one.answers.refused:8}"
        f" {one.answers.failed:7} {one.answers.open:5.0f} {one.answers.cores:6.2f}"
        f" {_slowest(seen.flooded, probes=False):8.2f} {_slowest(seen.flooded, probes=True):9.2f}"
        f" {seen.ratio:6.2f} {rest:>7}  {memory}"
    )


def quiet_line(quiet: Window) -> str:
    """Return what was seen without a flood."""
    return (
        f"  without a flood: {quiet.rate:.1f} jobs start in a second, users"
        f" {_slowest(quiet, probes=False):.2f} s, probes {_slowest(quiet, probes=True):.2f} s;"
        f" cores {_cores(quiet)}"
    )


def details(one: Round) -> list[str]:
    """Return what was asked, and what is wrong, in lines below that of the table."""
    asked = ", ".join(
        f"{each.question.name} {1e3 * each.seconds:.0f} ms ({each.status})" for each in one.dearest
    )
    statuses = ", ".join(f"{code}: {n}" for code, n in sorted(one.answers.statuses.items()))
    got = [f"    asked {asked}; answered {statuses}; cores {_cores(one.figures.flooded)}"]
    got += [f"    FAULT {each}" for each in one.faults]
    return got + [f"    log: {each[:300]}" for each in one.errors[:3]]


def as_document(found: Sequence[Round]) -> list[Json]:
    """Return rounds as a JSON document."""
    return [
        {
            "port": one.port,
            "user": one.user,
            "asked": {each.question.name: each.seconds for each in one.dearest},
            "statuses": one.answers.statuses,
            "open": one.answers.open,
            "cores": one.answers.cores,
            "ratio": one.figures.ratio,
            "restSeconds": one.figures.rest_seconds,
            "without": _seconds(one, one.figures.quiet),
            "during": _seconds(one, one.figures.flooded),
            "memory": {name: vars(each) for name, each in one.figures.memory.items()},
            "faults": one.faults,
        }
        for one in found
    ]


def write(path: Path, found: Sequence[Round]) -> None:
    """Write rounds to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_document(found), indent=1), encoding="utf-8")


def _seconds(one: Round, seen: Window | Quiet) -> Mapping[str, float]:
    return {name: seen.slowest(name) for name in one.figures.flooded.names()}


def _cores(seen: Window) -> str:
    return ", ".join(f"{name} {each:.2f}" for name, each in seen.cores.items())


def _slowest(seen: Window, *, probes: bool) -> float:
    found = [seen.slowest(name) for name in seen.names() if is_probe(name) is probes]
    return max(found, default=0.0)
