"""The routes of the insight program: the paths of the scheduler's debug API, asked by it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from fastapi import Depends, FastAPI, Request

from queue_insight.debug_api.answer_turns import AnswerTurns
from queue_insight.debug_api.app import (
    Cursor,
    LogLimit,
    LogQueue,
    LogReason,
    LogUnit,
    Since,
    WithChanges,
)
from queue_insight.debug_api.dump_routes import FINISHED_RUNS
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.debug_api.explanations import ExplainAnswers
from queue_insight.debug_api.forecast_routes import (
    NEW_UNITS,
    Forecasts,
    NewUnitsView,
    add_forecast_routes,
)
from queue_insight.debug_api.insight_views import (
    FinishedRunsView,
    InsightView,
    LogEntryView,
    LogView,
    RecordView,
)
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.question_caller import caller_named_by_scheduler
from queue_insight.debug_api.report_routes import NAMESPACES, RECORDED, ReportApi
from queue_insight.debug_api.report_views import ReportView
from queue_insight.debug_api.what_if_routes import WhatIfAnswers, add_what_if
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_program.horizons import Horizons
from queue_insight.insight_program.sources import Sources
from queue_insight.record.decision_log import LogEntry
from queue_insight.record.log_query import LogQuery
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, At, Limit, Name, Offset
from queue_scheduler.debug_api.reservation_views import ReservationPage
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from shared_api.debug_api.debug_app import build_debug_app
from shared_api.debug_api.json_body import JSON, BodyReader, PostedBody
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.version import VERSION

Sent = Annotated[PostedBody, Depends(BodyReader(JSON))]


class StateApi:
    """Answers how far the program is.

    Args:
        sources: The engines.
        is_connected: Returns whether a scheduler is connected.
        record: Returns what is kept on disk.
        clock: The time.
    """

    def __init__(
        self,
        sources: Sources,
        is_connected: Callable[[], bool],
        record: Callable[[], RecordView],
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._is_connected = is_connected
        self._record = record
        self._clock = clock

    def insight(self) -> InsightView:
        """How far the insight program is."""
        followed = self._sources.followed()
        age = (self._clock.now() - followed.state_at).total_seconds()
        return InsightView(
            connected=self._is_connected(),
            number=followed.number,
            state_at=followed.state_at,
            age_seconds=max(age, 0.0),
            following_since=followed.since,
            leader=followed.is_leader,
            record=self._record(),
        )


class LogApi:
    """What was decided, from the record."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def log(
        self,
        unit: LogUnit = "",
        queue: LogQueue = "",
        reason: LogReason = "",
        since: Since = None,
        cursor: Cursor = None,
        limit: LogLimit = DEFAULT_PAGE,
    ) -> LogView:
        """A page of what was decided, the newest first."""
        query = LogQuery(
            unit=unit,
            queue=queue,
            reason=reason,
            since=None if since is None else since.timestamp(),
            cursor=cursor,
            limit=limit,
        )
        page = self._sources.log(query)
        return LogView(items=[_view_entry(each) for each in page.entries], cursor=page.cursor)


def _view_entry(entry: LogEntry) -> LogEntryView:
    return LogEntryView(
        time=datetime.fromtimestamp(entry.wall, UTC),
        number=entry.number,
        kind=entry.kind.value,
        unit=entry.unit,
        queue=entry.queue,
        quota=entry.quota,
        reason=entry.reason,
        message=entry.message,
        other=entry.other,
        victims=list(entry.victims),
    )


class RunsApi:
    """Answers which runs have ended; the scheduler asks, for `/debug/dump`.

    Args:
        read: Returns the newest runs of the record.
    """

    def __init__(self, read: Callable[[], Sequence[FinishedRun]]) -> None:
        self._read = read

    def finished_runs(self) -> FinishedRunsView:
        """The newest runs that have ended."""
        return FinishedRunsView(runs=[msgspec.to_builtins(run) for run in self._read()])


