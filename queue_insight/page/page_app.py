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
| /page/unqueued | a page of the units that stand in no queue |
| /page/jobs | a page of all units, those that have ended as well |
| /page/jobs.csv | all of them, as a table |
| /page/units/{namespace}/{name} | a unit, or what is recorded of one that is gone |
| /page/units/{namespace}/{name}/changes | what would start it now |
| /page/units/{namespace}/{name}/pods, events, manifests/... | what the API server knows of it |
| /page/quotas/{name} | a quota |
| /page/manifests/{of}/{name} | what the API server has of a queue, a quota or its QuotaPolicy |
| /page/names | what the form of what-if questions offers |
| /page/over-time | what the whole, a queue or a quota had over time |
| /page/report, /page/report.csv | who used how much over a time |
| POST /page/what-if | what edits would change |

Every visitor who is identified may ask all of them but the last, which takes the right that the
debug API asks for; what it may not read is taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple

import structlog
from fastapi import Depends, FastAPI, Query, Request
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from queue_insight.debug_api.answer_turns import NOW, AnswerTurns
from queue_insight.debug_api.budget_forecasts import EveryBudgetForecast
from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.debug_api.explanations import ExplainAnswers
from queue_insight.debug_api.forecast_routes import Start
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.what_if_routes import PATH as WHAT_IF_PATH
from queue_insight.debug_api.what_if_routes import (
    WhatIfQuestion,
    WhatIfView,
    WrongEditError,
    refuse_edits_of_others,
)
from queue_insight.page.api_routes import add_api_answers
from queue_insight.page.browser_guard import BrowserGuard
from queue_insight.page.caller_bound import CallerBound
from queue_insight.page.event_stream import Streams, add_events, answers_with
from queue_insight.page.job_answers import JobAnswers
from queue_insight.page.job_list import JobsContent
from queue_insight.page.kept_changes import KeptChanges
from queue_insight.page.known_names import KnownNames, show_names
from queue_insight.page.known_state import KnownState, KnownStates
from queue_insight.page.live import Changes
from queue_insight.page.login import LoggedInVisitors, LoginRate, add_login
from queue_insight.page.networks import Networks
from queue_insight.page.over_time import AskedOverTime, OverTime, OverTimeQuery, show_over_time
from queue_insight.page.overview import Overview, show_overview, show_queue
from queue_insight.page.page_metrics import CountedRequests, PageMetrics
from queue_insight.page.question_words import describe_edit, describe_mistakes
from queue_insight.page.queue_table import encode_csv
from queue_insight.page.queue_view import (
    ListedUnit,
    QueueContent,
    UnitQuery,
    UnqueuedContent,
    list_held,
    list_queue,
    select,
    show_units,
)
from queue_insight.page.quota_view import QuotaPage, show_quota
from queue_insight.page.report import (
    AskedUse,
    UseQuery,
    UseReport,
    encode_use_report,
    show_use_report,
)
from queue_insight.page.sessions import Sessions
from queue_insight.page.shared_answers import SharedAnswers, T
from queue_insight.page.sources import EngineAtTime, PageSources
from queue_insight.page.stated_objects import (
    find_policy_object,
    find_queue_object,
    find_quota_object,
)
from queue_insight.page.static_files import elsewhere, read_files, static_routes
from queue_insight.page.unit_view import UnitPage, check_namespace, show_unit
from queue_insight.page.visitors import LocalVisitors, Visitor, Visitors
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, At, Limit, Name, Offset, QuotaPath
from queue_scheduler.debug_api.snapshots import UnitFacts
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.rights import PathRight
from shared_api.caller_shares import user_key
from shared_api.client.transport import Transport
from shared_api.debug_api.debug_app import add_refusals, problems
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
from shared_api.question_errors import QuestionError
from shared_api.timestamps import rfc3339

