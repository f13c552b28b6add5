"""What is looked ahead from: the engine that follows, and the runs that end in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from queue_insight.debug_api.engine_state import State
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_feed.messages import Checkpoint, Hello
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.record.finished_runs import FinishedRuns
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Moment
from shared_api.process.clock import Clock


def fork_state(engine: FollowedEngine, clock: Clock) -> State | None:
    """Return a fork of the engine, with the time of its state; None if it has nothing yet."""
    followed = engine.followed
    if followed is None:
        return None
    # Both programs run on one machine, and have its monotonic clock.
    age: timedelta = clock.now() - followed.state_at
    now = clock.monotonic() - max(0.0, age.total_seconds())
    return State(engine.fork(), Moment(now, followed.state_at), followed.number)


class RunWatcher:
    """A `Recorder` that passes on the runs that end.

    Args:
        engine: The engine that follows; it has played what it is told here.
        learners: Each is called with every run, in the order of their ends.
    """

    def __init__(
        self, engine: FollowedEngine, learners: tuple[Callable[[FinishedRun], None], ...]
    ) -> None:
        self._engine = engine
        self._learners = learners
        self._runs = FinishedRuns()

    def on_hello(self, hello: Hello) -> None:
        """Take who sends; nothing depends on it."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Begin again."""
        self._runs.begin(self._engine.fork())

    def on_call(self, call: EngineCall, _encoded: bytes, _answer: object) -> None:
        """Pass on the run that a call has ended."""
        run = self._engine.ask(lambda engine: self._runs.run_of(call, engine))
        if run is not None:
            for learn in self._learners:
                learn(run)
