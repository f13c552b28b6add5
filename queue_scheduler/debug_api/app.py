"""The routes of the debug API: from snapshots and forks, and nothing here is a coroutine.

| path | answer |
|---|---|
| / | all paths |
| /debug/queues | all queues: policy, quotas, counts, head, last refusal |
| /debug/queues/{name} | one queue, its units in order and those on hold, why each waits |
| /debug/queueunits/{namespace}/{name} | one unit |
| /debug/queueunits/{namespace}/{name}/explain | why it waits, or what it was admitted on |
| /debug/queueunits/{namespace}/{name}/explain?changes=true | and what would start it now |
| /debug/queueunits/{namespace}/{name}/forecast | when it starts and ends |
| /debug/queues/{name}/forecast | when the units of a queue start and end |
| /debug/insight | how far the insight program is |
| /debug/log | what was decided, from the record of the insight program |
| POST /debug/try | what becomes of a manifest that is submitted now |
| POST /debug/what-if | what edits of objects would change |
| /debug/dump | everything that the engine believes, as a file |
| /debug/quotas | the quota trees: min, max, runtime, used, charged, demand |
| /apis/v1/queue, /apis/v1/userquota | upstream's paths, with content |
| /debug/plugins/{plugin}/... | routes that plugins add |
| /openapi.json | the contract of all but the plugins' |
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from itertools import islice
from typing import Annotated, Concatenate, Final, ParamSpec, TypeVar

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from pydantic import AwareDatetime
from starlette.routing import Route

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api import forecast_routes, views
from queue_scheduler.debug_api.dump_routes import Dumps, add_dump_route
from queue_scheduler.debug_api.engine_state import State
from queue_scheduler.debug_api.forecast_routes import (
    NEW_UNITS,
    ForecastView,
    NewUnitsView,
    QueueForecastView,
)
from queue_scheduler.debug_api.insight_link import InsightLink
from queue_scheduler.debug_api.insight_views import InsightView, LogView, log_without_others
from queue_scheduler.debug_api.question_budget import QuestionBudget
from queue_scheduler.debug_api.question_caller import caller_of
from queue_scheduler.debug_api.queue_views import QueueViews
from queue_scheduler.debug_api.snapshots import QueuePage, QuotaReaders, Snapshots
from queue_scheduler.debug_api.try_routes import Foresee, TryRoutes, add_try_route
from queue_scheduler.debug_api.what_if_routes import (
    WhatIfAnswers,
    WhatIfQuestion,
    WhatIfView,
    add_what_if,
)
from queue_scheduler.decision import Moment
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.insight.explain import Verdict
from queue_scheduler.insight.finished_run import FinishedRun
from shared_api.debug_api.access import may_read_for
from shared_api.debug_api.debug_app import build_debug_app, problems
from shared_api.debug_api.router_group import Guard
from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.process.clock import SystemClock

MAX_PAGE: Final = 1000
MAX_LOG_PAGE: Final = 500
DEFAULT_PAGE: Final = 100
UPSTREAM_QUEUES: Final = "/apis/v1/queue"

MAX_OFFSET: Final = 10_000_000
"""A hundred times the units that the scheduler is measured with; what counts them has an end."""
Name = Annotated[str, Path(max_length=SUBDOMAIN_LENGTH)]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="entries to leave out")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="entries at most")]
At = Annotated[
    AwareDatetime | None,
    Query(description="as it was then (RFC 3339); needs the insight program and its record"),
]
LogUnit = Annotated[str, Query(max_length=2 * SUBDOMAIN_LENGTH, description="namespace/name")]
LogQueue = Annotated[str, Query(max_length=SUBDOMAIN_LENGTH, description="name of a queue")]
LogReason = Annotated[str, Query(max_length=SUBDOMAIN_LENGTH, description="reason of a refusal")]
Since = Annotated[AwareDatetime | None, Query(description="nothing older (RFC 3339)")]
Cursor = Annotated[int | None, Query(ge=0, le=2**62, description="cursor of the page before")]
LogLimit = Annotated[int, Query(ge=1, le=MAX_LOG_PAGE, description="entries at most")]
WithChanges = Annotated[bool, Query(description="also what would start it now")]

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")


def bare_namespace(name: str) -> Namespace:
    """Return a namespace without labels and annotations, for an API that knows none."""
    return Namespace(metadata=ObjectMeta(name=name))


def _in_turn(
    build: Callable[Concatenate[DebugApi, P], AnswerT],
) -> Callable[Concatenate[DebugApi, P], AnswerT]:
    """Return a route's function that builds its answer while no other is built."""

    @wraps(build)
    def answer(api: DebugApi, /, *args: P.args, **kwargs: P.kwargs) -> AnswerT:
        with api.turn:
            return build(api, *args, **kwargs)

    return answer


