"""Route groups like those of Go's gin, on Starlette: prefixes nest, guards are inherited.

    group = RouterGroup("/debug/plugins/mine")
    group.get("/units/:namespace/:name", show_unit)
    admin = group.group("/admin", guards=[only_admins])

A handler is a plain function `(Request) -> Response`; Starlette runs it on a worker thread. A
guard is a function `(Request) -> None` that raises `HTTPException` to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Handler = Callable[[Request], Response]
Guard = Callable[[Request], None]

_PARAMETER: Final = re.compile(r":(\w+)")


class RouterGroup:
    """Routes under one prefix."""

    def __init__(self, prefix: str, guards: Sequence[Guard] = ()) -> None:
        self._prefix = prefix.rstrip("/")
        self._guards = tuple(guards)
        self._handlers: list[tuple[str, Handler]] = []
        self._groups: list[RouterGroup] = []

    def group(self, prefix: str, guards: Sequence[Guard] = ()) -> RouterGroup:
        """Return a group below this one, with the guards of this one and its own."""
        below = RouterGroup(self._prefix + prefix, (*self._guards, *guards))
        self._groups.append(below)
        return below

    def get(self, path: str, handler: Handler) -> None:
        """Serve GET; `:name` in the path is a parameter (`request.path_params["name"]`)."""
        self._handlers.append((self._prefix + _PARAMETER.sub(r"{\1}", path), handler))

    def routes(self, guards: Sequence[Guard] = ()) -> list[Route]:
        """Return all routes of this group and the groups below it, behind these guards as well."""
        before = (*guards, *self._guards)
        own = [
            Route(path, guarded(handler, before), methods=["GET"])
            for path, handler in self._handlers
        ]
        return [*own, *(route for group in self._groups for route in group.routes(guards))]


def guarded(handler: Handler, guards: Sequence[Guard]) -> Handler:
    """Return a handler that calls the guards first."""

    def answer(request: Request) -> Response:
        for guard in guards:
            guard(request)
        return handler(request)

    return answer
