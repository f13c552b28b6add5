"""The command line of soaks: prints tables; its exit status is 1 if anything grows."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.soak import cluster_soak
from tests.benchmarks.soak.growth import HEADER, Verdict
from tests.controlplane.binaries import require_binaries


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks soak", description=__doc__)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--trace", type=Path, metavar="FILE", help="in virtual time, with this trace")
    kind.add_argument("--hours", type=float, help="so long on a real control plane")
    parser.add_argument("--virtual-days", type=float, default=30.0, help="of the trace")
    got = parser.parse_args(arguments)
    found = cluster_soak.soak(require_binaries(), got.hours)
    return report(found.verdicts, found.counts, found.complaints)


def report(
    verdicts: Iterable[Verdict], counts: Mapping[str, float], complaints: Sequence[str]
) -> int:
    """Print what was found; return the exit status."""
    verdicts = list(verdicts)
    print(*(f"{name}: {value:g}" for name, value in counts.items()), sep=", ")
    print(HEADER, *verdicts, sep="\n")
    print(*(f"WRONG: {each}" for each in complaints), sep="\n", end="\n" * bool(complaints))
    grown = [each.track.name for each in verdicts if each.grows]
    print("verdict:", "nothing grows" if not grown else f"these grow: {', '.join(grown)}")
    return int(bool(grown or complaints))