MAX_FILTER: Final = 500
MAX_ROWS: Final = 100_000
"""Rows of a table: some 15 MB."""
CSV: Final = "text/csv"
JOBS: Final = "/page/jobs"
REPORT: Final = "/page/report"
TABLE: Final = "/page/queues/{name}.csv"
BUSY: Final = HTTPStatus.TOO_MANY_REQUESTS.value
MAX_QUEUES: Final = 4
"""Queues whose units are kept for the next page of a virtual list."""
MAX_ENCODED: Final = 4_000_000
"""Bytes of answers that are kept for other visitors: an overview of 20 queues takes 35,000."""
ASK_WHAT_IF: Final = PathRight(WHAT_IF_PATH, "create")
Sent = Annotated[PostedBody, Depends(BodyReader(JSON))]
Filter = Annotated[str, Query(max_length=MAX_FILTER, description="words, or field:text")]
Sort = Annotated[str, Query(max_length=32, description="a field, - before it: descending")]


def _all_that_match(
    filter: Filter = "",  # noqa: A002 - its name in the query
    sort: Sort = "",
) -> UnitQuery:
    return UnitQuery(limit=MAX_ROWS, filter=filter, sort=sort)


Matching = Annotated[UnitQuery, Depends(_all_that_match)]


def _page_of(found: Matching, offset: Offset = 0, limit: Limit = DEFAULT_PAGE) -> UnitQuery:
    return found._replace(offset=offset, limit=limit)


PageQuery = Annotated[UnitQuery, Depends(_page_of)]

log = structlog.get_logger("page")


class SessionView(View):
    """Who asks.

    `login` says whether this port needs a login, `readsAll` whether the visitor sees all, `whatIf`
    whether it may ask what edits would change.
    """

    user: str
    login: bool
    reads_all: bool
    what_if: bool


