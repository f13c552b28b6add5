"""How much computing the questions to a program may take, so that they cannot slow down the rest.

A question that tries changes takes a tenth of a second or more of the one core that Python uses.
A reader of the debug API may ask it again and again. So all such questions together have a
budget: a share of the time, saved up to some seconds, of which each caller has a part that others
cannot spend. When it is spent, a question is refused, with the time after which to ask again. A
budget for each kind of question would leave decisions what is left of the sum, and a budget for
each answer, nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shared_api.caller_shares import ShareLimits
from shared_api.process.caller_turns import CallerTurns
from shared_api.process.clock import Clock

SHARE: Final = 0.25
"""Seconds per second. Beside it, decisions keep three quarters of the core."""
OWN_PART: Final = 0.25
"""What a caller has for itself, of `SHARE`: a few people ask at the same time."""
MAX_SAVED: Final = 5.0
"""Seconds: some dozen questions at once, after a while without any."""
TURN_SECONDS: Final = 2.0
"""How long a question waits for the one before it."""
PLACES: Final = 2
"""Questions that are answered at once: one of each caller, so that no caller waits for
another's."""
WAITING: Final = 8
"""Questions that wait: each keeps a thread of the server."""


class QuestionBudget:
    """The budget of the questions that one core answers. Thread-safe.

    Args:
        clock: The time.
        share: Seconds of computing that are saved up per second.
        patience_seconds: How long a question waits for those before it.
    """

    def __init__(
        self, clock: Clock, share: float = SHARE, patience_seconds: float = TURN_SECONDS
    ) -> None:
        limits = ShareLimits(
            places=PLACES,
            waiting=WAITING,
            patience_seconds=patience_seconds,
            rate=share,
            own_rate=share * OWN_PART,
            saved_seconds=MAX_SAVED,
        )
        self._turns = CallerTurns(limits, clock)

    @contextmanager
    def spend(self, caller: str = "") -> Iterator[None]:
        """Charge the time of the block.

        Args:
            caller: Who asks (`shared_api.caller_shares`); "": nothing tells callers apart.

        Raises:
            QuestionError: RESOURCE_EXHAUSTED: the budget is spent, or others take too long.
        """
        with self._turns.take(caller):
            yield
