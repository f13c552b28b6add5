"""Forecasts: renewed in the background, and read by routes.

Requests never compute one: they read the last, with its age. A renewal takes at most a budget of
time, and rests for longer than it took: between its paths while the scheduler decides, since both
may have to share cores, and else when it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from fastapi import FastAPI, Request

from queue_insight.debug_api.budget_forecasts import (
    EVERY,
    EveryBudgetForecast,
    ForeseenBudget,
    Quota,
    ReadableBudget,
    foreseen_budgets,
    moment_text,
    view_budget,
)
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.forecast.all_units import Forecast, Settings, Times, UnitForecast
from queue_insight.forecast.no_forecast import (
    LEAST_RUNS,
    NoForecast,
    Outlook,
    never_as_is,
    not_known_yet,
    why_no_forecast,
)
from queue_insight.forecast.renewals import Renewal, Renewals
from queue_insight.forecast.run_ends import likely_ends
from queue_insight.forecast.run_times import RunTimeModel
from queue_insight.insight.explain import Explanation, Verdict
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.debug_api.hiding import OfUnit, Owner, hide
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, Limit, Name, Offset
from queue_scheduler.decision import Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.refusal_texts import stable_message
from shared_api.debug_api.access import may_read_for
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import View
from shared_api.process.clock import Clock
from shared_api.question_errors import Code, QuestionError
from shared_api.timestamps import rfc3339
from shared_api.unit_problems import reason_to_act

BUDGET_SECONDS: Final = 60.0
"""What a renewal may take: with 1,000 pending all 40 paths are played in it."""
FIRST_PATH_SECONDS: Final = 600.0
"""What a renewal may take until it has one path: where a head waits with backfill nearly all the
time, that takes one to three minutes."""
REST_SHARE: Final = 3.0
"""It rests for so many times as long as it works: it takes a quarter of a core at most."""
REST_PER_CALL_SECONDS: Final = 0.01
"""For each call of the scheduler's engine that came during a path, it rests for so long before the
next one, and for `REST_SHARE` at most. So a forecast is done soon while little happens; a scheduler
at full speed makes a thousand calls a second, and never shares a core for long."""
LEAST_REST_SECONDS: Final = 60.0
"""The least time between two renewals by default: shorter waits need no forecast."""
QUIET_REST_SECONDS: Final = 600.0
"""A state that nothing has changed in is looked ahead from again after this: only time goes on."""
DAY_SECONDS: Final = 86_400.0
LATER_SECONDS: Final = 2.0
"""When to ask again for a state that is not there yet."""

NEW_UNITS: Final = "/debug/forecast"
"""Path of the insight program, for units that are not submitted yet."""


class TimesView(View):
    """When a unit starts, as quantiles, and the median of its end; null: beyond the horizon."""

    start_p10: str | None
    start_p50: str | None
    start_p90: str | None
    end_p50: str | None


NO_TIMES: Final = TimesView(start_p10=None, start_p50=None, start_p90=None, end_p50=None)


class OutlookView(TimesView):
    """When a unit starts, or why no times are told of it.

    `outlook` is `times`, `notKnownYet` (fewer than `needed_runs` runs like it have ended) or
    `neverAsIs` (it waits until a user changes it, its quota or its queue). Of the last two all
    times are null, and `no_times` says why, as the rest of a sentence about the unit.
    """

    without_arrivals: TimesView
    outlook: Outlook
    no_times: str
    similar_runs: int
    needed_runs: int


class NewUnitView(OutlookView):
    """When a unit would start that is not submitted yet; the fields are those of a forecast."""

    sample: int
    seed: int
    computed_at: str


class NewUnitsView(View):
    """Forecasts of units that are not submitted yet, by uid.

    It is empty if not even one future was played in time.
    """

    units: dict[str, NewUnitView]


def without_times(view: NewUnitView, no_forecast: NoForecast) -> NewUnitView:
    """Return a forecast that says why no times are told."""
    return view.model_copy(update=_no_forecast_fields(no_forecast))


def view_new_units(
    found: Forecast, similar_runs: Mapping[str, int], least_runs: int
) -> NewUnitsView:
    """Return forecasts of units that are not submitted yet.

    Args:
        found: The forecast.
        similar_runs: How many runs like theirs have ended, by uid.
        least_runs: From how many on times are told.
    """
    wall = found.moment.wall
    return NewUnitsView(
        units={
            uid: NewUnitView(
                **_view_outlook(unit, wall, wall, not_known_yet(similar_runs[uid], least_runs)),
                similar_runs=similar_runs[uid],
                needed_runs=least_runs,
                sample=found.sample,
                seed=found.seed,
                computed_at=rfc3339(wall),
            )
            for uid, unit in found.units.items()
        }
    )


class ForecastView(OutlookView):
    """When a unit starts.

    `without_arrivals` is the same if nothing arrived any more. `sample` is how many futures were
    played, `computed_at` the time of the state that they begin with; no time is told that has
    passed since. `similar_runs` is how many runs of the same quota, user, kind and request have
    ended by themselves in the last eight days.
    """

    namespace: Annotated[str, Owner()]
    name: str
    queue: str
    sample: int
    seed: int
    computed_at: str
    age_seconds: float


class QueueForecastView(View):
    """A page of the units that wait in a queue, in its order.

    `others` counts those of the page whose namespaces the caller may not read.
    """

    queue: str
    total: int
    offset: int
    limit: int
    units: Annotated[list[ForecastView], OfUnit(counted="others")]
    others: int = 0


class Start(NamedTuple):
    """When a unit starts, for a row of a list.

    Attributes:
        p50: Its median start, RFC 3339, or None if there is no forecast, or it is beyond the
            horizon.
        none: Why no start is told, in a few words; "" if it is, or there is no forecast of it.
    """

    p50: str | None = None
    none: str = ""


class Standing(NamedTuple):
    """Why a unit waits now.

    Attributes:
        queue: Its queue; "" if it is in none.
        refusal: The reason.
    """

    queue: str
    refusal: Refusal


def standing_of(found: Explanation | None) -> Standing | None:
    """Return why a unit waits, or None if it does not, has its turn, or does not exist.

    A reason that needs action counts before others, which may stand before it and end.
    """
    if found is None or found.verdict not in {Verdict.WAITING, Verdict.HELD}:
        return None
    lasting = (each for each in found.blockers if reason_to_act(each.reason.value))
    refusal = next(lasting, next(iter(found.blockers), None))
    return None if refusal is None else Standing(found.record.queue_name, refusal)


def _unknown(_key: str) -> None:
    return None


class ForecastScope(NamedTuple):
    """Which units have forecasts.

    Attributes:
        least_runs: Units of whose kind at least so many runs have ended.
        standing: Returns why a unit (`namespace/name`) waits now, be it in no queue; None: it does
            not. A forecast is minutes old, and a unit may have been corrected since.
        refusal: Returns why a unit of a list was refused last; that costs less, and is not known
            of a unit that has not been considered.
    """

    least_runs: int = LEAST_RUNS
    standing: Callable[[str], Standing | None] = _unknown
    refusal: Callable[[str], Refusal | None] = _unknown


def forecast_scope(
    shared: EngineReader, explanations: Explanations, least_runs: int = LEAST_RUNS
) -> ForecastScope:
    """Return which units of an engine have forecasts; `explanations` are of the same engine."""
    return ForecastScope(
        least_runs,
        lambda key: standing_of(explanations.explain(key)),
        lambda key: shared.ask(refusal_of_unit, key),
    )


class _WaitingUnit(NamedTuple):
    uid: str
    namespace: str
    name: str
    queue: str
    order: OrderKey
    similar_runs: int


class _Last(NamedTuple):
    """The last forecast, with the units that waited then."""

    forecast: Forecast
    by_key: dict[str, _WaitingUnit]
    by_uid: dict[str, _WaitingUnit]
    by_queue: dict[str, list[_WaitingUnit]]
    coverage: dict[str, float]
    coverage_of_day: float | None
    ends: dict[str, float]
    budgets: list[ForeseenBudget]
    runs: int


class Pace(NamedTuple):
    """How often forecasts are renewed.

    Attributes:
        least_rest_seconds: The shortest time between two renewals.
        budget_seconds: For how long a renewal may work.
        first_path_seconds: The same until its first path is played.
        calls: Returns the number of the last call that the scheduler's engine was told.
    """

    least_rest_seconds: float = LEAST_REST_SECONDS
    budget_seconds: float = BUDGET_SECONDS
    first_path_seconds: float = FIRST_PATH_SECONDS
    calls: Callable[[], int] = int


class _Going(msgspec.Struct):
    """A renewal that goes on, for how many seconds it has worked, and rested between paths."""

    renewal: Renewal
    worked: float
    rested: float = 0.0


class Forecasts:
    """Renews forecasts, and answers with the last one.

    `step` is called by one thread, all else by any.

    Args:
        state: Returns the state to look ahead from; None if there is none, or it is not kept up to
            date now.
        clock: The time.
        model: Learns how long runs last.
        settings: How forecasts are made.
        since: From when on arrivals are known.
        pace: How often they are renewed.
        forecast_scope: Which units have forecasts.
    """

    def __init__(
        self,
        state: Callable[[], State | None],
        clock: Clock,
        model: RunTimeModel,
        settings: Settings,
        since: datetime,
        pace: Pace = Pace(),  # noqa: B008 - it cannot be changed
        forecast_scope: ForecastScope = ForecastScope(),  # noqa: B008 - the same
    ) -> None:
        self._state = state
        self._clock = clock
        self._pace, self._scope = pace, forecast_scope
        self._seed = settings.seed
        self._renewals = Renewals(model, settings, since.timestamp())
        self._runs: deque[FinishedRun] = deque()
        # Replaced as a whole, so that readers in other threads need no lock.
        self._last: _Last | None = None
        self._going: _Going | None = None
        self._number = -1
        self._quiet_until = 0.0
        self._is_ended = False

    def end(self) -> None:
        """Make the step that runs return early."""
        self._is_ended = True

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended, in the order of their ends."""
        self._runs.append(run)

    def step(self) -> float:
        """Begin a renewal, or play one path of it; return for how many seconds to rest."""
        going = self._going
        if going is None:
            rest = self._begin()
            going = self._going
            if going is None:
                return rest
        began, calls = self._clock.monotonic(), self._pace.calls()
        sampling, pace = going.renewal.sampling, self._pace
        budget = pace.first_path_seconds if sampling.lacks_path else pace.budget_seconds
        ends = began + budget - going.worked
        has_more = sampling.play_next(lambda: self._is_ended or self._clock.monotonic() >= ends)
        worked = self._clock.monotonic() - began
        going.worked += worked
        if not has_more:
            return self._finish(going)
        rest = min(REST_SHARE * worked, REST_PER_CALL_SECONDS * (self._pace.calls() - calls))
        going.rested += rest
        return rest

    def _begin(self) -> float:
        """Begin a renewal if there is a state to begin with; return for how long to rest else."""
        while self._runs:
            self._renewals.learn(self._runs.popleft())
        began = self._clock.monotonic()
        state = self._state()
        if state is None:
            return LATER_SECONDS
        if state.number == self._number and began < self._quiet_until:
            return self._pace.least_rest_seconds
        self._number = state.number
        self._quiet_until = began + QUIET_REST_SECONDS
        renewal = self._renewals.begin(state.engine, state.moment)
        self._going = _Going(renewal, worked=self._clock.monotonic() - began)
        return 0.0

    def _finish(self, going: _Going) -> float:
        """Show the forecast that has been made, if any; return for how long to rest."""
        self._going = None
        began = self._clock.monotonic()
        if going.renewal.sampling.lacks_path:  # the last one still says more
            return max(self._pace.least_rest_seconds, REST_SHARE * going.worked)
        engine, moment, _, beliefs = going.renewal
        found = self._renewals.end(
            going.renewal,
            lambda record: (
                self._why_no_forecast(refusal_of_unit(engine, record.key), record) is None
            ),
        )
        calibration, epoch = self._renewals.calibration, moment.wall.timestamp()
        by_key, by_queue = _index(engine, found, self._renewals.runs_like)
        ends = likely_ends(
            engine, moment, beliefs, lambda record: self._why_no_forecast(None, record) is None
        )
        of_day = calibration.coverage_between(epoch - DAY_SECONDS, epoch)
        by_uid = {place.uid: place for place in by_key.values()}
        self._last = _Last(
            found,
            by_key,
            by_uid,
            by_queue,
            calibration.coverage(epoch),
            of_day,
            ends,
            foreseen_budgets(engine, found),
            self._renewals.runs,
        )
        worked = going.worked + self._clock.monotonic() - began
        return max(self._pace.least_rest_seconds, REST_SHARE * worked - going.rested)

    def _why_no_forecast(self, refusal: Refusal | None, record: CachedUnit) -> NoForecast | None:
        return why_no_forecast(refusal, self._renewals.runs_like(record), self._scope.least_runs)

    def coverage(self) -> dict[str, float]:
        """Return which share of units started by the p90 that was told, by horizon."""
        last = self._last
        return {} if last is None else last.coverage

    def coverage_of_day(self) -> float | None:
        """Return that share among all whose p90 has passed within a day, or None if few."""
        last = self._last
        return None if last is None else last.coverage_of_day

    def age_seconds(self) -> float | None:
        """Return the age of the last forecast in seconds, or None without one."""
        last = self._last
        return None if last is None else self._age_of(last)

    def start_of(self, uid: str, refusal: Refusal | None) -> Start:
        """Return the start of a unit; `refusal`: why it waits now."""
        last = self._last
        place = None if last is None else last.by_uid.get(uid)
        least = self._scope.least_runs
        no_forecast = why_no_forecast(
            refusal, least if place is None else place.similar_runs, least
        )
        if no_forecast is not None:
            return Start(none=no_forecast.brief)
        if last is None or place is None:
            return Start()
        wall = last.forecast.moment.wall
        return Start(
            moment_text(last.forecast.units[uid].calibrated.start.p50, wall, self._clock.now())
        )

    def end_of(self, uid: str) -> str | None:
        """Return when a running unit ends, RFC 3339: as many of its like run longer as shorter.

        None: it did not run at the last forecast, or too few of its like have ended.
        """
        last = self._last
        left = None if last is None else last.ends.get(uid)
        if last is None or left is None:
            return None
        return moment_text(left, last.forecast.moment.wall, self._clock.now())

    def of_unit(self, namespace: str, name: str) -> ForecastView:
        """Return when a unit starts.

        Raises:
            QuestionError: NOT_FOUND: it did not wait in a queue; UNAVAILABLE: there is no forecast
                yet.
        """
        key = f"{namespace}/{name}"
        standing = self._scope.standing(key)
        blocked = None if standing is None else _blocked(standing)
        if standing is not None and blocked is not None:
            return self._view_blocked(namespace, name, standing, blocked)
        last = self._read()
        place = last.by_key.get(key)
        if place is None:
            msg = f"queue unit {namespace}/{name} did not wait in a queue at the last forecast"
            raise QuestionError(Code.NOT_FOUND, msg)
        return self._view(last, place, None if standing is None else standing.refusal)

    def of_queue(self, name: str, offset: int, limit: int) -> QueueForecastView:
        """Return when the units of a queue start, in its order.

        Raises:
            QuestionError: UNAVAILABLE: there is no forecast yet.
        """
        last = self._read()
        places = last.by_queue.get(name, [])
        return QueueForecastView(
            queue=name,
            total=len(places),
            offset=offset,
            limit=limit,
            units=[
                self._view(last, place, self._scope.refusal(f"{place.namespace}/{place.name}"))
                for place in places[offset : offset + limit]
            ],
        )

    def of_budgets(self, quota: str = "") -> EveryBudgetForecast:
        """Return when budgets are spent: of one quota, or "" for all.

        Raises:
            QuestionError: UNAVAILABLE: there is no forecast yet.
        """
        last, now = self._read(), self._clock.now()
        found = last.forecast
        wall, least = found.moment.wall, self._scope.least_runs
        return EveryBudgetForecast(
            items=[
                ReadableBudget(
                    namespaces=each.namespaces,
                    row=view_budget(each, wall, now, last.runs, least),
                )
                for each in last.budgets
                if quota in {"", each.quota}
            ],
            horizon_seconds=found.seconds,
            sample=found.budget_sample,
            computed_at=rfc3339(wall),
            age_seconds=round(self._age_of(last), 1),
        )

    # --- inside -------------------------------------------------------------------------------

    def _read(self) -> _Last:
        last = self._last
        if last is None:
            msg = "there is no forecast yet; the first one takes up to 4 minutes"
            raise QuestionError(Code.UNAVAILABLE, msg)
        return last

    def _age_of(self, last: _Last) -> float:
        age = (self._clock.now() - last.forecast.moment.wall).total_seconds()
        return max(0.0, age)

    def _view(self, last: _Last, place: _WaitingUnit, refusal: Refusal | None) -> ForecastView:
        found = last.forecast
        wall, least = found.moment.wall, self._scope.least_runs
        no_forecast = why_no_forecast(refusal, place.similar_runs, least)
        return ForecastView(
            **_view_outlook(found.units[place.uid], wall, self._clock.now(), no_forecast),
            namespace=place.namespace,
            name=place.name,
            queue=place.queue,
            similar_runs=place.similar_runs,
            needed_runs=least,
            sample=found.sample,
            seed=found.seed,
            computed_at=rfc3339(wall),
            age_seconds=round(self._age_of(last), 1),
        )

    def _view_blocked(
        self, namespace: str, name: str, standing: Standing, blocked: NoForecast
    ) -> ForecastView:
        """Return that a unit does not start as things are, which no forecast is needed for."""
        place = None if self._last is None else self._last.by_key.get(f"{namespace}/{name}")
        return ForecastView(
            **_no_forecast_fields(blocked),
            namespace=namespace,
            name=name,
            queue=standing.queue,
            similar_runs=0 if place is None else place.similar_runs,
            needed_runs=self._scope.least_runs,
            sample=0,
            seed=self._seed,
            computed_at=rfc3339(self._clock.now()),
            age_seconds=0.0,
        )


