"""How long to wait before trying again: attempt number -> seconds.

Pure: who waits has a clock, and chance is an argument.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

MAX_DOUBLINGS: Final = 64
"""An exponent above it is cut: every cap is reached by then, and floats end at 2**1023."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses that grow by a factor up to a cap, each moved a little by chance."""

    base_seconds: float
    cap_seconds: float
    factor: float = 2.0
    jitter: float = 0.0
    """Share by which a pause is longer or shorter at most: 0.1 means ±10 %. The cap holds
    before it, so that those who have reached the cap do not come back together."""

    def seconds(self, attempt: int, rng: random.Random | None = None) -> float:
        """Return the pause after a failed attempt; attempts count from 0.

        Args:
            attempt: How many failed before this one.
            rng: Gives the jitter; None for the pause without it.
        """
        assert attempt >= 0, "attempts count from 0"
        grown = self.base_seconds * self.factor ** min(attempt, MAX_DOUBLINGS)
        pause = min(grown, self.cap_seconds)
        if rng is None or not self.jitter:
            return pause
        return pause * (1.0 + self.jitter * (2.0 * rng.random() - 1.0))
