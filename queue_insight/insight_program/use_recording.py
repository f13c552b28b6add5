"""Tells the meter of accounts what the engine decides, and takes its sums once a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_feed.messages import Checkpoint, Hello
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.sampler import seconds_waited
from queue_insight.record.quota_balance import keys_of_waiting, read_balances
from queue_insight.record.samples import SampleBatch, bin_of
from queue_insight.record.use_meter import UseMeter
from queue_insight.record.use_sums import UsePart
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from shared_api.objects.meta import Uid

LATE_SECONDS: Final = 2
"""A decision has the time at which it was asked for, and may come that much later."""
MOST_SECONDS: Final = 120
"""What quotas borrow and lend counts for so long at most: what there was in a longer time between
two samples is not known."""
MANY_ROWS: Final = 1000
FEWER_SECONDS: Final = 300
"""From so many rows on, the sums are taken once in so many seconds: to add 10,000 to their hour
takes a tenth of a second."""

AnswerT = TypeVar("AnswerT")


class UseRecorder:
    """A `Recorder` that keeps what accounts use. Without accounts it does nothing.

    Args:
        engine: The engine that follows, with the meter.
        meter: The meter; used under the lock of the engine alone.
    """

    def __init__(self, engine: FollowedEngine, meter: UseMeter) -> None:
        self._engine = engine
        self._meter = meter
        self._sampled = self._taken = self._rows = 0

    # --- the feed's thread --------------------------------------------------------------------

    def on_hello(self, hello: Hello) -> None:
        """Take who sends; nothing depends on it."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Take a whole engine; the meter has begun with it."""

    def on_call(self, call: EngineCall, _encoded: bytes, answer: object) -> None:
        """Note the wait of a unit that was admitted."""
        if self._meter.is_on and isinstance(answer, Dequeue):
            self._engine.ask(self._note_admitted, answer, call.wall)

    def _note_admitted(self, engine: Engine, answer: Dequeue, wall: float) -> None:
        record = engine.record(answer.unit)
        if record is not None:
            self._meter.on_admitted(answer.uid, bin_of(seconds_waited(record, wall)))

    def add_run(self, run: FinishedRun) -> None:
        """Note whether a run that has ended was evicted."""
        if self._meter.is_on:
            is_evicted = run.ended_by == "evicted"
            self._ask(lambda: self._meter.on_end(Uid(run.uid), is_evicted=is_evicted))

    # --- the thread that writes ---------------------------------------------------------------

    def take(self, batch: SampleBatch) -> list[UsePart]:
        """Return what was used since it was taken last, by parts; called each minute.

        Args:
            batch: The samples of the minute.
        """
        seconds = min(MOST_SECONDS, max(0, batch.wall - self._sampled)) if self._sampled else 60
        self._sampled = batch.wall
        if not self._meter.is_on:
            return self._ask(self._meter.take)  # what there was until accounts were turned off
        copy = self._engine.fork()
        quotas = read_balances(copy, batch.samples, seconds)
        waiting = keys_of_waiting(copy)

        def take() -> list[UsePart]:
            self._meter.note_quotas(quotas)
            self._meter.note_waiting(waiting)
            if self._rows >= MANY_ROWS and 0 <= batch.wall - self._taken < FEWER_SECONDS:
                return []
            self._taken = batch.wall
            return self._take_until(LATE_SECONDS)

        parts = self._ask(take)
        if parts:
            self._rows = len(parts[-1].block.rows)
        return parts

    def take_last(self) -> list[UsePart]:
        """Return the rest; call it after the threads have ended."""
        return self._take_until(0)

    def _take_until(self, late_seconds: int) -> list[UsePart]:
        followed = self._engine.followed
        if followed is not None:
            self._meter.advance(int(followed.state_at.timestamp()) - late_seconds)
        return self._meter.take()

    def _ask(self, question: Callable[[], AnswerT]) -> AnswerT:
        return self._engine.ask(lambda _: question())
