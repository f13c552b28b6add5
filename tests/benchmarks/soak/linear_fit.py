"""A least-squares fit of a few series. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.benchmarks.soak.growth import Point

SINGULAR: Final = 1e-9


def without_fit(points: Sequence[Point], loads: Sequence[tuple[float, float]]) -> list[Point]:
    """Return points without what follows from two loads; time keeps its share.

    The fit is by both loads, a constant, and the time, so that what grows with time is not taken
    for a consequence of a load that happens to grow as well. Only the loads' part is subtracted.
    """
    if not points:
        return []
    hours = [hour for hour, _ in points]
    columns = [[one for one, _ in loads], [other for _, other in loads], hours]
    centered = [_centered(column) for column in columns]
    values = _centered([value for _, value in points])
    weights = _solve(
        [[_product(row, column) for column in centered] for row in centered],
        [_product(row, values) for row in centered],
    )
    return [
        (hour, value - sum(w * c[at] for w, c in zip(weights[:2], centered[:2], strict=True)))
        for at, (hour, value) in enumerate(points)
    ]


def _centered(column: Sequence[float]) -> list[float]:
    mean = sum(column) / len(column)
    return [value - mean for value in column]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve normal equations by elimination; a column that says nothing has the weight 0."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(size):
        scale = abs(matrix[at][at])
        if abs(rows[at][at]) <= SINGULAR * max(scale, 1.0):
            rows[at] = [float(column == at) for column in range(size)] + [0.0]
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for other in range(size):
            if other != at:
                share = rows[other][at]
                rows[other] = [a - share * b for a, b in zip(rows[other], rows[at], strict=True)]
    return [row[size] for row in rows]
