"""The routes of questions: answered from forks, or by the insight program.

They stand beside those of `queue_scheduler.debug_api.app`.

| path | answer |
|---|---|
| /debug/queueunits/{namespace}/{name}/explain | why it waits, or what it was admitted on |
| /debug/queueunits/{namespace}/{name}/explain?changes=true | and what would start it now |
| /debug/queueunits/{namespace}/{name}/forecast | when it starts and ends |
| /debug/queues/{name}/forecast | when the units of a queue start and end |
| /debug/budgets/forecast | when budgets are spent |
| /debug/insight | how far the insight program is |
| /debug/log | what was decided, from the record of the insight program |
| /debug/report | who used how much over a time |
| POST /debug/try | what becomes of a manifest that is submitted now |
| POST /debug/what-if | what edits of objects would change |
| /debug/dump | everything that the engine believes, as a file |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import FastAPI, Query, Request
from pydantic import AwareDatetime
from starlette.routing import Route

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.budget_forecasts import add_budget_forecast_route
from queue_insight.debug_api.dump_routes import add_dump_route
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.debug_api.forecast_routes import (
    NEW_UNITS,
    ForecastView,
    NewUnitsView,
    QueueForecastView,
)
from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.insight_views import InsightView, LogView
from queue_insight.debug_api.question_caller import caller_of
from queue_insight.debug_api.report_routes import add_report_route
from queue_insight.debug_api.try_routes import Foresee, add_try_route
from queue_insight.debug_api.what_if_routes import WhatIfView, add_what_if
from queue_scheduler.debug_api.additions import ViewT
from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, At, Limit, Name, Offset
from shared_api.debug_api.access import may_read_for
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.router_group import Guard
from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.question_errors import Code, QuestionError

MAX_LOG_PAGE: Final = 500
LogUnit = Annotated[str, Query(max_length=2 * SUBDOMAIN_LENGTH, description="namespace/name")]
LogQueue = Annotated[str, Query(max_length=SUBDOMAIN_LENGTH, description="name of a queue")]
LogReason = Annotated[str, Query(max_length=SUBDOMAIN_LENGTH, description="reason of a refusal")]
Since = Annotated[AwareDatetime | None, Query(description="nothing older (RFC 3339)")]
Cursor = Annotated[int | None, Query(ge=0, le=2**62, description="cursor of the page before")]
LogLimit = Annotated[int, Query(ge=1, le=MAX_LOG_PAGE, description="entries at most")]
WithChanges = Annotated[bool, Query(description="also what would start it now")]


class InsightRoutes:
    """The routes of questions, and answers about earlier times, for `debug_api.app.build_app`.

    Args:
        answers: Answers about now.
        link: Asks the insight program; None if it is off.
    """

    def __init__(self, answers: Answers, link: InsightLink | None = None) -> None:
        self._answers = answers
        self._link = link or InsightLink(None)

    def add_routes(self, app: FastAPI, access: Guard) -> None:
        """Add the routes to an application, which calls `access` first."""
        answers, link = self._answers, self._link
        _add_explain(app, answers, link, access)
        add_try_route(app, answers.tries, access, _foresee(link))
        add_what_if(
            app,
            answers.what_if,
            access,
            lambda request, body: link.ask_slow(request, WhatIfView, body),
        )
        add_dump_route(app, answers.dump, link, access)

        @app.get("/debug/insight")
        def insight(request: Request) -> InsightView:
            """How far the insight program is: the time of its state, and what it records."""
            return link.ask(request, InsightView)

        add_report_route(app, answers.state, link, access)
        _add_log(app, link, access)
        _add_forecasts(app, answers, link, access)
        add_budget_forecast_route(app, link, access)

    def answer_past(self, request: Request, kind: type[ViewT]) -> ViewT:
        """Return the insight program's answer to a request about an earlier time.

        Raises:
            QuestionError: As `InsightLink.ask_slow`.
        """
        return self._link.ask_slow(request, kind)


def build_whole_app(
    answers: Answers,
    access: Guard,
    plugin_routes: Iterable[Route],
    version: str,
    link: InsightLink | None = None,
) -> FastAPI:
    """Return the debug API with the routes of questions.

    Args:
        answers: Answers about now.
        access: Judges requests.
        plugin_routes: What plugins add.
        version: The program's.
        link: Asks the insight program; None if it is off.
    """
    routes = InsightRoutes(answers, link)
    return build_app(answers.state, access, plugin_routes, version, [routes])


def _add_explain(app: FastAPI, answers: Answers, link: InsightLink, access: Guard) -> None:
    """Add the route of explanations."""

    @app.get("/debug/queueunits/{namespace}/{name}/explain", responses=problems(404, 429))
    def explain(
        request: Request,
        namespace: Name,
        name: Name,
        *,
        changes: WithChanges = False,
        at: At = None,
    ) -> ExplainView:
        """Why a unit waits: all that keeps it from starting. Of an admitted one, what let it start.

        Units of namespaces that the caller may not read are not named.
        """
        if at is not None:
            view = link.ask_slow(request, ExplainView)
        else:
            view = (
                answers.explain_with_changes(namespace, name, caller_of(request))
                if changes
                else answers.explain(namespace, name)
            )
        return hide(view, may_read_for(access, request))


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
            raise QuestionError(Code.PERMISSION_DENIED, "units of that namespace may not be read")
        return hide(link.ask(request, LogView), may_read)


def _add_forecasts(app: FastAPI, answers: Answers, link: InsightLink, access: Guard) -> None:
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
            answers.state.check_queue(name)
        return hide(view, may_read_for(access, request))
