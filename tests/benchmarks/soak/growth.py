"""Whether something that was sampled again and again grows. Pure.

What is judged is the second half of the samples, since caches fill in the first. The slope is the
median of the slopes of all pairs (Theil and Sen), so that a few outliers do not decide it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Final

FEWEST: Final = 8
"""Samples of the second half below which nothing is judged."""
MOST: Final = 300
"""Samples that are judged; of more, evenly spread ones, since all pairs are looked at."""
SPREADS: Final = 3.0
"""A growth within this many standard deviations of a sample is noise."""
DEVIATION: Final = 1.4826
"""The standard deviation of a normal distribution, in median absolute deviations."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Track:
    """What was sampled of one thing.

    Attributes:
        name: What it is.
        unit: Unit of the values.
        floor: A growth over the second half that means nothing, in that unit.
        points: Hours since the start, and the value then; in order.
    """

    name: str
    unit: str = ""
    floor: float = 0.0
    points: list[Point] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one thing over the second half.

    Attributes:
        track: What was judged.
        middle: Median of the second half.
        growth: Its slope times its duration; None: too few samples.
        noise: A growth of this much may be chance.
    """

    track: Track
    middle: float
    growth: float | None
    noise: float

    @property
    def hours(self) -> float:
        """How long it was sampled; half of that is judged."""
        points = self.track.points
        return points[-1][0] - points[0][0] if points else 0.0

    @property
    def grows(self) -> bool:
        """Whether the growth is more than chance."""
        return self.growth is not None and self.growth > self.noise

    def __str__(self) -> str:
        """Return a row of a table."""
        growth = "too few samples" if self.growth is None else f"{self.growth:+.2f}"
        said = "GROWS" if self.grows else ""
        values = f"{self.middle:>12.2f} {growth:>16} {self.noise:>10.2f}"
        of = f"{self.track.unit:<8}{self.hours:>7.1f} h"
        return f"{self.track.name:<44}{values} {of}  {said}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """What a soak has shown.

    Attributes:
        verdicts: One for each thing that was sampled.
        counts: What happened, in words and numbers.
        complaints: What must not be, in words.
    """

    verdicts: list[Verdict]
    counts: dict[str, float]
    complaints: list[str]


HEADER: Final = f"{'of the second half':<44}{'median':>12} {'growth':>16} {'noise':>10}"


def judge(track: Track) -> Verdict:
    """Return what became of one thing."""
    points = _second_half(track.points)
    values = [value for _, value in points]
    if len(points) < FEWEST:
        middle = median(values) if values else 0.0
        return Verdict(track=track, middle=middle, growth=None, noise=track.floor)
    slope = median(_slopes(points))
    middle = median(values)
    offset = median(value - slope * hour for hour, value in points)
    spread = median(abs(value - slope * hour - offset) for hour, value in points)
    return Verdict(
        track=track,
        middle=middle,
        growth=slope * (points[-1][0] - points[0][0]),
        noise=max(SPREADS * DEVIATION * spread, track.floor),
    )


def _second_half(points: Sequence[Point]) -> list[Point]:
    if not points:
        return []
    half = (points[0][0] + points[-1][0]) / 2
    late = [each for each in points if each[0] >= half]
    step = max(len(late) / MOST, 1.0)
    return [late[int(number * step)] for number in range(int(len(late) / step))]


def _slopes(points: Sequence[Point]) -> Iterator[float]:
    for (early, before), (late, after) in combinations(points, 2):
        if late > early:
            yield (after - before) / (late - early)
