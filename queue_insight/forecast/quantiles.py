"""Quantiles of times, some of which lie beyond the horizon. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import msgspec

LOW: Final = 0.1
MIDDLE: Final = 0.5
HIGH: Final = 0.9

HOUR: Final = 3600.0
HORIZONS: Final = (HOUR, 6 * HOUR, 24 * HOUR)
"""Bounds of the horizons that forecasts are judged in, by the p50 that was told."""
HORIZON_NAMES: Final = ("<1h", "1-6h", "6-24h", ">24h")


class Wait(msgspec.Struct, frozen=True, gc=False):
    """How much longer a unit waits, in seconds; `inf`: beyond the horizon."""

    p10: float
    p50: float
    p90: float


def quantile(values: Sequence[float], level: float) -> float:
    """Return the quantile of values in order, between two of them in proportion.

    Args:
        values: At least one, in order; some may be `inf`.
        level: From 0 to 1.
    """
    # As many values are below the k-th of n as are expected below it in a draw: k / (n + 1).
    place = level * (len(values) + 1) - 1
    low = min(max(int(place), 0), len(values) - 1)
    high = min(low + 1, len(values) - 1)
    part = min(max(place - low, 0.0), 1.0)
    if part == 0.0 or values[low] == values[high]:
        return values[low]
    return inf if values[high] == inf else values[low] + (values[high] - values[low]) * part


def summarize(values: Sequence[float]) -> Wait:
    """Return p10, p50 and p90 of values in any order."""
    ordered = sorted(values)
    return Wait(*(quantile(ordered, level) for level in (LOW, MIDDLE, HIGH)))


def horizon_of(seconds: float) -> int:
    """Return the horizon that a p50 lies in, as an index of `HORIZON_NAMES`."""
    return sum(seconds >= bound for bound in HORIZONS)
