"""Corrects forecasts by those that have come true: conformal calibration. Pure.

For each horizon and each quantile it is kept by how much waits were longer than what the paths
said, as a ratio. If nine of ten waits were at most 1.4 times the p90 of the paths, the p90 that is
told is up to 1.4 times theirs. A unit that still waits is not left out, which would favor short
waits: it has waited longer than it has (it is censored, as in ``survival``).

Forecasts of one moment err in one direction, since their units wait for the same runs: twenty of
them are one observation rather than twenty. So moments are counted, and each weighs the same.
Moments that are close to each other, compared with the horizon, are one. The correction is a part
of what it would be, the smaller the fewer moments are known, as if a number of others had shown
that the paths are right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import exp, inf, log
from typing import Final

import msgspec

from queue_insight.forecast.quantiles import (
    HIGH,
    HORIZON_NAMES,
    HOUR,
    LOW,
    MIDDLE,
    Wait,
    horizon_of,
)

KEPT: Final = 100
"""Moments that are looked at in a horizon."""
SPACING: Final = (0.5 * HOUR, 3 * HOUR, 12 * HOUR, 24 * HOUR)
"""Seconds from one moment of a horizon to the next: half of the longest wait in it, and a day."""
AT_ONCE: Final = 20
"""Forecasts of a moment that are followed up in a horizon: more say little more."""
BELIEVED: Final = 20.0
"""How many moments would have to show that the paths are wrong before half of that is believed. Of
0, 2, 5, 10, 20 and 40, the best mean pinball loss of the logarithm of waits on days 21 to 37
of the public Philly trace, with declared times and without (with 40 it is the same; with 0 it is
higher by a fifth, and higher than without any correction)."""
FEW: Final = 20
"""Forecasts that must have come true before a share of them is told."""
GRAIN_SECONDS: Final = 60.0
"""Added to both sides of a ratio, in seconds: errors of less than a minute do not matter."""
CLOSE: Final = 1e-9
"""The tolerated error of sums of weights."""
LEVELS: Final = (LOW, MIDDLE, HIGH)


class _Forecast(msgspec.Struct, gc=False):
    """A forecast: what the paths said, what users were told, and how long the wait was.

    `published` is None if users were told nothing. A wait of None is open.
    """

    raw: Wait
    published: Wait | None
    wait: float | None = None


class _Moment(msgspec.Struct):
    """The forecasts of one horizon that were made at one time."""

    now: float
    forecasts: list[_Forecast]


class Calibration:
    """Keeps recent forecasts and what became of them."""

    def __init__(self) -> None:
        self._recent: tuple[deque[_Moment], ...] = tuple(deque(maxlen=KEPT) for _ in HORIZON_NAMES)
        self._open: dict[object, tuple[_Moment, _Forecast]] = {}

    def add(self, key: object, now: float, raw: Wait, published: Wait | None = None) -> bool:
        """Note a forecast, and return whether it is followed up.

        It is not if another moment was shortly before, or this one has enough in its horizon. If
        all were, those of each minute would push out the ones that have not come true yet.

        Args:
            key: Identifies the forecast for `come_true` and `forget`.
            now: When it was made, in seconds; the same for all of one moment, and never earlier
                than before.
            raw: What the paths said.
            published: What users were told, or None if nothing: then it counts for corrections
                alone.
        """
        horizon = horizon_of(raw.p50)
        kept = self._recent[horizon]
        if not kept or now >= kept[-1].now + SPACING[horizon]:
            kept.append(_Moment(now, []))
        elif now != kept[-1].now or len(kept[-1].forecasts) >= AT_ONCE:
            return False
        each = _Forecast(raw, published)
        kept[-1].forecasts.append(each)
        self._open[key] = kept[-1], each
        return True

    def come_true(self, key: object, wait: float) -> None:
        """Note how long the wait was, in seconds from the forecast; unknown keys are ignored."""
        entry = self._open.pop(key, None)
        if entry is not None:
            entry[1].wait = wait

    def forget(self, key: object) -> None:
        """Leave a forecast out whose unit will never start; unknown keys are ignored."""
        entry = self._open.pop(key, None)
        if entry is not None:
            moment, forecast = entry
            moment.forecasts[:] = [each for each in moment.forecasts if each is not forecast]

    def at(self, now: float) -> Adjustment:
        """Return what is told at a time, in the seconds that `add` counts."""
        return Adjustment(self._recent, now)

    def coverage(self, now: float) -> dict[str, float]:
        """Return which share of units started by the p90 that was told, by horizon of the p50.

        Counted are forecasts whose p90 has passed, whether their unit has started or not: to count
        those that have started would favor short waits. A horizon with few is left out.
        """
        outcomes: dict[int, list[bool]] = {}
        for horizon, is_in_time in self._outcomes(-inf, now):
            outcomes.setdefault(horizon, []).append(is_in_time)
        return {
            HORIZON_NAMES[horizon]: sum(hits) / len(hits)
            for horizon, hits in sorted(outcomes.items())
            if len(hits) >= FEW
        }

    def coverage_between(self, since: float, now: float) -> float | None:
        """Return that share among all forecasts whose p90 was in a time, or None if few."""
        hits = [is_in_time for _, is_in_time in self._outcomes(since, now)]
        return sum(hits) / len(hits) if len(hits) >= FEW else None

    def _outcomes(self, since: float, now: float) -> Iterator[tuple[int, bool]]:
        """Yield the horizon of each forecast whose p90 was in this time, and whether it held."""
        for moment in (moment for kept in self._recent for moment in kept):
            for each in moment.forecasts:
                published = each.published
                if published is not None and since < moment.now + published.p90 <= now:
                    is_in_time = each.wait is not None and each.wait <= published.p90
                    yield horizon_of(published.p50), is_in_time


def _level_of(wait: Wait, level: float) -> float:
    return wait.p10 if level == LOW else wait.p50 if level == MIDDLE else wait.p90


class Adjustment:
    """How forecasts are corrected at one moment; each horizon is looked at once."""

    def __init__(self, recent: Sequence[Iterable[_Moment]], now: float) -> None:
        self._recent = recent
        self._now = now
        self._shifts: dict[int, tuple[float, ...]] = {}

    def adjust(self, raw: Wait) -> Wait:
        """Return what is told for what the paths say."""
        horizon = horizon_of(raw.p50)
        shifts = self._shifts.get(horizon)
        if shifts is None:
            shifts = self._shifts[horizon] = self._find(horizon)
        if not shifts:
            return raw
        low, middle, high = (
            max(0.0, (_level_of(raw, level) + GRAIN_SECONDS) * exp(shift) - GRAIN_SECONDS)
            for level, shift in zip(LEVELS, shifts, strict=True)
        )
        return Wait(min(low, middle), middle, max(middle, high))

    def _find(self, horizon: int) -> tuple[float, ...]:
        """Return the logarithms of the factors; none if no forecast has come true."""
        moments = [moment for moment in self._recent[horizon] if moment.forecasts]
        known = sum(any(each.wait is not None for each in moment.forecasts) for moment in moments)
        if not known:
            return ()
        part = known / (known + BELIEVED)
        return tuple(part * self._quantile(moments, level) for level in LEVELS)

    def _quantile(self, moments: Iterable[_Moment], level: float) -> float:
        """Return the quantile of the ratios' logarithms, with the same weight for each moment."""
        ratios, weights = [], []
        for moment in moments:
            for each in moment.forecasts:
                forecast_seconds = _level_of(each.raw, level)
                if forecast_seconds < inf:
                    wait = self._now - moment.now if each.wait is None else each.wait
                    ratio = log((wait + GRAIN_SECONDS) / (forecast_seconds + GRAIN_SECONDS))
                    ratios.append((ratio, each.wait is not None))
                    weights.append(1.0 / len(moment.forecasts))
        return censored_quantile(ratios, level, weights)


def censored_quantile(
    values: Sequence[tuple[float, bool]], level: float, weights: Sequence[float] = ()
) -> float:
    """Return the conformal quantile of values, some of which are only known to be larger.

    Without censored ones it is the ceil((n + 1) * level)-th of n values in order: the next value is
    at most this with at least that chance, whatever the distribution, if the values could come in
    any order.

    Args:
        values: Each with whether it is known exactly; False: it is larger than that.
        level: From 0 to 1.
        weights: What each counts, beside the others; all the same without them.

    Returns:
        The quantile; the largest value where it would be larger; 0 without values.
    """
    count = len(values)
    if not count:
        return 0.0
    shares = weights or [1.0] * count
    ordered = sorted(
        zip(values, shares, strict=True), key=lambda item: (item[0][0], not item[0][1])
    )
    alive, lived = sum(shares), 1.0
    # One more value than there are, the one that is to come: (n + 1) * level of n are at most this.
    goal = (count + 1) * (1.0 - level) / count - 1.0 / count
    for (value, is_exact), share in ordered:
        if is_exact:
            lived *= max(0.0, alive - share) / alive
            if lived <= goal + CLOSE:
                return value
        alive -= share
    return ordered[-1][0][0]
