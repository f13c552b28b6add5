"""A debug API that answers what a test says, and a command that asks it."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from koord_queue.reach.cluster import Cluster
from koord_queue.reach.errors import NotServed
from koord_queue.reach.questions import Question
from tests.koord_queue.session.played_session import PlayedSession

Query = tuple[tuple[str, str], ...]


class PlayedAnswers:
    """Answers routes of the debug API, and keeps what was asked."""

    def __init__(self, routes: dict[str, Any]) -> None:
        self._routes = routes
        self.asked: list[tuple[str, Query]] = []

    def answer(self, question: Question[Any]) -> Any:
        return question.debug_api(cast("Cluster", self))

    def get(self, path: str, query: Query = ()) -> bytes:
        self.asked.append((path, query))
        answer = self._routes.get(path, NotServed("nobody answers"))
        if callable(answer):
            answer = answer(dict(query))
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)


def session_with(routes: dict[str, Any], *, is_terminal: bool = False) -> PlayedSession:
    session = PlayedSession(is_terminal=is_terminal)
    session.source = PlayedAnswers(routes)
    return session


def run(command: Any, session: PlayedSession, **given: Any) -> list[str]:
    """Run a command with all of its options; return the lines of its output."""
    command.callback.__wrapped__(session, **{"form": "table", **given})
    return session.out_text.getvalue().splitlines()
