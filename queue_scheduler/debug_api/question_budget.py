"""How much computing questions of one kind may take, so that they cannot slow down the rest.

A question that tries changes takes a tenth of a second or more of the one core that Python uses.
Whoever may read the debug API may ask it again and again. So each kind of question has a budget: a
share of the time, saved up to some seconds. When it is spent, the answer is 429 with Retry-After.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import HTTPException

from shared_api.process.clock import Clock

SHARE: Final = 0.25
"""Seconds per second. Beside it, decisions keep three quarters of the core."""
MAX_SAVED: Final = 5.0
"""Seconds: some dozen questions at once, after a while without any."""
TURN_SECONDS: Final = 2.0
"""How long a question waits for the one before it."""


class QuestionBudget:
    """The budget of one kind of question. Thread-safe; one question is answered at a time.

    Args:
        clock: The time.
        share: Seconds of computing that are saved up per second.
    """

    def __init__(self, clock: Clock, share: float = SHARE) -> None:
        self._clock = clock
        self._share = share
        self._turn = threading.Lock()  # guards the fields, and is held while a question is answered
        self._saved = MAX_SAVED
        self._as_of = clock.monotonic()

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Charge the time of the block.

        Raises:
            HTTPException: 429: the budget is spent, or other questions take too long.
        """
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise _come_back(TURN_SECONDS)
        try:
            began = self._clock.monotonic()
            self._saved = min(MAX_SAVED, self._saved + self._share * (began - self._as_of))
            self._as_of = began
            if self._saved <= 0:
                raise _come_back(-self._saved / self._share)
            try:
                yield
            finally:
                self._saved -= self._clock.monotonic() - began
        finally:
            self._turn.release()


def _come_back(seconds: float) -> HTTPException:
    after = max(1, math.ceil(seconds))
    detail = f"too many such questions at once; ask again in {after} s"
    return HTTPException(429, detail, headers={"Retry-After": str(after)})
