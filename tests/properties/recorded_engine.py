"""Records the calls of an engine that a test calls directly, and plays them on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queue_insight.record.call_codec import decode_call, encode_call
from queue_insight.record.checkpoint import freeze, thaw
from queue_insight.record.digest import digest
from queue_scheduler.cycles.engine_call import CALLS, EngineCall, play
from queue_scheduler.decision import Dequeue, Growth, Preempt, Refused
from queue_scheduler.engine.engine import Engine

PLAYED = (Dequeue, Growth, Preempt, Refused)


class RecordedEngine:
    """What an engine was called with since a moment, from which it can be played again.

    Attributes:
        calls: the calls, each as bytes.
        decided: what it answered to those that asked for a decision.
    """

    def __init__(self, engine: Engine) -> None:
        self.calls: list[bytes] = []
        self.decided: list[object] = []
        self._engine = engine
        self._frozen = freeze(engine.fork())
        self._depth = 0
        for name in CALLS:
            setattr(engine, name, self._recording(name, getattr(engine, name)))

    def _recording(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                number = len(self.calls) + 1
                self.calls.append(encode_call(EngineCall(number, 0.0, name, args, kwargs)))
            self._depth += 1
            try:
                answer = method(*args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0 and isinstance(answer, PLAYED):
                self.decided.append(answer)
            return answer

        return call

    def stop(self) -> None:
        """Record no more."""
        for name in CALLS:
            delattr(self._engine, name)

    def check_replay(self) -> Engine:
        """Check that a thawed engine decides the same, and ends in the same state; return it."""
        twin = thaw(self._frozen, also=("tests",))
        answers = [play(twin, decode_call(data)) for data in self.calls]
        assert [each for each in answers if isinstance(each, PLAYED)] == self.decided
        assert digest(twin) == digest(self._engine)
        twin.validate()
        return twin
