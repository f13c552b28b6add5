"""`GET /debug/dump`: everything that the engine believes, as a file.

It has all namespaces in it, so its reader must be allowed to list the units of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import FastAPI, Query, Request, Response

from queue_scheduler.debug_api.what_if_routes import EngineSource
from queue_scheduler.dump.codec import encode_dump
from queue_scheduler.dump.contents import Settings
from queue_scheduler.dump.take import take_dump
from shared_api.access_review import list_units_in
from shared_api.debug_api.access import EVERYWHERE, check_right
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.router_group import Guard
from shared_api.local_program import VERSION

PATH: Final = "/debug/dump"
JSON: Final = "application/json"

Compressed = Annotated[bool, Query(description="compressed with gzip")]


class Dumps:
    """Takes dumps.

    Args:
        source: Returns copies of the engine.
        is_leader: Returns whether this replica decides.
        settings: With what the program was started.
    """

    def __init__(
        self, source: EngineSource, is_leader: Callable[[], bool], settings: Settings
    ) -> None:
        self._source = source
        self._is_leader = is_leader
        self._settings = settings

    def take(self, *, compress: bool) -> bytes:
        """Return a dump as bytes."""
        state, leader = self._source(), self._is_leader()
        dump = take_dump(state.engine, state.moment, self._settings, VERSION, leader=leader)
        return encode_dump(dump, compress=compress)


def add_dump_route(app: FastAPI, take: Callable[..., bytes], access: Guard) -> None:
    """Add the route.

    Args:
        app: The application; it calls `access` first.
        take: `Dumps.take`; called on a thread of the server.
        access: The application's guard.
    """

    def dump(request: Request, *, gzip: Compressed = False) -> Response:
        """Everything that the scheduler believes, to be asked elsewhere; names are not replaced.

        The caller needs the right to list queueunits in all namespaces.
        """
        check_right(access, request, list_units_in(EVERYWHERE))
        headers = {"Content-Disposition": 'attachment; filename="koord-queue-dump.json"'}
        if gzip:
            headers["Content-Encoding"] = "gzip"
        return Response(take(compress=gzip), headers=headers, media_type=JSON)

    content = {JSON: {"schema": {"type": "object"}}}
    app.get(
        PATH,
        responses={200: {"content": content}, **problems(403)},
        response_class=Response,
    )(dump)
