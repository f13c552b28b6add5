"""Puts the insight program together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.forecast_routes import Forecasts, Pace, forecast_scope
from queue_insight.debug_api.insight_views import RecordView
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.report_routes import ReportApi, Reports
from queue_insight.debug_api.what_if_routes import WhatIfAnswers
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.learned import MAX_KEPT
from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_feed.messages import ANSWERS_SOCKET, FEED_SOCKET
from queue_insight.insight_program.admission_rates import AdmissionRates
from queue_insight.insight_program.answer_app import (
    LogApi,
    NewUnitsApi,
    RunsApi,
    StateApi,
    add_recorded_report,
    build_answer_app,
)
from queue_insight.insight_program.answer_server import AnswerServer
from queue_insight.insight_program.feed_server import FeedServer
from queue_insight.insight_program.fitting_watch import FittingWatch
from queue_insight.insight_program.flags import InsightFlags, PageFlags, VisibilityFlags
from queue_insight.insight_program.follow_metrics import FollowMetrics
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.forecast_metrics import ForecastMetrics
from queue_insight.insight_program.forecasting import RunWatcher, fork_state
from queue_insight.insight_program.horizons import PATIENCE_SECONDS, SHARE, Horizons
from queue_insight.insight_program.recording import (
    FILE,
    EngineRecorder,
    RecordedPast,
    read_last_run,
    read_runs,
)
from queue_insight.insight_program.sources import Sources, WithoutPast
from queue_insight.insight_program.use_recording import UseRecorder
from queue_insight.record.use_meter import UseMeter
from shared_api.local_program import Check, LocalProgram
from shared_api.objects.namespace import Namespace
from shared_api.process.local_socket import PathTooLongError, listen_at
from shared_api.process.loop_thread import LoopThread, stop_all
from shared_api.program_flags import FlagError

if TYPE_CHECKING:
    from queue_insight.page.ended_jobs import EndedJobs
    from queue_insight.page.page_server import PageServer
    from queue_insight.visibility.caller import Judge
    from queue_insight.visibility.server import VisibilityServer
    from queue_insight.visibility.snapshots import KeptSnapshots

SWITCH_SECONDS: Final = 0.0001
"""Interval of Python's thread switches: a tenth of that of the other programs. Threads here compute
answers for seconds, and each time a thread of a port has read or sent something it waits so long
for the interpreter, a dozen times for a new connection with TLS."""
LEARNED_DAYS: Final = 30
"""How far back runs of the record are learned: as long as it keeps them."""
MOST_RUNS: Final = 10_000
"""Runs in a dump, the newest: some 4 MB."""


def _follow(flags: InsightFlags) -> tuple[FollowedEngine, UseRecorder | None]:
    """Return the engine that follows, and what keeps use, where there is a record."""
    if flags.record_folder is None:
        return FollowedEngine(), None
    meter = UseMeter()
    engine = FollowedEngine(meter)
    return engine, UseRecorder(engine, meter)


class Insight:
    """The work of koord-queue-insight.

    Raises:
        FlagError: The sockets cannot be made in their folder, or the model of run times that a
            package offers cannot be loaded.
    """

    def __init__(self, program: LocalProgram, flags: InsightFlags) -> None:
        self._program = program
        self._clock = program.clock
        self._metrics = FollowMetrics(program.metrics.registry)
        self._engine, self._use = _follow(flags)
        self._admissions = AdmissionRates(self._clock)
        self._recorder: EngineRecorder | None = None
        recorded = self._open_record(flags)
        self._read_samples = None if recorded is None else recorded.samples
        self._record_folder = flags.record_folder
        runs = self._read_runs(flags.record_folder, MAX_KEPT)
        since = datetime.fromtimestamp(runs[0].ended, UTC) if runs else program.clock.now()
        self._forecasts = self._build_forecasts(since, flags)
        self._horizons = Horizons(
            load_run_time_model()(), since, program.clock, least_runs=flags.least_runs
        )
        for run in runs:
            self._forecasts.learn(run)
            self._horizons.learn(run)
        self._sources = Sources(self._engine, recorded or WithoutPast(), program.clock)
        # Of all ports together: what is asked on one of them bounds the memory as well.
        budget = QuestionBudget(program.clock, SHARE, PATIENCE_SECONDS)
        self._questions = QuestionBudget(program.clock)
        self._reports = Reports(recorded, self._is_leader, program.clock, self._questions)
        self._what_if = WhatIfAnswers(self._state, self._is_leader, budget, self._horizons)
        self._new_units = NewUnitsApi(self._state, self._horizons, budget)
        self._ended_jobs = self._keep_ended_jobs(runs, since) if flags.page else None
        self._feed, self._answers = self._open_sockets(flags.socket_folder)
        self._metrics.connected.set_function(lambda: float(self._feed.is_connected))
        self._metrics.age.set_function(self._state_age_seconds)
        self._feed_thread = program.spawn("feed", self._feed.step)
        self._answer_thread = program.spawn(
            "answers", self._answers.step, unblock=self._end_answers
        )
        self._forecast_thread = program.spawn(
            "forecasts", self._forecasts.step, unblock=self._forecasts.end
        )
        count_errors = program.metrics.work_queues.count_errors("fitting")
        fitting = FittingWatch(self._state_that_decides, program.clock, count_errors)
        self._metrics.show_fitting(count=fitting.count, seconds=fitting.longest_seconds)
        self._fitting_thread = program.spawn("fitting", fitting.step)
        self._api_connections = ExitStack()
        self._visibility = self._open_visibility(flags.visibility)
        self._page, self._page_threads = self._open_page(flags.page)
        self._record_threads = [program.spawn("record", each.step) for each in self._recorders()]

    def _open_record(self, flags: InsightFlags) -> RecordedPast | None:
        """Make what records; return what reads the record, or None without one."""
        if flags.record_folder is None:
            return None
        path, limit, now = flags.record_folder / FILE, flags.record_bytes, self._clock.now
        recorder = self._recorder = EngineRecorder(self._engine, path, now, limit, self._use)
        self._metrics.show_record(
            age=recorder.age_seconds,
            failures=lambda: float(recorder.failures),
            stopped=lambda: float(recorder.is_stopped),
            size=recorder.size_bytes,
            limit_bytes=limit,
        )
        return RecordedPast(
            path, lambda: recorder.until, lambda: recorder.is_opening, self._is_leader
        )

    def _read_runs(self, record_folder: Path | None, most: int) -> list[FinishedRun]:
        if record_folder is None:
            return []
        since = self._clock.now() - timedelta(days=LEARNED_DAYS)
        return read_runs(record_folder / FILE, since, most)

    def _last_run(self, unit: str) -> FinishedRun | None:
        folder = self._record_folder
        return None if folder is None else read_last_run(folder / FILE, unit)

    def _build_forecasts(self, since: datetime, flags: InsightFlags) -> Forecasts:
        model = load_run_time_model()()
        forecasts = Forecasts(
            self._state_to_renew,
            self._clock,
            model,
            Settings(budgets=True),
            since,
            Pace(flags.forecast_seconds, calls=self._last_call),
            forecast_scope(
                self._engine,
                Explanations(self._engine, self._clock.now),
                flags.least_runs,
            ),
        )
        self._program.metrics.registry.register(
            ForecastMetrics(forecasts.coverage, forecasts.coverage_of_day, forecasts.age_seconds)
        )
        return forecasts

    def _open_sockets(self, folder: Path) -> tuple[FeedServer, AnswerServer]:
        try:
            feed = listen_at(folder / FEED_SOCKET)
            answers = listen_at(folder / ANSWERS_SOCKET)
        except (OSError, PathTooLongError) as error:
            msg = f"--socket-dir {folder}: no socket can be made there: {error}"
            raise FlagError(msg) from error
        return (
            FeedServer(
                feed,
                self._engine,
                (*self._recorders(), *self._use_recorders(), self._run_watcher(), self._admissions),
                self._metrics,
                self._program.metrics.work_queues.count_errors("feed"),
            ),
            AnswerServer(answers, self._build_app),
        )

    def _recorders(self) -> tuple[EngineRecorder, ...]:
        return () if self._recorder is None else (self._recorder,)

    def _use_recorders(self) -> tuple[UseRecorder, ...]:
        return () if self._use is None else (self._use,)

    def _run_watcher(self) -> RunWatcher:
        keepers = (recorder.add_run for recorder in self._recorders())
        metered = (recorder.add_run for recorder in self._use_recorders())
        learners = (self._forecasts.learn, self._horizons.learn)
        shown = () if self._ended_jobs is None else (self._ended_jobs.add,)
        return RunWatcher(self._engine, (*learners, *keepers, *metered, *shown))

    def _keep_ended_jobs(self, runs: Sequence[FinishedRun], since: datetime) -> EndedJobs:
        from queue_insight.page.ended_jobs import EndedJobs  # noqa: PLC0415 - only with a page

        ended = EndedJobs(since.timestamp())
        for run in runs:
            ended.add(run)
        return ended

    def _build_app(self) -> ASGIApp:
        state = StateApi(
            self._sources, lambda: self._feed.is_connected, self._record_state, self._clock
        )
        runs = RunsApi(lambda: self._read_runs(self._record_folder, MOST_RUNS))
        app = build_answer_app(
            self._sources,
            state,
            self._forecasts,
            self._what_if,
            self._new_units,
            runs,
            self._questions,
        )
        add_recorded_report(app, ReportApi(self._reports))
        return app

    def _open_visibility(self, flags: VisibilityFlags | None) -> VisibilityServer | None:
        if flags is None:
            return None
        # The official client and the makers of certificates take 40 MB: only where they are used.
        from queue_insight.insight_program.visibility_serving import (  # noqa: PLC0415 - as said
            open_visibility,
        )

        return open_visibility(
            self._program,
            flags,
            lambda: self._engine.followed is not None,
            self._build_visibility_app,
            self._api_connections,
        )

    def _open_page(self, flags: PageFlags | None) -> tuple[PageServer | None, list[LoopThread]]:
        """Return the server of the page and its thread, not yet started."""
        if flags is None:
            return None, []
        # The official client takes 40 MB, and the web framework 15: only where they are used.
        from queue_insight.insight_program.page_serving import (  # noqa: PLC0415 - as said
            open_page,
        )
        from queue_insight.page.sources import PageSources  # noqa: PLC0415 - as above

        state = StateApi(
            self._sources, lambda: self._feed.is_connected, self._record_state, self._clock
        )
        log = LogApi(self._sources)
        sources = PageSources(
            at=self._sources.at,
            number=self._last_call,
            insight=state.insight,
            log=lambda unit: log.log(unit=unit),
            forecasts=self._forecasts,
            what_if=self._what_if.answer,
            admissions_per_hour=self._admissions.per_hour,
            clock=self._clock,
            questions=self._questions,
            samples=self._read_samples,
            dashboards=flags.dashboards,
            ended_jobs=self._ended_jobs,
            last_run=self._last_run,
            reports=self._reports,
        )
        page = open_page(self._program, flags, sources, self._api_connections)
        return page, [self._program.spawn("page", page.step, unblock=page.end)]

    def _build_visibility_app(
        self, judge: Judge, namespace: Callable[[str], Namespace | None], kept: KeptSnapshots
    ) -> ASGIApp:
        from queue_insight.visibility.app import build_visibility_app  # noqa: PLC0415 - as above
        from queue_insight.visibility.sources import VisibilitySources  # noqa: PLC0415 - as above

        sources = VisibilitySources(
            shared=self._engine,
            check_state=self._sources.followed,
            is_leader=self._is_leader,
            clock=self._clock,
            forecasts=self._forecasts,
            kept=kept,
            foresee=self._new_units.answer,
            namespace=namespace,
            questions=self._questions,
        )
        return build_visibility_app(sources, judge)

    def _state(self) -> State:
        """Return the state for a question.

        Raises:
            NoStateError: There is none yet.
        """
        self._sources.followed()
        state = fork_state(self._engine, self._clock)
        assert state is not None, "it follows an engine"
        return state

    def _state_to_renew(self) -> State | None:
        """Return the state for a forecast; None while no scheduler tells what changes."""
        return fork_state(self._engine, self._clock) if self._feed.is_connected else None

    def _state_that_decides(self) -> State | None:
        """Return the same of a replica that leads; the others admit no units."""
        return self._state_to_renew() if self._is_leader() else None

    def _last_call(self) -> int:
        followed = self._engine.followed
        return 0 if followed is None else followed.number

    def _end_answers(self) -> None:
        self._horizons.end()
        self._answers.end()

    def _record_state(self) -> RecordView:
        return RecordView(state="off") if self._recorder is None else self._recorder.view()

    def _is_leader(self) -> bool:
        followed = self._engine.followed
        return followed is not None and followed.is_leader

    def _state_age_seconds(self) -> float:
        followed = self._engine.followed
        if followed is None:
            return math.nan
        return (self._clock.now() - followed.state_at).total_seconds()

    # --- the work -----------------------------------------------------------------------------

    def start(self) -> None:
        """Listen for a scheduler, and for questions."""
        for thread in self._record_threads:
            thread.start()
        if self._visibility is not None:
            self._visibility.start()
        self._feed_thread.start()
        self._answer_thread.start()
        self._forecast_thread.start()
        self._fitting_thread.start()
        for thread in self._page_threads:
            thread.start()

    def stop(self) -> None:
        """Stop everything."""
        if self._visibility is not None:
            self._visibility.stop()
        threads = (self._feed_thread, self._answer_thread, self._forecast_thread)
        stop_all(
            [*threads, self._fitting_thread, *self._record_threads, *self._page_threads],
            self._clock,
        )
        if self._page is not None:
            self._page.close()
        self._api_connections.close()
        self._feed.close()
        if self._recorder is not None:
            self._recorder.close()
        self._answers.close()

    def ready_checks(self) -> Mapping[str, Check]:
        """Return the checks of `/readyz`: it is ready to be connected to.

        Without a scheduler it is ready as well: the pod would be unready with it, and with the pod
        the scheduler.
        """
        return {"feed": lambda: (True, f"connected: {self._feed.is_connected}")}

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches; those of uvicorn are in one step forever."""
        more = [] if self._visibility is None else self._visibility.threads()
        looks_ahead = (self._forecast_thread, self._fitting_thread)
        return (self._feed_thread, *looks_ahead, *self._record_threads, *more)
