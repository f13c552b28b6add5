"""Takes a sample of the engine that follows, once a minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.record.engine_samples import Admitted, take_samples
from queue_insight.record.samples import MINUTES, SampleBatch, begin_of
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from shared_api.timestamps import read_time

MAX_ADMITTED: Final = 100_000
"""Admissions between two samples whose waits are counted: more than are decided in a minute."""
STALE_SECONDS: Final = 60.0
"""A state of before is not sampled: the scheduler is gone, and what is there is not known."""


class Sampler:
    """Takes samples on one thread, of which another thread says what was admitted.

    Args:
        engine: The engine that follows.
        now: The wall time.
    """

    def __init__(self, engine: FollowedEngine, now: Callable[[], datetime]) -> None:
        self._engine = engine
        self._now = now
        self._taken: int | None = None  # when the minute of the last sample began
        # One thread appends, another takes off: a deque needs no lock for that.
        self._admitted: deque[Admitted] = deque(maxlen=MAX_ADMITTED)

    def note(self, call: EngineCall, answer: object) -> None:
        """Note what the engine has answered to a call, for the waits."""
        if not isinstance(answer, Dequeue):
            return
        record = self._engine.ask(Engine.record, answer.unit)
        if record is not None:
            waited = seconds_waited(record, call.wall)
            namespace = record.unit.metadata.namespace
            self._admitted.append(Admitted(answer.queue, answer.quota, namespace, waited))

    def take(self) -> SampleBatch | None:
        """Return the samples of this minute; None: they are taken, or nothing is known of it."""
        now, followed = self._now(), self._engine.followed
        if followed is None or (now - followed.state_at).total_seconds() > STALE_SECONDS:
            return None
        wall = begin_of(now.timestamp(), MINUTES)
        if wall == self._taken:
            return None
        self._taken = wall
        admitted = [self._admitted.popleft() for _ in range(len(self._admitted))]
        return SampleBatch(wall, take_samples(self._engine.fork(), admitted))


def seconds_waited(record: CachedUnit, wall: float) -> float:
    """Return for how long a unit has waited, since it was created."""
    created = read_time(record.unit.metadata.creation_timestamp)
    return 0.0 if created is None else max(0.0, wall - created.timestamp())
