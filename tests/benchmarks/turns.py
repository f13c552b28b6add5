"""Two versions that take turns on one machine, so that a slow minute meets both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.cluster.program_process import ROOT


def take_turns(before: Path | None, pairs: int) -> Iterator[tuple[int, Path]]:
    """Yield the number of each pair of turns, and the checkout that has its turn.

    Args:
        before: The other checkout; None: there is only this one.
        pairs: How often each has its turn; who is first changes.
    """
    roots = [ROOT] if before is None else [ROOT, before.resolve()]
    for number in range(pairs):
        for root in roots if number % 2 else reversed(roots):
            yield number, root
