"""The routes of the page.

| path | answer |
|---|---|
| / and the paths of views | the window |
| /assets/... | its files |
| /page/session | who has logged in; POST logs in, DELETE logs out |
| /page/events | what has changed, as it does |
| /page/overview | what is wrong, queues, quotas |
| /page/queues/{name} | a queue and a page of its units |
| /page/queues/{name}.csv | all its units, as a table |
| /page/units/{namespace}/{name} | a unit |
| /page/units/{namespace}/{name}/changes | what would start it now |
| /page/quotas/{name} | a quota |
| POST /page/what-if | what edits would change |

Every visitor who is identified may ask all of them; what it may not read is taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple

import structlog
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.app import DEFAULT_PAGE, At, DebugApi, Limit, Name, Offset
from queue_scheduler.debug_api.engine_state import NoStateError
from queue_scheduler.debug_api.question_budget import QuestionBudget
from queue_scheduler.debug_api.snapshots import UnitFacts
from queue_scheduler.debug_api.what_if_routes import (
    WhatIfQuestion,
    WhatIfView,
    refuse_edits_of_others,
    what_if_without_others,
)
from queue_scheduler.page.browser_guard import BrowserGuard
from queue_scheduler.page.event_stream import Streams, add_events, answers_with
from queue_scheduler.page.known_state import KnownStates
from queue_scheduler.page.live import Changes
from queue_scheduler.page.login import LoggedInVisitors, LoginRate, add_login
from queue_scheduler.page.overview import Overview, show_overview, show_queue
from queue_scheduler.page.page_metrics import CountedRequests, PageMetrics
from queue_scheduler.page.queue_table import encode_csv
from queue_scheduler.page.queue_view import (
    QueueContent,
    QueuedUnits,
    UnitQuery,
    read_units,
    select,
    show_units,
)
from queue_scheduler.page.quota_history import QuotaHistory
from queue_scheduler.page.quota_view import QuotaPage, show_quota
from queue_scheduler.page.sessions import Sessions
from queue_scheduler.page.sources import PageSources
from queue_scheduler.page.static_files import read_files, static_routes
from queue_scheduler.page.unit_view import UnitPage, check_namespace, show_unit
from queue_scheduler.page.visitors import LocalVisitors, Visitor, Visitors
from queue_scheduler.setup.quota_readers import QUOTA_READERS
from shared_api.access_review import AccessReviewer
from shared_api.debug_api.debug_app import answer_invalid, problems
from shared_api.debug_api.json_body import (
    BODY_PROBLEMS,
    JSON,
    BodyReader,
    PostedBody,
    read_json,
    request_body,
    schema_of,
)
from shared_api.debug_api.views import View
from shared_api.timestamps import rfc3339

MAX_FILTER: Final = 500
MAX_ROWS: Final = 100_000
"""Rows of a table: some 15 MB."""
CSV: Final = "text/csv"
TABLE: Final = "/page/queues/{name}.csv"
BUSY: Final = HTTPStatus.TOO_MANY_REQUESTS.value
Sent = Annotated[PostedBody, Depends(BodyReader(JSON))]
Filter = Annotated[str, Query(max_length=MAX_FILTER, description="words, or field:text")]
Sort = Annotated[str, Query(max_length=32, description="a field, - before it: descending")]

log = structlog.get_logger("page")


class SessionView(View):
    """Who asks: `login` says whether this port needs a login, `readsAll` whether it sees all."""

    user: str
    login: bool
    reads_all: bool


class Pages:
    """Builds the answers; callable from any thread.

    Args:
        sources: What they are built from.
    """

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._states = KnownStates(sources)
        self._queued = QueuedUnits(sources.clock, sources.kept_seconds)
        self._history = QuotaHistory(sources)
        self._changes_budget = QuestionBudget(sources.clock)

    def overview(self, visitor: Visitor) -> Overview:
        """The first view."""
        sources, state = self._sources, self._states.of_now()
        age, now = sources.forecasts.age_seconds(), sources.clock.now()
        rate_of = sources.admissions_per_hour
        return show_overview(state, sources.insight(), age, visitor, now, rate_of)

    def queue(self, visitor: Visitor, name: str, query: UnitQuery, at: At) -> QueueContent:
        """One queue and a page of its units."""
        asked = self._sources.at(at)
        units = self._units(name, at)
        known = self._states.at(at)
        queue = next((each for each in known.queues if each.name == name), None)
        if queue is None:  # it is gone, or new
            raise NoStateError(f"queue {name!r} has just changed; ask again")
        page, total, others = select(units, query, visitor)
        rate = self._sources.admissions_per_hour(name) if at is None else None
        return QueueContent(
            leader=asked.is_leader,
            state_at=rfc3339(asked.state_at),
            queue=show_queue(queue, known.waiting, visitor, asked.now(), rate),
            total=total,
            offset=query.offset,
            limit=query.limit,
            units=show_units(page, visitor, self._start_of(at)),
            others=others,
        )

    def unit(self, visitor: Visitor, namespace: str, name: str, at: At) -> UnitPage:
        """One unit."""
        check_namespace(visitor, namespace)
        return show_unit(self._sources, visitor, namespace, name, at)

    def changes(self, visitor: Visitor, namespace: str, name: str) -> views.ExplainView:
        """Why a unit waits, and the smallest changes that would start it now."""
        check_namespace(visitor, namespace)
        state = self._sources.at(None)
        api = DebugApi(state.shared, QUOTA_READERS, lambda: state.is_leader, state.now)
        with self._changes_budget.spend():
            found = api.explain_with_changes(namespace, name)
        return views.explain_without_others(found, visitor.may_read)

    def quota(self, visitor: Visitor, name: str, at: At) -> QuotaPage:
        """One quota."""
        past = self._history.states() if at is None else []
        return show_quota(self._states.at(at), name, visitor, past)

    def table(self, visitor: Visitor, name: str, query: UnitQuery, at: At) -> str:
        """All units of a queue that a filter lets through, as CSV."""
        units = self._units(name, at)
        found, _, _ = select(units, query._replace(offset=0, limit=MAX_ROWS), visitor)
        return encode_csv(show_units(found, visitor, self._start_of(at)))

    def _units(self, queue: str, at: At) -> Sequence[UnitFacts]:
        asked = self._sources.at(at)
        return self._queued.of_now(asked, queue) if at is None else read_units(asked, queue)

    def _start_of(self, at: At) -> Callable[[str], str | None]:
        """Return what says when a unit starts; of another time nothing is forecast."""
        return self._sources.forecasts.start_of if at is None else lambda _: None

    def what_if(self, visitor: Visitor, body: PostedBody) -> WhatIfView:
        """What edits would change."""
        question = read_json(body, WhatIfQuestion)
        refuse_edits_of_others(question, visitor.may_read)
        return what_if_without_others(self._sources.what_if(question), visitor.may_read)


class Login(NamedTuple):
    """What a port needs that others can reach.

    Attributes:
        sessions: Who has logged in.
        reviewer: Asks the API server about tokens.
    """

    sessions: Sessions
    reviewer: AccessReviewer


def build_page_app(
    sources: PageSources,
    login: Login | None,
    hosts: Collection[str] | None,
    metrics: PageMetrics,
) -> ASGIApp:
    """Return the application.

    Args:
        sources: What it answers from.
        login: For a port that others can reach; None: only this machine can, and may read all.
        hosts: Names that the header Host may have, in lower case; None: any.
        metrics: Counts.
    """
    app = build_page_api(sources, login, metrics)
    app.router.routes.extend(static_routes(read_files()))
    return CountedRequests(BrowserGuard(app, hosts), metrics, sources.clock)


def build_page_api(sources: PageSources, login: Login | None, metrics: PageMetrics) -> FastAPI:
    """Return the answers alone, without files and without checks of browsers."""
    app = FastAPI(
        title="Koord-Queue page",
        openapi_url=None,
        redirect_slashes=False,
        responses=problems(401, 403, 404, 421, 422, 500, 503),
        # As the application's own handler it would answer, and raise again.
        middleware=[Middleware(ExceptionMiddleware, handlers={Exception: _answer_failure})],
    )
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(NoStateError, _answer_no_state)
    app.add_exception_handler(ClientDisconnect, _answer_late)
    visitors: Visitors = LocalVisitors()
    recheck: LoggedInVisitors | None = None
    if login is not None:
        visitors = recheck = LoggedInVisitors(login.sessions, login.reviewer, sources.clock)
        add_login(app, login.sessions, recheck, login.reviewer, LoginRate(sources.clock, metrics))
    streams = Streams(Changes(sources), sources.clock, recheck)
    add_events(app, streams, visitors.identify)
    sessions = None if login is None else login.sessions
    metrics.show(streams=lambda: streams.count, sessions=lambda: len(sessions or ()))
    _add_answers(app, Pages(sources), visitors)
    return app


def _add_answers(app: FastAPI, pages: Pages, visitors: Visitors) -> None:
    Asking = Annotated[Visitor, Depends(visitors.identify)]  # noqa: N806 - a type

    def session(visitor: Asking) -> SessionView:
        return SessionView(
            user=visitor.user, login=visitors.needs_login, reads_all=visitor.reads_all
        )

    def queue(
        visitor: Asking,
        name: Name,
        offset: Offset = 0,
        limit: Limit = DEFAULT_PAGE,
        filter: Filter = "",  # noqa: A002 - its name in the query
        sort: Sort = "",
        at: At = None,
    ) -> QueueContent:
        return pages.queue(visitor, name, UnitQuery(offset, limit, filter, sort), at)

    def overview(visitor: Asking) -> Overview:
        return pages.overview(visitor)

    def unit(visitor: Asking, namespace: Name, name: Name, at: At = None) -> UnitPage:
        return pages.unit(visitor, namespace, name, at)

    def changes(visitor: Asking, namespace: Name, name: Name) -> views.ExplainView:
        return pages.changes(visitor, namespace, name)

    def quota(visitor: Asking, name: Name, at: At = None) -> QuotaPage:
        return pages.quota(visitor, name, at)

    def table(
        visitor: Asking,
        name: Name,
        filter: Filter = "",  # noqa: A002 - its name in the query
        sort: Sort = "",
        at: At = None,
    ) -> Response:
        text = pages.table(visitor, name, UnitQuery(filter=filter, sort=sort), at)
        return Response(text, media_type=CSV)

    def what_if(visitor: Asking, body: Sent) -> WhatIfView:
        return pages.what_if(visitor, body)

    answers: dict[str, Any] = {
        "/page/session": session,
        "/page/overview": overview,
        "/page/queues/{name}": queue,
        "/page/units/{namespace}/{name}": unit,
        "/page/units/{namespace}/{name}/changes": changes,
        "/page/quotas/{name}": quota,
    }
    # Before the route of queues, whose names it would be one of.
    table.__annotations__["visitor"] = Asking
    app.get(TABLE, **answers_with(CSV))(table)
    app.head(TABLE, include_in_schema=False)(table)
    for path, answer in answers.items():
        # Annotations are texts here, and name a local type.
        answer.__annotations__["visitor"] = Asking
        busy = problems(BUSY) if answer is changes else None
        app.get(path, responses=busy)(answer)
        app.head(path, include_in_schema=False)(answer)
    what_if.__annotations__["visitor"] = Asking
    app.post(
        "/page/what-if",
        openapi_extra=request_body({JSON: schema_of(WhatIfQuestion)}),
        responses=problems(*BODY_PROBLEMS, HTTPStatus.REQUEST_TIMEOUT.value, BUSY),
    )(what_if)


def _answer_no_state(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE.value)


def _answer_late(_request: Request, _error: Exception) -> JSONResponse:
    detail = "the body of the request did not come in time"
    return JSONResponse({"detail": detail}, HTTPStatus.REQUEST_TIMEOUT.value)


def _answer_failure(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, exc_info=error)
    detail = f"{type(error).__name__} while answering; see the program's log"
    return JSONResponse({"detail": detail}, HTTPStatus.INTERNAL_SERVER_ERROR.value)