class Pages:
    """Builds the answers; callable from any thread.

    Attributes:
        states: What is known.

    Args:
        sources: What they are built from.
    """

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self.states = KnownStates(sources)
        self._queued: SharedAnswers[tuple[ListedUnit, ...]] = self._shared(MAX_QUEUES)
        self._encoded: SharedAnswers[bytes] = self._shared(MAX_ENCODED, len)
        self._changes = KeptChanges(sources.clock)
        self._budget = sources.questions or QuestionBudget(sources.clock)

    def _shared(self, most: int, size_of: Callable[[T], int] = lambda _: 1) -> SharedAnswers[T]:
        return SharedAnswers(self._sources.clock, self._sources.kept_seconds, most, size_of)

    def _encode(
        self, visitor: Visitor, state: KnownState | None, key: Hashable, build: Callable[[], View]
    ) -> Response:
        """Return an answer without what is hidden from its visitor.

        It is computed once for all visitors who may read everything.

        Args:
            visitor: Who asks.
            state: The state of now; None if the answer is about an earlier time.
            key: The question.
            build: Computes the answer.
        """

        def encoded() -> bytes:
            shown = hide(build(), visitor.may_read)
            return shown.model_dump_json(by_alias=True).encode()

        if state is None or not visitor.reads_all:
            content = encoded()
        else:
            content = self._encoded.get(state, key, encoded)
        return Response(content, media_type="application/json")

    def overview(self, visitor: Visitor, at: At) -> Response:
        """The first view."""
        sources, source, state = self._sources, self._sources.at(at), self.states.at(at)
        is_of_now = at is None

        def build() -> Overview:
            return show_overview(
                state,
                sources.insight(),
                sources.forecasts.age_seconds() if is_of_now else None,
                visitor,
                source.now(),
                sources.admissions_per_hour if is_of_now else lambda _: None,
                is_of_now=is_of_now,
            )

        return self._encode(visitor, state if is_of_now else None, "overview", build)

    def unqueued(self, visitor: Visitor, query: UnitQuery, at: At) -> Response:
        """A page of the units that stand in no queue."""
        source, known = self._sources.at(at), self.states.at(at)

        def build() -> UnqueuedContent:
            held = tuple(list_held(source.shared.fork(), known.units.unqueued))
            page, total, others = select(held, query, visitor)
            return UnqueuedContent(
                leader=source.is_leader,
                state_at=rfc3339(source.state_at),
                total=total,
                offset=query.offset,
                limit=query.limit,
                units=show_units(source, page, self._start_of(at)),
                others=others,
            )

        return self._encode(visitor, known if at is None else None, ("unqueued", query), build)

    def queue(self, visitor: Visitor, name: str, query: UnitQuery, at: At) -> Response:
        """One queue and a page of its units."""
        source, known = self._sources.at(at), self.states.at(at)
        current = known if at is None else None

        def build() -> QueueContent:
            queue = next((each for each in known.queues if each.name == name), None)
            units = self._units(source, current, name)
            if queue is None:  # it is new
                raise NoStateError(f"queue {name!r} has just changed; ask again")
            page, total, others = select(units, query, visitor)
            rate = None if current is None else self._sources.admissions_per_hour(name)
            stated = source.shared.ask(find_queue_object, name)
            return QueueContent(
                leader=source.is_leader,
                state_at=rfc3339(source.state_at),
                queue=show_queue(queue, known.units.waiting, visitor, source.now(), rate),
                total=total,
                offset=query.offset,
                limit=query.limit,
                units=show_units(source, page, self._start_of(at)),
                others=others,
                accounts=known.fair_accounts.get(name),
                stated_in=None if stated is None else stated.view(),
            )

        return self._encode(visitor, current, (name, query), build)

    def _units(
        self, source: EngineAtTime, current: KnownState | None, name: str
    ) -> tuple[ListedUnit, ...]:
        """Return the units of a queue.

        Those of now are at most a second old: a virtual list asks by pages.

        Args:
            source: The state.
            current: The same, if it is that of now.
            name: The name of the queue.
        """
        if current is None:
            return list_queue(source.shared.fork(), name)
        return self._queued.get(current, name, lambda: list_queue(source.shared.fork(), name))

    def _start_of(self, at: At) -> Callable[[UnitFacts], Start]:
        """Return what says when a unit starts; of another time nothing is forecast."""
        if at is not None:
            return lambda _: Start()
        start_of = self._sources.forecasts.start_of
        return lambda unit: start_of(unit.record.uid, unit.refusal)

    def unit(self, visitor: Visitor, namespace: str, name: str, at: At) -> Response:
        """One unit."""
        check_namespace(visitor, namespace)
        state = self.states.of_now() if at is None else None
        if state is not None and not self._knows(namespace, name):
            # The record is searched for it, which may take long: others would wait for that.
            state = None

        def build() -> UnitPage:
            return show_unit(self._sources, visitor, (namespace, name), at, self._changes)

        def may_read(other: str) -> bool:
            if other == namespace:  # its right may have ended meanwhile
                check_namespace(visitor, namespace)
            return visitor.may_read(other)

        reader = visitor._replace(may_read=may_read)
        return self._encode(reader, state, (namespace, name, "unit"), build)

    def _knows(self, namespace: str, name: str) -> bool:
        """Return whether there is such a unit now."""
        return self._sources.at(None).shared.ask(Engine.record, f"{namespace}/{name}") is not None

    def changes(self, visitor: Visitor, namespace: str, name: str) -> ExplainView:
        """Why a unit waits, and the smallest changes that would start it now."""
        check_namespace(visitor, namespace)
        state, key = self._sources.at(None), f"{namespace}/{name}"
        known = StateAnswers(state.shared, lambda: state.is_leader, state.now)
        answers = ExplainAnswers(known, self._budget)
        before = state.shared.ask(Engine.record, key)
        found = answers.explain_with_changes(namespace, name, user_key(visitor.user))
        record = state.shared.ask(Engine.record, key)
        # In the seconds between, another unit may have taken its name.
        if record is not None and before is not None and record.uid == before.uid:
            self._changes.put(record.uid, found)
        return hide(found, visitor.may_read)

    def quota(self, visitor: Visitor, name: str, at: At) -> QuotaPage:
        """One quota."""
        budgets = None if at is not None else self._foreseen_budgets(name)
        shown = show_quota(self.states.at(at), name, visitor, budgets)
        shared = self._sources.at(at).shared
        stated = shared.ask(find_quota_object, name)
        policy = shared.ask(find_policy_object, name) if visitor.reads_all else None
        objects = {
            "stated_in": None if stated is None else stated.view(),
            "policy": None if policy is None else policy.view(),
        }
        return shown.model_copy(update=objects)

    def _foreseen_budgets(self, quota: str) -> EveryBudgetForecast | None:
        try:
            return self._sources.forecasts.of_budgets(quota)
        except QuestionError:  # there is no forecast yet
            return None

    def over_time(self, visitor: Visitor, query: OverTimeQuery) -> Response:
        """What the whole, a queue or a quota had over time."""
        is_recorded = self._sources.insight().record.state != "off"

        def build() -> OverTime:
            return show_over_time(self._sources, query, visitor, is_recorded=is_recorded)

        return self._encode(visitor, None, "over-time", build)

    def report(self, visitor: Visitor, query: UseQuery) -> Response:
        """Who used how much over a time."""
        return self._encode(
            visitor, None, "report", lambda: show_use_report(self._sources, query, visitor)
        )

    def report_table(self, visitor: Visitor, query: UseQuery) -> str:
        """Who used how much over a time, as CSV."""
        return encode_use_report(self._sources, query, visitor)

    def table(self, visitor: Visitor, name: str, query: UnitQuery, at: At) -> str:
        """Units of a queue, as CSV."""
        source, known = self._sources.at(at), self.states.at(at)
        units = self._units(source, known if at is None else None, name)
        found, _, _ = select(units, query, visitor)
        rows = show_units(source, found, self._start_of(at))
        return encode_csv(hide(each, visitor.may_read) for each in rows)

    def names(self, visitor: Visitor) -> Response:
        """The names that the form of what-if questions offers."""
        asked, state = self._sources.at(None), self.states.of_now()
        return self._encode(visitor, state, "names", lambda: show_names(asked, state, visitor))

    def what_if(self, visitor: Visitor, body: PostedBody) -> WhatIfView:
        """What edits would change.

        It takes the right that the debug API asks for: by many questions the room and the demand of
        units that may not be read can be searched for.
        """
        refusal = visitor.refusal_of(ASK_WHAT_IF)
        if refusal is not None:
            raise refusal
        question = read_json(body, WhatIfQuestion, describe_mistakes)
        try:
            refuse_edits_of_others(question, visitor.may_read)
            found = self._sources.what_if(question, user_key(visitor.user))
        except WrongEditError as error:
            raise QuestionError(error.code, describe_edit(error.error, question)) from error
        return hide(found, visitor.may_read)


