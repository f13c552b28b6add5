"""Asking an engine: one that many threads share (`shared_engine`), or that one has for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from queue_scheduler.engine.engine import Engine

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")


class EngineReader(Protocol):
    """Reads an engine, and changes nothing of it."""

    def ask(
        self, question: Callable[Concatenate[Engine, P], AnswerT], *args: P.args, **kwargs: P.kwargs
    ) -> AnswerT:
        """Return the answer to a short question."""

    def fork(self) -> Engine:
        """Return a copy of the engine, for a long question; it belongs to the caller."""


class OwnEngine:
    """An engine that belongs to one thread, such as a copy: it is read without a lock.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(
        self, question: Callable[Concatenate[Engine, P], AnswerT], *args: P.args, **kwargs: P.kwargs
    ) -> AnswerT:
        """Return the answer to a question."""
        return question(self._engine, *args, **kwargs)

    def fork(self) -> Engine:
        """Return a copy of the engine."""
        return self._engine.fork()
