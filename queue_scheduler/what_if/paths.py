"""Possible futures, on which a question is played with its edits and without them. Pure.

A path answers the same for the same unit however often, and in whatever order, it is asked: so the
two sides of a comparison differ by the edits alone (common random numbers).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from math import inf
from typing import Final, Protocol

from queue_scheduler.insight.virtual_cluster import Arrival
from shared_api.objects.queue_unit import QueueUnit

PRIOR_MEAN_SECONDS: Final = 3600.0
"""Mean run time of jobs without a declared one where nothing is known of them. It is stated in the
answer, and no measurement."""

PATHS: Final = 20
"""Enough for a p10 and a p90 of differences that are not the least and the greatest."""

BASIS: Final = (
    "jobs run as long as they declare at most; others at random, one hour in the mean;"
    " no job arrives"
)


class Path(Protocol):
    """One possible future."""

    def run_seconds(self, unit: QueueUnit, ran: float) -> float:
        """Return for how much longer the pods of a unit run that have run for `ran` seconds."""
        ...

    def arrivals(self) -> Iterable[Arrival]:
        """Return the units that are created, in order of time."""
        ...


class PathSource(Protocol):
    """Where paths come from.

    Attributes:
        basis: The assumption behind them, as a sentence for users.
    """

    basis: str

    def paths(self) -> Iterable[Path]:
        """Return the paths."""
        ...


class PriorPaths:
    """Paths without any history: declared times, else exponential ones; nothing arrives.

    Args:
        seed: The same seed gives the same paths.
        count: How many.
    """

    basis = BASIS

    def __init__(self, seed: int, count: int = PATHS) -> None:
        self._seed, self._count = seed, count

    def paths(self) -> Iterator[Path]:
        """Return the paths."""
        return (_PriorPath(f"{self._seed}/{number}") for number in range(self._count))


class _PriorPath:
    def __init__(self, name: str) -> None:
        self._name = name

    def run_seconds(self, unit: QueueUnit, ran: float) -> float:
        if unit.spec.maximum_execution_time_seconds is not None:
            return inf  # the declared time ends it
        # Memoryless: what is left does not depend on how long it has run.
        return -PRIOR_MEAN_SECONDS * math.log(self._fraction(unit.metadata.uid))

    def _fraction(self, uid: str) -> float:
        """Return a random number above 0 and at most 1, always the same for a uid."""
        digest = blake2b(f"{self._name}/{uid}".encode(), digest_size=6).digest()
        return (1 + int.from_bytes(digest)) / 2**48

    def arrivals(self) -> Iterable[Arrival]:
        return ()
