"""The view of one unit: what it is, why it waits, when it starts, and what was decided about it.

For a unit that does not exist any more it is what the record knows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic import Field

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.debug_api.explain_views import ExplainView
from queue_insight.debug_api.explanations import explain_unit
from queue_insight.debug_api.forecast_routes import ForecastView
from queue_insight.debug_api.insight_views import LogEntryView
from queue_insight.page.job import job_of_record
from queue_insight.page.job_list import no_outlook, outlook_of, show_jobs
from queue_insight.page.kept_changes import KeptChanges, KnownChanges
from queue_insight.page.remembered_unit import RememberedUnit, remember
from queue_insight.page.sources import EngineAtTime, PageSources
from queue_insight.page.unit_objects import list_pods, locate_pods
from queue_insight.page.units_ahead import UnitsAhead, find_units_ahead
from queue_insight.page.visitors import Visitor
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError

MAX_ENTRIES: Final = 100
"""Decisions about a unit that are shown, the newest."""
MAX_PODS: Final = 100
"""Pods that are shown with their nodes."""


class PodOnNode(View):
    """A pod of a unit that has not ended; `node` is "" without one."""

    name: str
    node: str


class UnitRun(View):
    """Who submitted a unit, and what is known of how its pods run.

    `user` is "" if its job names none. `started` is when its pods ran, and `ended` when its job
    did. `waited_seconds` is how long it waited until then, `ran_seconds` how long they ran; of a
    unit that still does, until now. `ends` is when a running one ends by the last forecast (the
    median). Null: it is not known, or not yet so.
    """

    user: str
    started: str | None
    ended: str | None
    waited_seconds: int | None
    ran_seconds: int | None
    ends: str | None


class UnitPage(View):
    """One unit; `forecast` is null if it does not wait or there is none yet.

    `unit`, `run` and `explain` are null if there is no such unit: then `remembered` is what the
    record knows of it. `log` are the newest decisions about it; null: nothing is recorded. `ahead`
    are the units before it in its queue. `pod_count` is how many pods have not ended. `pods` are
    these where there is no login: else the API server says who may be told of them. `changes` are
    those that would start it, if they were found in the last minutes.
    """

    leader: bool
    state_at: datetime
    unit: views.UnitView | None
    run: UnitRun | None = None
    explain: ExplainView | None
    forecast: ForecastView | None
    log: list[LogEntryView] | None
    ahead: UnitsAhead | None = None
    pods: list[PodOnNode] = Field(default_factory=list)
    pod_count: int = 0
    changes: KnownChanges | None = None
    remembered: RememberedUnit | None = None


def show_unit(
    sources: PageSources,
    visitor: Visitor,
    key: tuple[str, str],
    at: datetime | None,
    kept: KeptChanges,
) -> UnitPage:
    """Return one unit, with everything that is known.

    Args:
        sources: What is known.
        visitor: Who is shown it.
        key: Its namespace and name.
        at: The time that it is shown of; None: now.
        kept: The changes that were found.

    Raises:
        NoStateError: There is no engine of that time.
    """
    state = sources.at(at)
    namespace, name = key
    log = _log(sources, f"{namespace}/{name}", at)
    facts = Snapshots(state.shared, state.now).unit(f"{namespace}/{name}")
    page = UnitPage(
        leader=state.is_leader,
        state_at=state.state_at,
        unit=None,
        explain=None,
        forecast=None,
        log=log,
    )
    if facts is None:
        remembered = remember(log or (), sources.last_run(f"{namespace}/{name}"), at)
        return page.model_copy(update={"remembered": remembered})
    answers = StateAnswers(state.shared, lambda: state.is_leader, state.now)
    pods = list_pods(state.shared, f"{namespace}/{name}")
    shown_pods = pods[:MAX_PODS] if visitor.session is None else []
    found = {
        "unit": answers.queue_unit(namespace, name),
        "run": _show_run(sources, state, facts.record, at),
        "explain": explain_unit(answers, namespace, name),
        "forecast": None if at is not None else _forecast(sources, namespace, name),
        "ahead": find_units_ahead(state, facts, visitor),
        "pods": [
            PodOnNode(name=pod, node=node) for pod, node in locate_pods(state.shared, shown_pods)
        ],
        "pod_count": len(pods),
        "changes": None if at is not None else kept.find(facts.record.uid),
    }
    return page.model_copy(update=found)


def _show_run(
    sources: PageSources, state: EngineAtTime, record: CachedUnit, at: datetime | None
) -> UnitRun:
    """Return what the list of all jobs has of a unit, apart from what its own view has."""
    key = f"{record.unit.metadata.namespace}/{record.unit.metadata.name}"
    ended = sources.ended_jobs.find(record.uid) if sources.ended_jobs is not None else None
    job = job_of_record(key, record, ended if record.state is UnitState.ENDED else None)
    ahead = outlook_of(state.shared, sources.forecasts) if at is None else no_outlook
    (row,) = show_jobs([job], ahead, state.now().timestamp())
    return UnitRun(
        user=row.user,
        started=row.started,
        ended=row.ended,
        waited_seconds=row.waited_seconds,
        ran_seconds=row.ran_seconds,
        ends=row.ends,
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
