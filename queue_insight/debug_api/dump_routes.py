"""`GET /debug/dump`: everything that the engine believes, as a file.

It has all namespaces in it, so its reader must be allowed to list the units of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
import structlog
from fastapi import FastAPI, Query, Request, Response
from msgspec.structs import replace

from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.insight_views import FinishedRunsView
from queue_insight.debug_api.what_if_routes import EngineSource
from queue_insight.dump.codec import encode_dump
from queue_insight.dump.take import take_dump
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.engine.settings import EngineSettings
from shared_api.authorization.rights import list_units_in
from shared_api.debug_api.access import EVERYWHERE, check_right
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.router_group import Guard
from shared_api.question_errors import QuestionError
from shared_api.version import VERSION

PATH: Final = "/debug/dump"
FINISHED_RUNS: Final = "/debug/finished-runs"
"""A route of the insight program that only the scheduler requests."""
JSON: Final = "application/json"

log = structlog.get_logger("dumps")

Compressed = Annotated[bool, Query(description="compressed with gzip")]


class Dumps:
    """Takes dumps.

    Args:
        source: Returns copies of the engine.
        is_leader: Returns whether this replica decides.
        settings: With what the program was started.
    """

    def __init__(
        self, source: EngineSource, is_leader: Callable[[], bool], settings: EngineSettings
    ) -> None:
        self._source = source
        self._is_leader = is_leader
        self._settings = settings

    def take(self, runs: tuple[FinishedRun, ...], *, compress: bool) -> bytes:
        """Return a dump as bytes, with these runs that have ended."""
        state, leader = self._source(), self._is_leader()
        dump = take_dump(state.engine, state.moment, self._settings, VERSION, leader=leader)
        return encode_dump(replace(dump, runs=runs), compress=compress)


def read_finished_runs(link: InsightLink) -> tuple[FinishedRun, ...]:
    """Return what forecasts are learned from; () if the insight program is off, or records nothing.

    A dump without them is of use all the same.
    """
    try:
        view = link.ask_at(FINISHED_RUNS, FinishedRunsView)
        return msgspec.convert(view.runs, tuple[FinishedRun, ...])
    except QuestionError as error:
        log.info("a dump has no finished runs", reason=error.detail)
    except msgspec.ValidationError as error:  # the insight program is of another version
        log.warning("a dump has no finished runs", reason=str(error))
    return ()


def add_dump_route(
    app: FastAPI, take: Callable[..., bytes], link: InsightLink, access: Guard
) -> None:
    """Add the route.

    Args:
        app: The application; it calls `access` first.
        take: `Dumps.take`; called on a thread of the server.
        link: Asks the insight program.
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
        content = take(read_finished_runs(link), compress=gzip)
        return Response(content, headers=headers, media_type=JSON)

    described = {JSON: {"schema": {"type": "object"}}}
    app.get(
        PATH,
        responses={200: {"content": described}, **problems(403)},
        response_class=Response,
    )(dump)
