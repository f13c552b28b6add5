"""The state that a question looks ahead from."""

from __future__ import annotations

from typing import NamedTuple

from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.question_errors import Code, QuestionError


class State(NamedTuple):
    """A fork of an engine, and the time that it is of.

    Attributes:
        engine: The fork; it belongs to the caller.
        moment: The time of its state.
        number: The number of the last call that it took; the same number, the same state.
    """

    engine: Engine
    moment: Moment
    number: int = 0


class NoStateError(QuestionError):
    """There is no engine to ask, now or of that time; the message says why."""

    def __init__(self, detail: str) -> None:
        super().__init__(Code.UNAVAILABLE, detail)