class Login(NamedTuple):
    """What a port needs that others can reach.

    Attributes:
        sessions: Who has logged in.
        authorizer: Asks the API server about tokens and rights.
        transport: Sends requests to the API server without credentials of its own, for those with
            the token of a visitor.
        shared: The networks whose addresses stand for many visitors.
    """

    sessions: Sessions
    authorizer: Authorizer
    transport: Transport
    shared: Networks = ()


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
    files = read_files()
    app.router.routes.extend(static_routes(files))
    app.router.default = elsewhere(files)
    guard = BrowserGuard(app, hosts)
    bound = CallerBound(guard, login and login.sessions, login.shared if login else ())
    return CountedRequests(bound, metrics, sources.clock)


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
    add_refusals(app, describe_mistakes)
    app.add_exception_handler(ClientDisconnect, _answer_late)
    visitors: Visitors = LocalVisitors()
    recheck: LoggedInVisitors | None = None
    if login is not None:
        visitors = recheck = LoggedInVisitors(login.sessions, login.authorizer, sources.clock)
        rate = LoginRate(sources.clock, metrics, login.shared)
        add_login(app, login.sessions, recheck, login.authorizer, rate)
    pages = Pages(sources)
    streams = Streams(Changes(pages.states), sources.clock, recheck)
    add_events(app, streams, visitors.identify)
    sessions = None if login is None else login.sessions
    metrics.show(streams=lambda: streams.count, sessions=lambda: len(sessions or ()))
    turns = AnswerTurns(sources.clock, NOW)
    _add_answers(app, pages, visitors, turns)
    _add_unqueued(app, pages, visitors, turns)
    _add_jobs(app, JobAnswers(sources, pages.states), visitors, turns)
    _add_over_time(app, pages, visitors, turns)
    _add_report(app, pages, visitors, turns)
    _add_what_if(app, pages, visitors, turns)
    if login is not None:
        add_api_answers(app, sources, login.transport, visitors.identify, _caller_key)
    return app


