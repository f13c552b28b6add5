"""Bounds how many requests of one caller are in progress, before anything is done for them.

The computing of answers is shared by turns (`debug_api.answer_turns`). But a request that gets
its turn, or is refused one, has been routed and its visitor identified, which takes the loop that
serves everybody some milliseconds. A client that asks with hundreds of requests at once is refused
here, and not at once: one that asks again at each refusal would keep the loop busy by that alone.
"""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import Final

import anyio
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from queue_insight.page.login import COOKIE
from queue_insight.page.networks import Networks, is_within
from queue_insight.page.sessions import Sessions
from shared_api.caller_shares import address_key, user_key

OWN_REQUESTS: Final = 32
"""The most requests of one caller at once; a browser has six connections to a host. Fewer than may
wait, so that no caller fills that queue."""
REFUSED_AFTER_SECONDS: Final = 1.0
MAX_REFUSALS: Final = 200
"""Refusals that are put off at once: each holds a connection. Further ones are sent at once."""
EVENTS: Final = "/page/events"
"""Streams do not end: a caller may have as many of them as it may have requests beside."""


class CallerBound:
    """An ASGI middleware; used by one loop only.

    A caller is the user who has logged in, or else the address. Addresses that stand for many
    visitors are not bounded.

    Args:
        app: The application.
        sessions: The logged-in users; None if there is no login.
        shared: The networks whose addresses stand for many visitors.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions | None, shared: Networks = ()) -> None:
        self._app = app
        self._sessions = sessions
        self._shared = shared
        self._in_progress: Counter[str] = Counter()
        self._refusals = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        caller = self._caller_of(HTTPConnection(scope))
        if caller is None:
            await self._app(scope, receive, send)
            return
        if self._in_progress[caller] >= OWN_REQUESTS:
            await self._refuse(scope, receive, send)
            return
        self._in_progress[caller] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_progress[caller] -= 1
            if not self._in_progress[caller]:
                del self._in_progress[caller]

    def _caller_of(self, connection: HTTPConnection) -> str | None:
        """Return who asks, and for which of the two; None: many may be behind the address."""
        kind = "stream" if connection.url.path == EVENTS else "request"
        if self._sessions is not None:
            session = self._sessions.find(connection.cookies.get(COOKIE, ""))
            if session is not None:
                return f"{kind} {user_key(session.user)}"
        host = "" if connection.client is None else connection.client.host
        return None if is_within(host, self._shared) else f"{kind} {address_key(host)}"

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._refusals < MAX_REFUSALS:
            self._refusals += 1
            try:
                await anyio.sleep(REFUSED_AFTER_SECONDS)
            finally:
                self._refusals -= 1
        detail = f"more than {OWN_REQUESTS} requests of yours at once: ask again in 1 s"
        status = HTTPStatus.TOO_MANY_REQUESTS.value
        answer = JSONResponse({"detail": detail}, status, {"Retry-After": "1"})
        await answer(scope, receive, send)
