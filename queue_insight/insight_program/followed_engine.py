"""An engine that is told what the scheduler's engine was told, in the same order."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from queue_insight.insight_feed.messages import Checkpoint, Digest, State
from queue_insight.record.checkpoint import thaw
from queue_insight.record.digest import digest
from queue_insight.record.use_meter import UseMeter
from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner


class FollowError(ValueError):
    """What came does not continue what is there; a new checkpoint is needed."""


class OtherStateError(FollowError):
    """The engine is in another state than the one that it follows."""


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is.

    Attributes:
        number: Number of the last call played.
        state_at: The engine is as the scheduler's was then.
        is_leader: Whether the replica decides.
        since: Time of the checkpoint that it began with.
    """

    number: int
    state_at: datetime
    is_leader: bool
    since: datetime


class FollowedEngine(SharedEngine):
    """The engine, for the thread that follows and for those that ask.

    Attributes:
        followed: How far it is; None before the first checkpoint. Replaced as a whole.

    Args:
        meter: Sums up what accounts use, as the engine is played; called under its lock. None:
            nothing does.
    """

    def __init__(self, meter: UseMeter | None = None) -> None:
        super().__init__(Engine(PluginRunner([]), ()), lambda _: None)
        self._meter = meter
        self.followed: Followed | None = None
        self._number = 0

    def begin(self, checkpoint: Checkpoint) -> None:
        """Take a whole engine.

        Raises:
            CheckpointError: It cannot be read.
        """
        engine = thaw(checkpoint.engine)
        with self._lock:
            self._engine = engine
            if self._meter is not None:
                self._meter.begin(engine, int(checkpoint.wall.timestamp()))
        self._number = checkpoint.number
        was = self.followed
        self.followed = Followed(
            number=checkpoint.number,
            state_at=checkpoint.wall,
            is_leader=was is not None and was.is_leader,
            since=checkpoint.wall,
        )

    def play(self, call: EngineCall) -> object:
        """Play the next call; return what the engine answers.

        Raises:
            FollowError: It is not the next one.
        """
        if self.followed is None or call.number != self._number + 1:
            raise FollowError(f"call {call.number} came after {self._number}")
        with self._lock:
            if self._meter is not None:
                self._meter.on_call(call)
            answer = play(self._engine, call)
        self._number = call.number
        return answer

    def note_state(self, state: State) -> None:
        """Take the time up to which all calls have come.

        Raises:
            FollowError: Calls are missing.
        """
        was = self.followed
        if was is None or state.number != self._number:
            raise FollowError(f"the state after call {state.number} came after {self._number}")
        self.followed = Followed(
            number=state.number,
            state_at=state.wall.astimezone(UTC),
            is_leader=state.is_leader,
            since=was.since,
        )

    def compare(self, expected: Digest) -> None:
        """Compare the state with that of the engine that it follows.

        Raises:
            OtherStateError: They differ.
        """
        got = digest(self.fork())
        if (expected.number, expected.digest) != (self._number, got):
            want = f"{expected.digest} after {expected.number}"
            msg = f"digest {got} after call {self._number}, want {want}"
            raise OtherStateError(msg)