def _caller_key(_request: Request, arguments: Mapping[str, Any]) -> str:
    visitor: Visitor = arguments["visitor"]
    return user_key(visitor.user)


def _show_session(visitor: Visitor, *, needs_login: bool) -> SessionView:
    return SessionView(
        user=visitor.user,
        login=needs_login,
        reads_all=visitor.reads_all,
        what_if=visitor.refusal_of(ASK_WHAT_IF) is None,
    )


def _add_answers(app: FastAPI, pages: Pages, visitors: Visitors, turns: AnswerTurns) -> None:
    Asking = Annotated[Visitor, Depends(visitors.identify)]  # noqa: N806 - a type

    def session(visitor: Asking) -> SessionView:
        return _show_session(visitor, needs_login=visitors.needs_login)

    def queue(visitor: Asking, name: Name, query: PageQuery, at: At = None) -> Response:
        return pages.queue(visitor, name, query, at)

    def overview(visitor: Asking, at: At = None) -> Response:
        return pages.overview(visitor, at)

    def unit(visitor: Asking, namespace: Name, name: Name, at: At = None) -> Response:
        return pages.unit(visitor, namespace, name, at)

    def changes(visitor: Asking, namespace: Name, name: Name) -> ExplainView:
        return pages.changes(visitor, namespace, name)

    def quota(visitor: Asking, name: QuotaPath, at: At = None) -> QuotaPage:
        return pages.quota(visitor, name, at)

    def table(visitor: Asking, name: Name, query: Matching, at: At = None) -> Response:
        return Response(pages.table(visitor, name, query, at), media_type=CSV)

    # Annotations are texts here, and name a local type.
    for each in (table, session, overview, queue, unit, changes, quota):
        each.__annotations__["visitor"] = Asking
    # Before the route of queues, whose names it would be one of.
    _add_table(app, TABLE, turns.in_turn(table, _caller_key))
    answers: dict[str, tuple[Callable[..., Any], type[View]]] = {
        "/page/session": (session, SessionView),
        "/page/overview": (overview, Overview),
        "/page/queues/{name}": (queue, QueueContent),
        "/page/units/{namespace}/{name}": (unit, UnitPage),
        "/page/units/{namespace}/{name}/changes": (changes, ExplainView),
        "/page/quotas/{name:path}": (quota, QuotaPage),
    }
    for path, (answer, view) in answers.items():
        _add_route(
            app, path, turns.in_turn(answer, _caller_key), view, is_busy=answer is not session
        )


def _add_route(
    app: FastAPI, path: str, answer: Callable[..., Any], view: type[View], *, is_busy: bool = True
) -> None:
    """Add a route for GET and HEAD; `is_busy`: it may refuse a caller whose share is spent."""
    app.get(path, response_model=view, responses=problems(BUSY) if is_busy else None)(answer)
    app.head(path, include_in_schema=False)(answer)