def _blocked(standing: Standing) -> NoForecast | None:
    return never_as_is(standing.refusal.reason.value, stable_message(standing.refusal))


def add_forecast_routes(app: FastAPI, forecasts: Forecasts, access: Guard) -> None:
    """Add the routes; the caller has put `access` before all of them."""
    get = app.get

    def unit_forecast(namespace: Name, name: Name) -> ForecastView:
        """When a waiting unit starts and ends, as of the last forecast."""
        return forecasts.of_unit(namespace, name)

    def queue_forecast(
        request: Request, name: Name, offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> QueueForecastView:
        """When the waiting units of a queue start and end, as of the last forecast.

        Units of namespaces that the caller may not read are counted, and not named.
        """
        return hide(forecasts.of_queue(name, offset, limit), may_read_for(access, request))

    def every_budget_forecast(quota: Quota = "") -> EveryBudgetForecast:
        """When budgets are spent, with the namespaces that each is a sum over."""
        return forecasts.of_budgets(quota)

    get("/debug/queueunits/{namespace}/{name}/forecast", responses=problems(404, 503))(
        unit_forecast
    )
    get("/debug/queues/{name}/forecast", responses=problems(503))(queue_forecast)
    get(EVERY, responses=problems(503))(every_budget_forecast)


def _index(
    engine: Engine,
    found: Forecast,
    runs_like: Callable[[CachedUnit], int],
) -> tuple[dict[str, _WaitingUnit], dict[str, list[_WaitingUnit]]]:
    """Return the units that wait, by key, and by queue in its order."""
    by_key: dict[str, _WaitingUnit] = {}
    by_queue: dict[str, list[_WaitingUnit]] = {}
    for place in _waiting_units(engine, found, runs_like):
        by_key[f"{place.namespace}/{place.name}"] = place
        by_queue.setdefault(place.queue, []).append(place)
    for places in by_queue.values():
        places.sort(key=lambda place: place.order)
    return by_key, by_queue


def _waiting_units(
    engine: Engine, found: Forecast, runs_like: Callable[[CachedUnit], int]
) -> Iterator[_WaitingUnit]:
    for record in engine.units:
        info = record.info
        queue = None if info is None else engine.queues.find(info.queue)
        if record.uid in found.units and info is not None:
            meta = record.unit.metadata
            yield _WaitingUnit(
                record.uid,
                meta.namespace,
                meta.name,
                info.queue,
                info.order_key if queue is None else queue.place(info.order_key),
                runs_like(record),
            )


def _view_outlook(
    unit: UnitForecast, wall: datetime, now: datetime, no_forecast: NoForecast | None
) -> dict[str, Any]:
    """Return the fields of `OutlookView` but for the numbers of runs; `wall`: of the forecast."""
    if no_forecast is not None:
        return _no_forecast_fields(no_forecast)
    return {
        **_view_times(unit.calibrated, wall, now),
        "without_arrivals": TimesView(**_view_times(unit.without_arrivals, wall, now)),
        "outlook": Outlook.TIMES,
        "no_times": "",
    }


def _no_forecast_fields(no_forecast: NoForecast) -> dict[str, Any]:
    return {
        **dict(NO_TIMES),
        "without_arrivals": NO_TIMES,
        "outlook": no_forecast.outlook,
        "no_times": no_forecast.text,
    }


def _view_times(times: Times, wall: datetime, now: datetime) -> dict[str, str | None]:
    return {
        "start_p10": moment_text(times.start.p10, wall, now),
        "start_p50": moment_text(times.start.p50, wall, now),
        "start_p90": moment_text(times.start.p90, wall, now),
        "end_p50": moment_text(times.end_p50, wall, now),
    }
