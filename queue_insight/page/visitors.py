"""Who asks, and what it may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from fastapi import HTTPException
from starlette.requests import Request

from queue_insight.page.sessions import Session
from shared_api.authorization.rights import PathRight
from shared_api.debug_api.access import MayRead

RefusalOf = Callable[[PathRight], HTTPException | None]


class Visitor(NamedTuple):
    """Who asks.

    Attributes:
        user: Its name; "" where there is no login.
        reads_all: Whether it may read the units of all namespaces.
        may_read: Returns whether it may read the units of a namespace.
        refusal_of: Returns what refuses what takes a right; None: it has the right. It may wait for
            the API server.
        session: Its login; None where there is none.
        checked: When the API server said that its token is valid, in monotonic seconds.
    """

    user: str
    reads_all: bool
    may_read: MayRead
    refusal_of: RefusalOf
    session: Session | None = None
    checked: float = 0.0


class Visitors(Protocol):
    """Identifies who asks."""

    @property
    def needs_login(self) -> bool:
        """Whether a visitor has to log in."""
        ...

    def identify(self, request: Request) -> Visitor:
        """Return who asks; may wait for the API server.

        Raises:
            HTTPException: 401: there is no session; 503: the API server cannot be asked.
        """
        ...


class LocalVisitors:
    """Visitors of a port that only this machine can reach: each may do all."""

    needs_login = False

    def identify(self, request: Request) -> Visitor:
        """Return a visitor without a name."""
        del request
        return Visitor("", reads_all=True, may_read=lambda _: True, refusal_of=lambda _: None)
