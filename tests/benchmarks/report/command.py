"""Writes BENCHMARKS.md and its picture from `tests/benchmarks/results` and the texts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.report.document import outputs
from tests.benchmarks.report.scores import add_scores


def main(arguments: Sequence[str]) -> int:
    """Write the report; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks report", description=__doc__)
    parser.add_argument(
        "--add-scores",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="first take in what `koord-queue replay --score-forecasts --json FILE` has written",
    )
    got = parser.parse_args(arguments)
    for path in got.add_scores:
        print(f"{path}: taken into {add_scores(path)}")
    for path, text in outputs().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    return 0