class DebugApi:
    """Builds the answers of the routes, one at a time.

    Many requests at once would all wait for the engine's lock, and delay decisions by seconds. They
    would not end earlier either, since Python runs one thread at a time.

    Args:
        shared: The engine.
        quotas: Reads the engine's quotas.
        is_leader: Returns whether this replica decides.
        now: Returns the time, for how long units have run; None: the system clock's.
        namespace: Returns a namespace; None: there is none of this name.
        settings: With what the program was started, for dumps.
    """

    def __init__(
        self,
        shared: SharedEngine,
        quotas: QuotaReaders,
        is_leader: Callable[[], bool],
        now: Callable[[], datetime] | None = None,
        namespace: Callable[[str], Namespace | None] = bare_namespace,
        settings: EngineSettings | None = None,
    ) -> None:
        self._shared = shared
        now = now or SystemClock().now
        self._snapshots = Snapshots(shared, quotas, now)
        self.tries = TryRoutes(shared.fork, now, is_leader, namespace, SystemClock())
        self.queue_views = QueueViews()
        self._quotas = quotas
        self._is_leader = is_leader
        clock = SystemClock()
        self._changes_budget = QuestionBudget(clock)

        def state() -> State:
            return State(shared.fork(), Moment(clock.monotonic(), now()))

        self._what_if = WhatIfAnswers(state, is_leader, QuestionBudget(clock))
        self._dumps = Dumps(state, is_leader, settings or EngineSettings())
        # Guards no field: it keeps many requests from the engine's lock. The holder waits for that
        # lock only.
        self.turn = threading.Lock()

    @_in_turn
    def queues(self, offset: Offset = 0, limit: Limit = DEFAULT_PAGE) -> views.QueuePage:
        """All queues, by name."""
        names = self._snapshots.queue_names()
        self.queue_views.keep_only(names)
        facts = self._snapshots.queues(names[offset : offset + limit])
        return views.QueuePage(
            leader=self._is_leader(),
            total=len(names),
            offset=offset,
            limit=limit,
            items=[self.queue_views.view(queue) for queue in facts],
        )

    @_in_turn
    def queue(
        self, name: Name, offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> views.QueueDetail:
        """One queue and a page of its units: pending ones in order, then those on hold."""
        found = next(iter(self._snapshots.queues([name])), None)
        queue = _found(found, f"queue {name!r} is unknown")
        page = self._snapshots.page(name, offset, limit)
        first, last = (max(0, bound - page.length) for bound in (offset, offset + limit))
        held = islice(self._snapshots.held(queue), first, last)
        return views.QueueDetail(
            leader=self._is_leader(),
            queue=views.view_queue(queue),
            offset=offset,
            limit=limit,
            units=[views.view_unit(unit) for unit in (*page.units, *held)],
        )

    @_in_turn
    def check_queue(self, name: str) -> None:
        """Check that there is a queue.

        Raises:
            HTTPException: 404: there is none.
        """
        _found(next(iter(self._snapshots.queues([name])), None), f"queue {name!r} is unknown")

    @_in_turn
    def queue_unit(self, namespace: Name, name: Name) -> views.UnitView:
        """One unit, with its position, why it waits, and the units that it would preempt."""
        key = f"{namespace}/{name}"
        unit = _found(self._snapshots.unit(key), f"queue unit {key} is unknown")
        waits = unit.refusal is not None and unit.position > 0
        would = None
        if waits:
            unit, would = self._snapshots.refresh(unit)
        return views.view_unit(unit, would)

    @_in_turn
    def explain(self, namespace: Name, name: Name) -> views.ExplainView:
        """Why a unit waits; of an admitted one, what it was admitted on and what could evict it."""
        key = f"{namespace}/{name}"
        found = _found(self._snapshots.explain(key), f"queue unit {key} is unknown")
        is_admitted = found.verdict is Verdict.ADMITTED
        admitted = self._snapshots.admitted(key) if is_admitted else None
        return views.view_explanation(found, admitted, leader=self._is_leader())

    def explain_with_changes(self, namespace: str, name: str, caller: str) -> views.ExplainView:
        """Why a unit waits, and the smallest changes that would start it now.

        Not in turn with others: it takes longer, and has a budget of its own, of which each caller
        (`question_caller.caller_of`) has a share.
        """
        view = self.explain(namespace, name)
        with self._changes_budget.spend(caller):
            changes = self._snapshots.changes(f"{namespace}/{name}")
        return views.with_changes(view, changes)

    def what_if(self, question: WhatIfQuestion, caller: str) -> WhatIfView:
        """What edits would change now. Not in turn with others, as it has a budget of its own."""
        return self._what_if.answer(question, caller)

    @_in_turn
    def dump(self, runs: tuple[FinishedRun, ...] = (), *, compress: bool = False) -> bytes:
        """Everything that the engine believes, as a file."""
        return self._dumps.take(runs, compress=compress)

    @_in_turn
    def quotas(self) -> views.QuotaTreePage:
        """All quotas, as trees."""
        quotas = self._quotas.views(self._shared.fork())
        return views.view_quota_tree(quotas, leader=self._is_leader())

    @_in_turn
    def waiting_pages(self, offset: int, limit: int) -> dict[str, QueuePage]:
        """Return a page of the pending units of each queue."""
        names = self._snapshots.queue_names()
        return {name: self._snapshots.page(name, offset, limit) for name in names}

    @_in_turn
    def upstream_quotas(self) -> views.UpstreamQuotas:
        """Use per queue and quota, under upstream's path."""
        engine = self._shared.fork()
        return views.view_upstream_quotas(engine, self._quotas.views(engine))


def build_app(
    api: DebugApi,
    access: Guard,
    plugin_routes: Iterable[Route],
    version: str,
    link: InsightLink | None = None,
) -> FastAPI:
    """Return the application; every route asks `access` first, `/openapi.json` too.

    Args:
        api: Answers about now.
        access: Judges requests.
        plugin_routes: What plugins add.
        version: The program's.
        link: Asks the insight program; None: it is off.
    """
    app = build_debug_app("Koord-Queue debug API", version, access)
    link = link or InsightLink(None)
    _add_pages(app, api, link, access)
    _add_upstream_pages(app, api, access)
    _add_units(app, api, link, access)
    add_try_route(app, api.tries, access, _foresee(link))
    add_what_if(
        app, api.what_if, access, lambda request, body: link.ask_slow(request, WhatIfView, body)
    )
    add_dump_route(app, api.dump, link, access)

    @app.get("/debug/insight")
    def insight(request: Request) -> InsightView:
        """How far the insight program is: the time of its state, and what it records."""
        return link.ask(request, InsightView)

    _add_log(app, link, access)
    _add_forecasts(app, api, link, access)
    app.router.routes.extend(plugin_routes)
    return app


def _foresee(link: InsightLink) -> Foresee:
    return lambda body, caller: link.ask_at(NEW_UNITS, NewUnitsView, body, caller)


def _add_log(app: FastAPI, link: InsightLink, access: Guard) -> None:
    """Add the route of what was decided."""

    @app.get("/debug/log", responses=problems(403))
    def decisions(
        request: Request,
        unit: LogUnit = "",
        queue: LogQueue = "",
        reason: LogReason = "",
        since: Since = None,
        cursor: Cursor = None,
        limit: LogLimit = DEFAULT_PAGE,
    ) -> LogView:
        """What was decided, the newest first: admissions, evictions, refusals for a new reason.

        Units of namespaces that the caller may not read are not named, nor may it ask for one.
        """
        del queue, reason, since, cursor, limit  # read by the insight program
        may_read = may_read_for(access, request)
        if unit and not may_read(unit.partition("/")[0]):
            raise HTTPException(403, "units of that namespace may not be read")
        return log_without_others(link.ask(request, LogView), may_read)


def _add_forecasts(app: FastAPI, api: DebugApi, link: InsightLink, access: Guard) -> None:
    """Add the routes of forecasts, which the insight program makes."""

    @app.get("/debug/queueunits/{namespace}/{name}/forecast", responses=problems(404, 503))
    def unit_forecast(request: Request, namespace: Name, name: Name) -> ForecastView:
        """When a waiting unit starts and ends, as of the last forecast of the insight program."""
        del namespace, name  # read by the insight program
        return link.ask(request, ForecastView)

    @app.get("/debug/queues/{name}/forecast", responses=problems(404, 503))
    def queue_forecast(
        request: Request, name: Name, offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> QueueForecastView:
        """When the waiting units of a queue start and end, as of the last forecast.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        del offset, limit  # read by the insight program
        view = link.ask(request, QueueForecastView)
        if not view.total:
            # The last forecast does not say whether a queue is empty, or not there.
            api.check_queue(name)
        return forecast_routes.without_others(view, may_read_for(access, request))


def _add_pages(app: FastAPI, api: DebugApi, link: InsightLink, access: Guard) -> None:
    """Add the routes of queues and quotas."""

    @app.get("/debug/queues", response_model=views.QueuePage, responses=problems(429))
    def queues(
        request: Request, offset: Offset = 0, limit: Limit = DEFAULT_PAGE, at: At = None
    ) -> Response:
        """All queues, by name.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        view = api.queues(offset, limit) if at is None else link.ask_slow(request, views.QueuePage)
        shown = views.page_without_others(view, may_read_for(access, request))
        return Response(api.queue_views.encode(shown), media_type="application/json")

    @app.get("/debug/queues/{name}", responses=problems(404, 429))
    def queue(
        request: Request,
        name: Name,
        offset: Offset = 0,
        limit: Limit = DEFAULT_PAGE,
        at: At = None,
    ) -> views.QueueDetail:
        """One queue and a page of its units: pending ones in order, then those on hold.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        if at is not None:
            view = link.ask_slow(request, views.QueueDetail)
        else:
            view = api.queue(name, offset, limit)
        return views.detail_without_others(view, may_read_for(access, request))

    @app.get("/debug/quotas", responses=problems(429))
    def quotas(request: Request, at: At = None) -> views.QuotaTreePage:
        """All quotas, as trees."""
        return api.quotas() if at is None else link.ask_slow(request, views.QuotaTreePage)


def _add_upstream_pages(app: FastAPI, api: DebugApi, access: Guard) -> None:
    """Add the routes under upstream's paths."""

    @app.get(UPSTREAM_QUEUES, response_model=views.UpstreamQueues)
    def upstream_queues(
        request: Request, offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> Response:
        """Queues and a page of the pending units of each, under upstream's path.

        If a queue has more units, the header `Link` names the next page (`rel="next"`). Units of
        namespaces that the caller may not read are left out.
        """
        pages, may_read = api.waiting_pages(offset, limit), may_read_for(access, request)
        # As text at once: as models, all waiting units together take a kilobyte each.
        members = [
            views.encode_upstream_queue(
                name, [each for each in page.units if may_read(each.unit.metadata.namespace)]
            )
            for name, page in pages.items()
        ]
        link = f"{UPSTREAM_QUEUES}?offset={offset + limit}&limit={limit}"
        has_more = any(page.has_more for page in pages.values())
        headers = {"Link": f'<{link}>; rel="next"'} if has_more else None
        body = b"{" + b",".join(members) + b"}"
        return Response(body, headers=headers, media_type="application/json")

    app.get("/apis/v1/userquota")(api.upstream_quotas)


def _add_units(app: FastAPI, api: DebugApi, link: InsightLink, access: Guard) -> None:
    """Add the routes of single units."""

    @app.get("/debug/queueunits/{namespace}/{name}", responses=problems(404, 429))
    def queue_unit(request: Request, namespace: Name, name: Name, at: At = None) -> views.UnitView:
        """One unit, with its position, why it waits, and the units that it would preempt.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        # The API server is asked without the turn, so that other requests do not wait for it.
        view = (
            api.queue_unit(namespace, name)
            if at is None
            else link.ask_slow(request, views.UnitView)
        )
        return views.without_others(view, may_read_for(access, request))

    @app.get("/debug/queueunits/{namespace}/{name}/explain", responses=problems(404, 429))
    def explain(
        request: Request,
        namespace: Name,
        name: Name,
        *,
        changes: WithChanges = False,
        at: At = None,
    ) -> views.ExplainView:
        """Why a unit waits: all that keeps it from starting. Of an admitted one, what let it start.

        Units of namespaces that the caller may not read are not named.
        """
        if at is not None:
            view = link.ask_slow(request, views.ExplainView)
        else:
            view = (
                api.explain_with_changes(namespace, name, caller_of(request))
                if changes
                else api.explain(namespace, name)
            )
        return views.explain_without_others(view, may_read_for(access, request))


def _found(answer: AnswerT | None, message: str) -> AnswerT:
    if answer is None:
        raise HTTPException(404, message)
    return answer
