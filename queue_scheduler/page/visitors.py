"""Who asks, and what it may read."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from starlette.requests import Request

from queue_scheduler.page.sessions import Session
from shared_api.debug_api.access import MayRead


class Visitor(NamedTuple):
    """Who asks.

    Attributes:
        user: Its name; "" where there is no login.
        reads_all: Whether it may read the units of all namespaces.
        may_read: Returns whether it may read the units of a namespace.
        session: Its login; None where there is none.
    """

    user: str
    reads_all: bool
    may_read: MayRead
    session: Session | None = None


class Visitors(Protocol):
    """Identifies who asks."""

    @property
    def needs_login(self) -> bool:
        """Whether a visitor has to log in."""
        ...

    def identify(self, request: Request) -> Visitor:
        """Return who asks; may wait for the API server.

        Raises:
            HTTPException: 401: nobody has logged in; 503: the API server cannot be asked.
        """
        ...


class LocalVisitors:
    """Visitors of a port that only this machine can reach: each may read all."""

    needs_login = False

    def identify(self, request: Request) -> Visitor:
        """Return a visitor without a name."""
        del request
        return Visitor("", reads_all=True, may_read=lambda _: True)