class TimedApi:
    """The read routes of the debug API, over the engine of any recorded time.

    Args:
        sources: The engines.
        questions: How much computing questions may take, whatever time they are about.
    """

    def __init__(self, sources: Sources, questions: QuestionBudget) -> None:
        self._sources = sources
        self._questions = questions

    def _state(self, at: At) -> StateAnswers:
        source = self._sources.at(at)
        return StateAnswers(source.shared, lambda: source.is_leader, source.now)

    def queues(
        self, offset: Offset = 0, limit: Limit = DEFAULT_PAGE, at: At = None
    ) -> views.QueuePage:
        """All queues, by name."""
        return self._state(at).queues(offset, limit)

    def queue(
        self, name: Name, offset: Offset = 0, limit: Limit = DEFAULT_PAGE, at: At = None
    ) -> views.QueueDetail:
        """One queue and a page of its units."""
        return self._state(at).queue(name, offset, limit)

    def queue_unit(self, namespace: Name, name: Name, at: At = None) -> views.UnitView:
        """One unit."""
        return self._state(at).queue_unit(namespace, name)

    def explain(
        self,
        request: Request,
        namespace: Name,
        name: Name,
        *,
        changes: WithChanges = False,
        at: At = None,
    ) -> ExplainView:
        """Why a unit waits."""
        answers = ExplainAnswers(self._state(at), self._questions)
        if changes:
            return answers.explain_with_changes(namespace, name, caller_named_by_scheduler(request))
        return answers.explain(namespace, name)

    def quotas(self, at: At = None) -> views.QuotaTreePage:
        """All quotas, as trees."""
        return self._state(at).quotas()

    def reservations(
        self, offset: Offset = 0, limit: Limit = DEFAULT_PAGE, at: At = None
    ) -> ReservationPage:
        """All reservations, by name."""
        return self._state(at).reservations(offset, limit)


class NewUnitsApi:
    """Answers when units start that are not submitted yet; the scheduler asks, for `/debug/try`.

    Args:
        state: Returns the state for a question.
        horizons: Computes.
        budget: How much computing the questions may take.
    """

    def __init__(
        self, state: Callable[[], State], horizons: Horizons, budget: QuestionBudget
    ) -> None:
        self._state = state
        self._horizons = horizons
        self._budget = budget

    def answer(self, body: PostedBody, caller: str) -> NewUnitsView:
        """Return when units start that are submitted now; `caller`: whose budget is charged."""
        units = msgspec.json.decode(body.content, type=list[QueueUnit])
        with self._budget.spend(caller):
            return self._horizons.foresee(self._state(), units)

    def forecast_new_units(self, request: Request, body: Sent) -> NewUnitsView:
        """When units start that are submitted now."""
        return self.answer(body, caller_named_by_scheduler(request))


def add_recorded_report(app: FastAPI, api: ReportApi) -> None:
    """Add the routes of reports, which only the scheduler requests."""

    def report(request: Request, body: Sent) -> ReportView:
        return api.report(body, caller_named_by_scheduler(request))

    app.get(NAMESPACES)(api.namespaces)
    app.post(RECORDED)(report)


def build_answer_app(
    sources: Sources,
    state: StateApi,
    forecasts: Forecasts,
    what_if: WhatIfAnswers,
    new_units: NewUnitsApi,
    runs: RunsApi,
    questions: QuestionBudget,
) -> FastAPI:
    """Return the application. The socket answers only processes of the same user.

    Args:
        sources: The engines.
        state: How far the program is.
        forecasts: The last forecast.
        what_if: What edits would change.
        new_units: When units start that are not submitted yet.
        runs: The runs that have ended.
        questions: How much computing other questions may take.
    """
    app = build_debug_app("Koord-Queue insight", VERSION, open_access)
    timed, turns = TimedApi(sources, questions), AnswerTurns(sources.clock)

    def in_turn(answer: Callable[..., object]) -> Callable[..., object]:
        return turns.in_turn(answer, lambda request, _: caller_named_by_scheduler(request))

    get = app.get
    get("/debug/insight")(state.insight)
    get("/debug/log")(LogApi(sources).log)
    get("/debug/queues")(in_turn(timed.queues))
    get("/debug/queues/{name}")(in_turn(timed.queue))
    get("/debug/queueunits/{namespace}/{name}")(in_turn(timed.queue_unit))
    get("/debug/queueunits/{namespace}/{name}/explain")(in_turn(timed.explain))
    get("/debug/quotas")(in_turn(timed.quotas))
    get("/debug/reservations")(in_turn(timed.reservations))
    get(FINISHED_RUNS)(runs.finished_runs)
    add_forecast_routes(app, forecasts, open_access)
    add_what_if(app, what_if.answer, open_access, caller_of=caller_named_by_scheduler)
    app.post(NEW_UNITS)(new_units.forecast_new_units)
    return app
