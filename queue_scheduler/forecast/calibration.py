"""Corrects forecasts by those that have come true: conformal calibration. Pure.

For each horizon and each quantile it is kept by how much waits were longer than what the paths
said, as a ratio. If nine of ten waits were at most 1.4 times the p90 of the paths, the p90 that is
told is 1.4 times theirs. A unit that still waits is not left out, which would favor short waits: it
has waited longer than it has (it is censored, as in ``survival``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import exp, inf, log
from typing import Final

import msgspec

from queue_scheduler.forecast.quantiles import (
    HIGH,
    HORIZON_NAMES,
    LOW,
    MIDDLE,
    Wait,
    horizon_of,
)

KEPT: Final = 200
"""Forecasts that are looked at in a horizon: a p90 is then known within about two percent."""
FEW: Final = 20
"""With fewer that have come true, the forecasts of all horizons are looked at; then none."""
GRAIN_SECONDS: Final = 60.0
"""Is added to both sides of a ratio: below a minute nobody minds."""
LEVELS: Final = (LOW, MIDDLE, HIGH)


class _Told(msgspec.Struct, gc=False):
    """A forecast: when it was made, what the paths said, and how long the wait was; None: open.

    `told`: what users were told.
    """

    now: float
    raw: Wait
    told: Wait
    wait: float | None = None


class Calibration:
    """Keeps recent forecasts and what became of them."""

    def __init__(self) -> None:
        self._recent: tuple[deque[_Told], ...] = tuple(deque(maxlen=KEPT) for _ in HORIZON_NAMES)
        self._open: dict[object, _Told] = {}

    def add(self, key: object, now: float, raw: Wait, told: Wait | None = None) -> None:
        """Note a forecast.

        Args:
            key: Of the forecast, for `come_true`.
            now: When it was made, in seconds.
            raw: What the paths said.
            told: What users were told; None: the same.
        """
        each = self._open[key] = _Told(now, raw, told or raw)
        self._recent[horizon_of(raw.p50)].append(each)

    def come_true(self, key: object, wait: float) -> None:
        """Note how long the wait was, in seconds from the forecast; unknown keys are ignored."""
        told = self._open.pop(key, None)
        if told is not None:
            told.wait = wait

    def forget(self, key: object) -> None:
        """Leave a forecast out whose unit will never start; unknown keys are ignored."""
        told = self._open.pop(key, None)
        if told is not None:
            self._recent[horizon_of(told.raw.p50)].remove(told)

    def at(self, now: float) -> Adjustment:
        """Return what is told at a time, in the seconds that `add` counts."""
        return Adjustment(self._recent, now)

    def coverage(self, now: float) -> dict[str, float]:
        """Return which share of units started by the p90 that was told, by horizon of the p50.

        Counted are forecasts whose p90 has passed, whether their unit has started or not: to count
        those that have started would favor short waits. A horizon with few is left out.
        """
        found: dict[int, list[bool]] = {}
        for each in (each for kept in self._recent for each in kept):
            if each.now + each.told.p90 <= now:
                is_in_time = each.wait is not None and each.wait <= each.told.p90
                found.setdefault(horizon_of(each.told.p50), []).append(is_in_time)
        return {
            HORIZON_NAMES[horizon]: sum(hits) / len(hits)
            for horizon, hits in sorted(found.items())
            if len(hits) >= FEW
        }


def _count(kept: Iterable[_Told]) -> int:
    return sum(told.wait is not None for told in kept)


def _level_of(wait: Wait, level: float) -> float:
    return wait.p10 if level == LOW else wait.p50 if level == MIDDLE else wait.p90


class Adjustment:
    """How forecasts are corrected at one moment; each horizon is looked at once."""

    def __init__(self, recent: Sequence[Iterable[_Told]], now: float) -> None:
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
        """Return the logarithms of the factors; none if too few forecasts have come true."""
        kept: Iterable[_Told] = self._recent[horizon]
        if _count(kept) < FEW:
            kept = [told for some in self._recent for told in some]
        if _count(kept) < FEW:
            return ()
        return tuple(censored_quantile(self._ratios(kept, level), level) for level in LEVELS)

    def _ratios(self, kept: Iterable[_Told], level: float) -> list[tuple[float, bool]]:
        found = []
        for told in kept:
            said = _level_of(told.raw, level)
            if said < inf:
                wait = self._now - told.now if told.wait is None else told.wait
                ratio = log((wait + GRAIN_SECONDS) / (said + GRAIN_SECONDS))
                found.append((ratio, told.wait is not None))
        return found


def censored_quantile(values: Sequence[tuple[float, bool]], level: float) -> float:
    """Return the conformal quantile of values, some of which are only known to be larger.

    Without censored ones it is the ceil((n + 1) * level)-th of n values in order: the next value is
    at most this with at least that chance, whatever the distribution, if the values could come in
    any order.

    Args:
        values: Each with whether it is known exactly; False: it is larger than that.
        level: From 0 to 1.

    Returns:
        The quantile; the largest value where it would be larger; 0 without values.
    """
    ordered = sorted(values, key=lambda item: (item[0], not item[1]))
    count = len(ordered)
    alive, lived = count, 1.0
    # One more value than there are: the one that is to come.
    goal = (count + 1) * (1.0 - level) / count if count else 0.0
    for value, is_exact in ordered:
        if is_exact:
            lived *= (alive - 1) / alive
            # (n + 1) * level of n are at most this.
            if lived <= goal - 1.0 / count + 1e-12:
                return value
        alive -= 1
    return ordered[-1][0] if ordered else 0.0
