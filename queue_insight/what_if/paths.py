"""Possible futures, on which a question is played with its edits and without them. Pure.

A path answers the same for the same unit on both sides of a comparison, in whatever order it is
asked: so the two sides differ by the edits alone (common random numbers).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from queue_insight.insight.virtual_cluster import Arrival, RunSeconds
from queue_scheduler.engine.engine import Engine


class Path(Protocol):
    """One possible future."""

    def runs_in(self, engine: Engine) -> RunSeconds:
        """Return how long runs last on this path; `engine`: the one that plays it, for reading."""

    def arrivals(self) -> Iterable[Arrival]:
        """Return the units that are created, in order of time."""


class PathSource(Protocol):
    """Where paths come from.

    Attributes:
        basis: What they are based on, as a sentence for users.
    """

    basis: str

    def paths(self) -> Iterable[Path]:
        """Return the paths."""
