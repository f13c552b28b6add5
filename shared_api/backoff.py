"""Pauses between retries: attempt number -> seconds.

Pure: the caller has the clock, and randomness is an argument.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

MAX_DOUBLINGS: Final = 64
"""The largest exponent: every cap is reached by then, and floats end at 2**1023."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses that grow by a factor up to a cap, with random jitter."""

    base_seconds: float
    cap_seconds: float
    factor: float = 2.0
    jitter: float = 0.0
    """Largest share by which a pause is longer or shorter: 0.1 means ±10 %. It is applied after the
    cap, so that callers that have reached the cap do not retry together."""

    def seconds(self, attempt: int, rng: random.Random | None = None) -> float:
        """Return the pause after a failed attempt; attempts count from 0.

        Args:
            attempt: Number of failed attempts before this one.
            rng: Source of the jitter; None for none.
        """
        assert attempt >= 0, "attempts count from 0"
        grown = self.base_seconds * self.factor ** min(attempt, MAX_DOUBLINGS)
        pause = min(grown, self.cap_seconds)
        if rng is None or not self.jitter:
            return pause
        return pause * (1.0 + self.jitter * (2.0 * rng.random() - 1.0))
