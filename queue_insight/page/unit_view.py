"""The view of one unit: what it is, why it waits, when it starts, and what was decided about it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.debug_api.explain_answers import explain_unit
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.debug_api.forecast_routes import ForecastView
from queue_insight.debug_api.insight_views import LogEntryView
from queue_insight.page.sources import PageSources
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError

MAX_ENTRIES: Final = 100
"""Decisions about a unit that are shown, the newest."""


class UnitPage(View):
    """One unit; `forecast` is null if it does not wait or there is none yet.

    `log` are the newest decisions about it; null: nothing is recorded.
    """

    leader: bool
    state_at: datetime
    unit: views.UnitView
    explain: ExplainView
    forecast: ForecastView | None
    log: list[LogEntryView] | None


def show_unit(sources: PageSources, namespace: str, name: str, at: datetime | None) -> UnitPage:
    """Return one unit, with everything that is known.

    Raises:
        QuestionError: NOT_FOUND: it is unknown.
        NoStateError: There is no engine of that time.
    """
    state = sources.at(at)
    answers = StateAnswers(state.shared, lambda: state.is_leader, state.now)
    return UnitPage(
        leader=state.is_leader,
        state_at=state.state_at,
        unit=answers.queue_unit(namespace, name),
        explain=explain_unit(answers, namespace, name),
        forecast=None if at is not None else _forecast(sources, namespace, name),
        log=_log(sources, f"{namespace}/{name}", at),
    )


def check_namespace(visitor: Visitor, namespace: str) -> None:
    """Refuse a visitor who may not read a namespace, whether there is such a unit or not.

    Raises:
        QuestionError: PERMISSION_DENIED.
    """
    if not visitor.may_read(namespace):
        refused = f"you may not list the units of namespace {namespace!r}"
        raise QuestionError(Code.PERMISSION_DENIED, refused)


def _forecast(sources: PageSources, namespace: str, name: str) -> ForecastView | None:
    try:
        return sources.forecasts.of_unit(namespace, name)
    except QuestionError:  # it does not wait, or there is none yet
        return None


def _log(sources: PageSources, unit: str, at: datetime | None) -> list[LogEntryView] | None:
    try:
        found = sources.log(unit)
    except NoStateError:
        return None
    items = [each for each in found.items if at is None or each.time <= at]
    return items[:MAX_ENTRIES]
