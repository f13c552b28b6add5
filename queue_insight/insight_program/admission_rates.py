"""How many units of each queue are admitted in an hour."""

from __future__ import annotations

from typing import Final

from queue_insight.insight_feed.messages import Checkpoint, Hello
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Dequeue
from shared_api.process.clock import Clock

MINUTES: Final = 60
"""How far back admissions are counted."""
LEAST_SECONDS: Final = 60.0
"""A shorter time says nothing about an hour."""


class AdmissionRates:
    """A `Recorder` that counts admissions by queue and minute.

    The thread of the feed counts; any other may ask meanwhile.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._counts: dict[str, dict[int, int]] = {}

    def on_hello(self, hello: Hello) -> None:
        """Take who sends; nothing depends on it."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Begin to count; what was counted before a break stays."""
        if self._since is None:
            self._since = checkpoint.wall.timestamp()

    def on_call(self, call: EngineCall, _encoded: bytes, answer: object) -> None:
        """Count an admission."""
        if not isinstance(answer, Dequeue):
            return
        minute = int(call.wall // 60)
        counts = self._counts.setdefault(answer.queue, {})
        counts[minute] = counts.get(minute, 0) + 1
        if len(counts) > MINUTES:
            self._forget_before(minute - MINUTES + 1)

    def per_hour(self, queue: str) -> float | None:
        """Return the admissions of a queue per hour; None: not enough time was followed.

        It is that of the last hour, or of the time since the first scheduler was followed.
        """
        if self._since is None:
            return None
        now = self._clock.now().timestamp()
        first = int(now // 60) - MINUTES + 1
        seconds = now - max(self._since, first * 60.0)
        if seconds < LEAST_SECONDS:
            return None
        # A copy in one operation: the other thread may add a minute at any time.
        counts = tuple(self._counts.get(queue, {}).items())
        admitted = sum(count for minute, count in counts if minute >= first)
        return round(admitted * 3600.0 / seconds, 1)

    def _forget_before(self, first: int) -> None:
        """Forget older minutes, and queues that have admitted nothing since."""
        kept = (
            (queue, {minute: count for minute, count in tuple(counts.items()) if minute >= first})
            for queue, counts in self._counts.items()
        )
        self._counts = {queue: counts for queue, counts in kept if counts}
