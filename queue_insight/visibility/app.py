"""The application of the aggregated API; the server has identified and authorized its caller.

| path, below `/apis/visibility.koord-queue/v1alpha1` | answer |
|---|---|
| /pendingunits | the units that wait |
| /namespaces/{namespace}/pendingunits | those of a namespace |
| /namespaces/{namespace}/pendingunits/{name} | one of them |
| .../pendingunits/{name}/explain | why a unit waits, or what it was admitted on |
| .../pendingunits/{name}/forecast | when it starts and ends |
| POST /namespaces/{namespace}/tries | what becomes of a manifest that is submitted now |
| /queues/{name}/pendingunits | the line of one queue |

Answers name no unit of a namespace in which the caller may not list `pendingunits`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from queue_insight.api_registration.api_service import GROUP, VERSION
from queue_insight.debug_api.answers import Answers
from queue_insight.visibility import discovery, openapi
from queue_insight.visibility.caller import CALLER, Judge
from queue_insight.visibility.formats import answer, answer_json, wants_table
from queue_insight.visibility.lists import UnitLists
from queue_insight.visibility.pages import count_by_namespace
from queue_insight.visibility.queries import ListQuery, Term, is_set, read_query
from queue_insight.visibility.resources import (
    PENDING_UNITS,
    QUEUES,
    TRIES,
    ListMetaView,
    ObjectMetaView,
    PendingUnitList,
    Try,
    UnitExplanation,
    UnitForecast,
)
from queue_insight.visibility.snapshots import ListScope
from queue_insight.visibility.sources import VisibilitySources
from queue_insight.visibility.status_answers import NOT_REVIEWED, forbidden_text
from queue_insight.visibility.statuses import (
    ERROR_HANDLERS,
    StatusError,
    answer_failure,
    bad_request,
)
from queue_insight.visibility.tables import (
    COLUMNS,
    EXPLANATION_COLUMNS,
    FORECAST_COLUMNS,
    INCLUDES,
    Columns,
    ShownT,
    build_table,
)
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from shared_api.authorization.caller import Caller
from shared_api.authorization.rights import ResourceRight
from shared_api.caller_shares import user_key
from shared_api.debug_api.access import MayRead, ask_once_per_namespace
from shared_api.debug_api.json_body import JSON, YAML, BodyReader, PostedBody

_BASE: Final = f"/apis/{GROUP}/{VERSION}"
_IN_NAMESPACE: Final = f"{_BASE}/namespaces/{{namespace}}"
_UNIT: Final = f"{_IN_NAMESPACE}/{PENDING_UNITS}/{{name}}"

_PROBES: Final = ("/healthz", "/livez", "/readyz")

_JSON_STARTS: Final = (b"{", b"[")

# kubectl create --raw names no type. No browser gets here without a client certificate.
Sent = Annotated[PostedBody, Depends(BodyReader(JSON, YAML, ""))]


class _Pages:
    """Answers requests about units."""

    def __init__(self, sources: VisibilitySources, judge: Judge) -> None:
        clock = sources.clock
        self._sources = sources
        self._judge = judge
        state = StateAnswers(sources.shared, sources.is_leader, clock.now)
        self._answers = Answers(state, sources.namespace, budget=sources.questions)
        self._lists = UnitLists(sources.shared, clock.now, sources.forecasts.start_of, sources.kept)

    # --- lists --------------------------------------------------------------------------------

    def everywhere(self, request: Request) -> Response:
        """The units that wait."""
        return self._answer_list(request, read_query(parameters_of(request)))

    def in_namespace(self, request: Request) -> Response:
        """The units of a namespace that wait."""
        query = read_query(parameters_of(request))
        term = Term("metadata.namespace", request.path_params["namespace"])
        return self._answer_list(request, query.narrowed(term))

    def in_queue(self, request: Request) -> Response:
        """The line of a queue."""
        name, query = request.path_params["name"], read_query(parameters_of(request))
        self._sources.check_state()
        self._lists.check_queue(name)
        return self._answer_list(request, query.narrowed(Term("spec.queue", name)), line_of=name)

    def _answer_list(self, request: Request, query: ListQuery, line_of: str = "") -> Response:
        """Return a page; `line_of`: the queue whose line it is, with units of any namespace."""
        as_table = wants_table(request)
        self._sources.check_state()
        caller = caller_of(request)
        selector = parameters_of(request).get("fieldSelector", "")
        scope = ListScope(caller.user, request.url.path, selector)
        opened, others = self._lists.open(query, scope), 0
        may_read = self._may_read(caller)
        if line_of:
            readable, others = self._readable(opened.engine, line_of, may_read)
            query = query.within(readable | self._named(caller, query))
        # Of a copy of the engine, and so in no turn: how many are built at once is up to the port,
        # which gives each caller a share.
        page, metadata = self._lists.page(opened, query, scope)
        units = [self._lists.show(each, may_read) for each in page]
        if as_table:
            return self._answer_table(request, COLUMNS, units, metadata)
        return answer(PendingUnitList(metadata=metadata, items=units, others=others))

    def _readable(
        self, engine: Engine, queue: str, may_read: MayRead
    ) -> tuple[frozenset[str], int]:
        """Return the namespaces of a line that may be read, and how many units are in the rest.

        No filter has a part in it: what it leaves of units that may not be read tells their names.
        """
        waiting = count_by_namespace(engine, queue)
        readable = frozenset(each for each in sorted(waiting) if may_read(each))
        return readable, sum(waiting[each] for each in waiting.keys() - readable)

    def _named(self, caller: Caller, query: ListQuery) -> frozenset[str]:
        """Return the namespace that a query names, if it may be read: a line may have many more."""
        named = query.selection.only("metadata.namespace")
        return frozenset([named] if named and self._may_read(caller)(named) else ())

    # --- one unit -----------------------------------------------------------------------------

    def unit(self, request: Request) -> Response:
        """One unit that waits."""
        as_table = wants_table(request)
        self._sources.check_state()
        found = self._lists.unit(request.path_params["namespace"], request.path_params["name"])
        unit = self._lists.show(found, self._may_read(caller_of(request)))
        return self._answer_one(request, COLUMNS, unit, as_table=as_table)

    def explain(self, request: Request) -> Response:
        """Why a unit waits."""
        as_table = wants_table(request)
        self._sources.check_state()
        where = request.path_params
        with_changes = is_set(parameters_of(request), "changes")
        caller, unit = caller_of(request), (where["namespace"], where["name"])
        found = (
            self._answers.explain_with_changes(*unit, user_key(caller.user))
            if with_changes
            else self._answers.explain(*unit)
        )
        found = hide(found, self._may_read(caller))
        view = UnitExplanation(metadata=_meta_of(request), status=found)
        return self._answer_one(request, EXPLANATION_COLUMNS, view, as_table=as_table)

    def forecast(self, request: Request) -> Response:
        """When a unit starts."""
        as_table = wants_table(request)
        self._sources.check_state()
        where = request.path_params
        found = self._sources.forecasts.of_unit(where["namespace"], where["name"])
        view = UnitForecast(metadata=_meta_of(request), status=found)
        return self._answer_one(request, FORECAST_COLUMNS, view, as_table=as_table)

    # --- manifests ----------------------------------------------------------------------------

    def tries(self, request: Request, body: Sent) -> Response:
        """What becomes of a manifest."""
        self._sources.check_state()
        caller, flags = caller_of(request), parameters_of(request)
        is_json = body.content.lstrip().startswith(_JSON_STARTS)
        body = PostedBody(JSON if is_json else YAML, body.content)
        found = self._answers.tries.answer(
            body,
            request.path_params["namespace"],
            lambda right: self._check(caller, right),
            user_key(caller.user),
            with_changes=is_set(flags, "changes"),
            defaulted=is_set(flags, "defaulted"),
            foresee=self._sources.foresee,
        )
        shown = hide(found, self._may_read(caller))
        metadata = ObjectMetaView(namespace=request.path_params["namespace"])
        return answer(Try(metadata=metadata, status=shown), HTTPStatus.CREATED)

    # --- inside -------------------------------------------------------------------------------

    def _may_read(self, caller: Caller) -> MayRead:
        return ask_once_per_namespace(
            lambda namespace: self._judge(caller, _list_in(namespace)).status is HTTPStatus.OK
        )

    def _check(self, caller: Caller, right: ResourceRight) -> None:
        status = self._judge(caller, right).status
        if status is not HTTPStatus.OK:
            is_known = status is HTTPStatus.FORBIDDEN
            text = forbidden_text(caller, right) if is_known else NOT_REVIEWED
            raise StatusError(status, text, resource=TRIES)

    def _answer_one(
        self, request: Request, columns: Columns, view: ShownT, *, as_table: bool
    ) -> Response:
        if not as_table:
            return answer(view)
        return self._answer_table(request, columns, [view], ListMetaView())

    def _answer_table(
        self, request: Request, columns: Columns, shown: Sequence[ShownT], metadata: ListMetaView
    ) -> Response:
        include = parameters_of(request).get("includeObject", INCLUDES[0])
        if include not in INCLUDES:
            raise bad_request(f"includeObject is to be one of {', '.join(INCLUDES)}")
        now = self._sources.clock.now()
        return answer_json(build_table(columns, shown, metadata, now, include))


def build_visibility_app(sources: VisibilitySources, judge: Judge) -> ASGIApp:
    """Return the application.

    The server in front of it puts the identified caller into the state of each request, and lets
    only requests pass whose caller has the right to them.

    Args:
        sources: What it answers from.
        judge: Returns what callers may read beyond their request.
    """
    pages = _Pages(sources, judge)
    routes = [
        *_document_routes(),
        Route(f"{_BASE}/{PENDING_UNITS}", pages.everywhere),
        Route(f"{_IN_NAMESPACE}/{PENDING_UNITS}", pages.in_namespace),
        Route(_UNIT, pages.unit),
        Route(f"{_UNIT}/explain", pages.explain),
        Route(f"{_UNIT}/forecast", pages.forecast),
        Route(f"{_BASE}/{QUEUES}/{{name}}/{PENDING_UNITS}", pages.in_queue),
    ]
    # FastAPI reads the body of a manifest; it has no part in all else.
    app = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        # As the application's own handler it would answer, and raise again.
        middleware=[Middleware(ExceptionMiddleware, handlers={Exception: answer_failure})],
    )
    app.router.routes.extend(routes)
    for kind, handler in ERROR_HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.post(f"{_IN_NAMESPACE}/{TRIES}")(pages.tries)
    return app


def _document_routes() -> list[Route]:
    """Return the routes of what does not depend on the engine."""
    documents: dict[str, Callable[[], Any]] = {
        "/apis": discovery.group_list,
        f"/apis/{GROUP}": discovery.group,
        _BASE: discovery.resource_list,
        "/version": discovery.version,
        "/openapi/v2": openapi.document_v2,
        "/openapi/v3": openapi.index_v3,
        openapi.DOCUMENT_V3: openapi.document_v3,
    }
    paths = sorted([*documents, *_PROBES])
    # The API server answers both forms, and OpenAPI documents have the second one.
    documents |= {f"{path}/": documents[path] for path in documents if path.startswith("/apis")}
    documents["/"] = lambda: {"paths": paths}
    return [
        *(Route(path, _document(build)) for path, build in documents.items()),
        *(Route(path, lambda _: PlainTextResponse("ok")) for path in _PROBES),
    ]


def _document(build: Callable[[], Any]) -> Callable[[Request], Response]:
    @cache
    def content() -> bytes:
        return msgspec.json.encode(build(), order="deterministic")

    return lambda _: Response(content(), media_type=JSON)


def parameters_of(request: Request) -> dict[str, str]:
    """Return the parameters of a request, of each the first value.

    That is the one by which the API server, and the server in front, have judged the request.
    """
    return dict(reversed(request.query_params.multi_items()))


def caller_of(request: Request) -> Caller:
    """Return who asks.

    Raises:
        StatusError: 401: no server has identified it.
    """
    caller = request.scope.get("state", {}).get(CALLER)
    if not isinstance(caller, Caller):
        raise StatusError(HTTPStatus.UNAUTHORIZED, "the caller is not identified")
    return caller


def _list_in(namespace: str) -> ResourceRight:
    return ResourceRight(verb="list", group=GROUP, resource=PENDING_UNITS, namespace=namespace)


def _meta_of(request: Request) -> ObjectMetaView:
    where = request.path_params
    return ObjectMetaView(name=where["name"], namespace=where["namespace"])
