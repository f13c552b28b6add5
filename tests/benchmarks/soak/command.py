"""The command line of soaks: prints tables; its exit status is 1 if anything grows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from queue_insight.replay.trace_files import read_trace
from tests.benchmarks.soak import cluster_soak, virtual_soak
from tests.benchmarks.soak.growth import HEADER, Soaked
from tests.controlplane.binaries import require_binaries

MOST_ROWS: Final = 16


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks soak", description=__doc__)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--trace", type=Path, metavar="FILE", help="in virtual time, with this trace")
    kind.add_argument("--hours", type=float, help="so long on a real control plane")
    parser.add_argument("--virtual-days", type=float, default=30.0, help="of the trace")
    got = parser.parse_args(arguments)
    if got.trace is None:
        return report(cluster_soak.soak(require_binaries(), got.hours))
    return report(virtual_soak.soak(read_trace(got.trace, "")[1], got.virtual_days))


def report(soaked: Soaked) -> int:
    """Print what was found; return the exit status."""
    print(*(f"{name}: {value:g}" for name, value in soaked.counts.items()), sep=", ")
    by_growth = sorted(soaked.verdicts, key=lambda each: -(each.growth or 0.0) / each.noise)
    print(HEADER, *by_growth[:MOST_ROWS], sep="\n")
    if len(by_growth) > MOST_ROWS:
        print(f"and {len(by_growth) - MOST_ROWS} others, which grow less")
    for each in soaked.complaints:
        print(f"WRONG: {each}")
    grown = [each.track.name for each in soaked.verdicts if each.grows]
    print("verdict:", "nothing grows" if not grown else f"these grow: {', '.join(grown)}")
    return int(bool(grown or soaked.complaints))
