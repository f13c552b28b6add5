"""What others add to the debug API: routes of their own, and answers about earlier times."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from fastapi import FastAPI, Request

from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError

OFF: Final = (
    "the insight program is off: start it and the scheduler with the same --insight-socket-dir "
    "(the chart's insight.enabled)"
)

ViewT = TypeVar("ViewT", bound=View)


class Additions(Protocol):
    """What is added to the debug API."""

    def add_routes(self, app: FastAPI, access: Guard) -> None:
        """Add routes to the application.

        Args:
            app: The application; it calls `access` first.
            access: The application's guard, which knows what its caller may read.
        """

    def answer_past(self, request: Request, kind: type[ViewT]) -> ViewT:
        """Return the answer to a request about an earlier time, the `at` of its query.

        It may take seconds. It names whatever it knows: the route takes out what the caller may not
        read.

        Args:
            request: The request that came, to a route of the debug API's own.
            kind: The form of the answer.

        Raises:
            QuestionError: UNAVAILABLE: no addition answers it; RESOURCE_EXHAUSTED: the caller has
                used its share; or as the same question about now.
        """


class NoAdditions:
    """Adds no route, and knows no earlier time."""

    def add_routes(self, app: FastAPI, access: Guard) -> None:
        """Add nothing."""

    def answer_past(self, request: Request, kind: type[ViewT]) -> ViewT:
        """Refuse it.

        Raises:
            QuestionError: UNAVAILABLE.
        """
        raise QuestionError(Code.UNAVAILABLE, OFF)