def _add_table(app: FastAPI, path: str, table: Callable[..., Any]) -> None:
    form = answers_with(CSV)
    app.get(path, **form | {"responses": form["responses"] | problems(BUSY)})(table)
    app.head(path, include_in_schema=False)(table)


def _add_unqueued(app: FastAPI, pages: Pages, visitors: Visitors, turns: AnswerTurns) -> None:
    def unqueued(visitor: Visitor, query: PageQuery, at: At = None) -> Response:
        return pages.unqueued(visitor, query, at)

    unqueued.__annotations__["visitor"] = Annotated[Visitor, Depends(visitors.identify)]
    _add_route(app, "/page/unqueued", turns.in_turn(unqueued, _caller_key), UnqueuedContent)


def _add_jobs(app: FastAPI, jobs: JobAnswers, visitors: Visitors, turns: AnswerTurns) -> None:
    def page(visitor: Visitor, query: PageQuery, at: At = None) -> Response:
        return Response(jobs.page(visitor, query, at), media_type=JSON)

    def table(visitor: Visitor, query: Matching, at: At = None) -> Response:
        return Response(jobs.table(visitor, query, at), media_type=CSV)

    for each in (page, table):
        each.__annotations__["visitor"] = Annotated[Visitor, Depends(visitors.identify)]
    _add_route(app, JOBS, turns.in_turn(page, _caller_key), JobsContent)
    _add_table(app, f"{JOBS}.csv", turns.in_turn(table, _caller_key))


def _add_over_time(app: FastAPI, pages: Pages, visitors: Visitors, turns: AnswerTurns) -> None:
    def over_time(visitor: Visitor, query: AskedOverTime) -> Response:
        return pages.over_time(visitor, query)

    over_time.__annotations__["visitor"] = Annotated[Visitor, Depends(visitors.identify)]
    _add_route(app, "/page/over-time", turns.in_turn(over_time, _caller_key), OverTime)


def _add_report(app: FastAPI, pages: Pages, visitors: Visitors, turns: AnswerTurns) -> None:
    def report(visitor: Visitor, query: AskedUse) -> Response:
        return pages.report(visitor, query)

    def table(visitor: Visitor, query: AskedUse) -> Response:
        return Response(pages.report_table(visitor, query), media_type=CSV)

    for each in (report, table):
        each.__annotations__["visitor"] = Annotated[Visitor, Depends(visitors.identify)]
    _add_route(app, REPORT, turns.in_turn(report, _caller_key), UseReport)
    _add_table(app, f"{REPORT}.csv", turns.in_turn(table, _caller_key))


def _add_what_if(app: FastAPI, pages: Pages, visitors: Visitors, turns: AnswerTurns) -> None:
    def names(visitor: Visitor) -> Response:
        return pages.names(visitor)

    def what_if(visitor: Visitor, body: Sent) -> WhatIfView:
        return pages.what_if(visitor, body)

    for each in (names, what_if):
        each.__annotations__["visitor"] = Annotated[Visitor, Depends(visitors.identify)]
    _add_route(app, "/page/names", turns.in_turn(names, _caller_key), KnownNames)
    app.post(
        "/page/what-if",
        openapi_extra=request_body({JSON: schema_of(WhatIfQuestion)}),
        responses=problems(*BODY_PROBLEMS, HTTPStatus.REQUEST_TIMEOUT.value, BUSY),
    )(what_if)


def _answer_late(_request: Request, _error: Exception) -> JSONResponse:
    detail = "the body of the request did not come in time"
    return JSONResponse({"detail": detail}, HTTPStatus.REQUEST_TIMEOUT.value)


def _answer_failure(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, exc_info=error)
    detail = f"{type(error).__name__} while answering; see the program's log"
    return JSONResponse({"detail": detail}, HTTPStatus.INTERNAL_SERVER_ERROR.value)
