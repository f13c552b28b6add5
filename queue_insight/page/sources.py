"""What the page answers from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

from queue_insight.debug_api.forecast_routes import Forecasts
from queue_insight.debug_api.insight_views import InsightView, LogView
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.report_routes import Reports
from queue_insight.debug_api.what_if_routes import WhatIfQuestion, WhatIfView
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.page.ended_jobs import EndedJobs
from queue_insight.record.sample_tables import Reach, TimedSample
from queue_scheduler.cycles.engine_reader import EngineReader
from shared_api.process.clock import Clock

ReadSamples = Callable[[str, Reach, float], list[TimedSample]]


class EngineAtTime(Protocol):
    """An engine to ask, and the time that its answers are about."""

    @property
    def shared(self) -> EngineReader:
        """The engine."""
        ...

    @property
    def state_at(self) -> datetime:
        """The time that it is as of."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether the replica decides."""
        ...

    @property
    def now(self) -> Callable[[], datetime]:
        """Returns the time, for how long units have run and the like."""
        ...


class PageSources(NamedTuple):
    """What is known, and who computes.

    Attributes:
        at: Returns the engine of a time, None: of now; raises NoStateError.
        number: Returns a number that changes whenever the engine of now does.
        insight: Returns how far the program is; raises NoStateError.
        log: Returns the newest decisions about a unit (`namespace/name`); raises NoStateError if
            nothing is recorded.
        forecasts: The last forecast.
        what_if: Answers what edits would change; the caller is whose budget is charged.
        admissions_per_hour: Returns how many units of a queue are admitted in an hour; None: that
            is not known.
        clock: The time.
        kept_seconds: For how long an answer that is computed for all visitors is used again while
            the engine changes.
        questions: How much computing questions may take; None: there is a budget of the page's own.
        samples: Returns what a queue, a quota or the whole had up to a time, in seconds since the
            epoch; raises NoStateError if that cannot be read. None: nothing is recorded.
        dashboards: The address of dashboards about the same, to link to; "": there is none.
        ended_jobs: The jobs that have ended; None: they are not known.
        last_run: Returns the last recorded run of a unit (`namespace/name`) that has ended; None:
            there is none.
        reports: Makes reports of who used how much; None: nothing is recorded.
    """

    at: Callable[[datetime | None], EngineAtTime]
    number: Callable[[], int]
    insight: Callable[[], InsightView]
    log: Callable[[str], LogView]
    forecasts: Forecasts
    what_if: Callable[[WhatIfQuestion, str], WhatIfView]
    admissions_per_hour: Callable[[str], float | None]
    clock: Clock
    kept_seconds: float = 1.0
    questions: QuestionBudget | None = None
    samples: ReadSamples | None = None
    dashboards: str = ""
    ended_jobs: EndedJobs | None = None
    last_run: Callable[[str], FinishedRun | None] = lambda _: None
    reports: Reports | None = None
