"""What every request meets first, and what every answer has: checks and headers for browsers.

A page of another site may send requests from a user's browser, with the user's cookies or to the
user's own machine. It cannot send another Host or Origin than its own, nor leave out
Sec-Fetch-Site. So these are checked before anything is read or computed.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared_api.debug_api.access import name_of_host

ANSWERS: Final = "/page/"
"""Prefix of the paths that are not files."""

BODY_SECONDS: Final = 10.0
"""Time for a body to arrive, from when it is first asked for."""

_READ_ONLY: Final = frozenset({"GET", "HEAD"})
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

NO_STORE: Final = "no-store"


class BrowserGuard:
    """An ASGI middleware.

    Args:
        app: The application.
        hosts: Names that the header Host may have, in lower case; None: any, since the
            certificate names them.
        hosts_flag: The flag that adds names.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str] | None, hosts_flag: str = "--page-hosts"
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._flag = hosts_flag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        is_answer = str(scope.get("path", "")).startswith(ANSWERS)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if is_answer:
                    headers["Cache-Control"] = NO_STORE
            await send(message)

        refusal = self._refuse(scope, is_answer=is_answer)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        changes = scope["method"] not in _READ_ONLY
        await self._app(scope, _in_time(receive) if changes else receive, send_with_headers)

    def _refuse(self, scope: Scope, *, is_answer: bool) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and name_of_host(host) not in self._hosts:
            detail = f"the header Host says {host!r}: add the name to {self._flag} to allow it"
            return _problem(HTTPStatus.MISDIRECTED_REQUEST, detail)
        site = headers.get("sec-fetch-site", "").lower()
        if scope["method"] in _READ_ONLY:
            is_foreign = is_answer and site in _OTHER_SITES
        else:
            own = f"{scope['scheme']}://{host}".lower()
            is_foreign = headers.get("origin", "").lower() != own or site not in {
                "",
                "same-origin",
            }
        if is_foreign:
            return _problem(HTTPStatus.FORBIDDEN, "a page of another site may not ask this")
        return None


def _problem(status: HTTPStatus, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status.value)


def _in_time(receive: Receive) -> Receive:
    """Return a `receive` that takes a client that does not send all in time for one that has gone.

    No answer to such a request is a stream, so nothing is received after the body.
    """
    ends: float | None = None

    async def receive_in_time() -> Message:
        nonlocal ends
        if ends is None:
            ends = anyio.current_time() + BODY_SECONDS
        try:
            with anyio.fail_after(ends - anyio.current_time()):
                return await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}

    return receive_in_time
