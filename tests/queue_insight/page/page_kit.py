"""The page over an engine, behind its real server on a free port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from queue_insight.debug_api.engine_state import NoStateError, State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.forecast_routes import Forecasts, forecast_scope
from queue_insight.debug_api.insight_views import InsightView, LogEntryView, LogView, RecordView
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.report_routes import Reports, UseRecord
from queue_insight.debug_api.what_if_routes import WhatIfAnswers
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.insight_program.horizons import Horizons
from queue_insight.insight_program.sources import NOT_RECORDED, Source
from queue_insight.page.ended_jobs import EndedJobs
from queue_insight.page.login import VISITORS
from queue_insight.page.page_app import Login, build_page_app
from queue_insight.page.page_metrics import PageMetrics
from queue_insight.page.page_server import PageServer, Tls
from queue_insight.page.sessions import Sessions
from queue_insight.page.sources import PageSources, ReadSamples
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Moment
from shared_api.authorization.authorizer import Authorizer
from shared_api.debug_api.access import LOCAL_HOSTS
from shared_api.process.clock import SystemClock
from shared_api.process.connection_gate import Outcome
from shared_api.process.loop_thread import LoopThread
from shared_api.process.probes import Address, open_listener
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit

PATIENCE_SECONDS = 60.0


class PageWorld:
    """What the page answers from; a test changes the attributes.

    Attributes:
        at: The engines of earlier times, by time; without any, nothing is recorded.
        log: What was decided, the newest first; None: nothing is recorded.
        record: What is kept.
        connected: Whether the scheduler is connected.
        login: For a port that others can reach; None: only this machine can.
        failure: Raised for each question about now.
        rates: Admissions per hour by queue; others are not known.
        ended: The jobs that have ended.
        registry: The metrics of the last server.
        samples: What there was over time; None: nothing is recorded.
        dashboards: The address of dashboards.
        use: What is recorded of accounts; None: nothing.
    """

    def __init__(self, shared: SharedEngine, clock: VirtualClock, least_runs: int = 0) -> None:
        self.shared = shared
        self.clock = clock
        self.past: dict[datetime, SharedEngine] = {}
        self.log: list[LogEntryView] | None = None
        self.record = RecordView(state="off")
        self.connected = True
        self.login: Login | None = None
        self.failure: Exception | None = None
        self.rates: dict[str, float] = {}
        self.ended = EndedJobs(clock.now().timestamp())
        self.registry = CollectorRegistry()
        self.samples: ReadSamples | None = None
        self.dashboards = ""
        self.use: UseRecord | None = None
        model = load_run_time_model()
        now = clock.now()
        got = forecast_scope(shared, Explanations(shared, clock.now), least_runs)
        settings = Settings(paths=4, budgets=True)
        self.forecasts = Forecasts(self._state, clock, model(), settings, now, forecast_scope=got)
        self._horizons = Horizons(model(), now, SystemClock(), least_runs=least_runs)

    def sources(self) -> PageSources:
        """Return what the application answers from."""
        budget = QuestionBudget(SystemClock())
        what_if = WhatIfAnswers(self._state, lambda: True, budget, self._horizons)
        return PageSources(
            at=self._at,
            number=count().__next__,
            insight=self._insight,
            log=self._read_log,
            forecasts=self.forecasts,
            what_if=what_if.answer,
            admissions_per_hour=self.rates.get,
            clock=self.clock,
            kept_seconds=0.0,
            samples=self.samples,
            dashboards=self.dashboards,
            ended_jobs=self.ended,
            reports=Reports(
                self.use, lambda: True, self.clock, QuestionBudget(SystemClock(), share=1000.0)
            ),
        )

    def _state(self) -> State:
        return State(self.shared.fork(), Moment(self.clock.monotonic(), self.clock.now()))

    def _at(self, moment: datetime | None) -> Source:
        if self.failure is not None:
            raise self.failure
        if moment is None:
            return Source(self.shared, self.clock.now(), True, self.clock.now)  # noqa: FBT003 - a tuple
        if moment not in self.past:
            raise NoStateError(NOT_RECORDED)
        return Source(self.past[moment], moment, True, lambda: moment)  # noqa: FBT003 - a tuple

    def _insight(self) -> InsightView:
        if self.failure is not None:
            raise self.failure
        now = self.clock.now()
        return InsightView(
            connected=self.connected,
            number=1,
            state_at=now,
            age_seconds=0.0,
            following_since=now,
            leader=True,
            record=self.record,
        )

    def _read_log(self, unit: str) -> LogView:
        if self.log is None:
            raise NoStateError(NOT_RECORDED)
        return LogView(items=[each for each in self.log if each.unit == unit])


@contextmanager
def served_page(
    kit: ShellKit | PageWorld,
    tls: Tls | None = None,
    *,
    limit: int = 64,
    observe: Callable[[Outcome], None] = lambda _: None,
) -> Iterator[str]:
    """Serve the page of an engine; yield its address, `http://127.0.0.1:PORT` without TLS.

    Args:
        kit: What it answers from.
        tls: How HTTPS is served; None serves HTTP.
        limit: Most connections at once.
        observe: Called with the outcome of each connection that is cut.
    """
    world = kit if isinstance(kit, PageWorld) else PageWorld(kit.shared, kit.clock)
    listener = open_listener(Address("127.0.0.1", 0), "--page-address")
    port = listener.getsockname()[1]
    world.registry = CollectorRegistry(auto_describe=True)
    metrics = PageMetrics(world.registry)
    server = PageServer(
        lambda: build_page_app(world.sources(), world.login, LOCAL_HOSTS, metrics),
        listener,
        tls,
        limit=limit,
        observe=observe,
    )
    thread = LoopThread("page", server.step, SystemClock(), unblock=server.end)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    finally:
        assert thread.stop(PATIENCE_SECONDS), "the server has not ended"
        server.close()


TENANT, ROOT = "token-of-ann", "token-of-root"


class LoginWorld(PageWorld):
    """A world whose visitors log in: ann may read `default`, root all.

    Attributes:
        readable: The namespaces that each user may read; `""` is all.
        askers: The users who may ask what if.
    """

    def __init__(self, kit: ShellKit) -> None:
        super().__init__(kit.shared, kit.clock)
        self.reviews = kit.server.reviews
        self.reviews.users |= {TENANT: {"username": "ann"}, ROOT: {"username": "root"}}
        self.readable: dict[str, set[str]] = {"ann": {"default"}, "root": {""}}
        self.askers = {"root"}
        self.reviews.allows = self._allows
        self.sessions = Sessions(kit.clock)
        self.login = Login(self.sessions, Authorizer(kit.client, kit.clock, VISITORS), kit.server)

    def _allows(self, spec: dict[str, Any]) -> bool:
        if "nonResourceAttributes" in spec:
            assert spec["nonResourceAttributes"] == {"path": "/debug/what-if", "verb": "create"}
            return spec["user"] in self.askers
        asked = spec["resourceAttributes"]
        assert (asked["verb"], asked["resource"]) == ("list", "queueunits")
        return asked["namespace"] in self.readable.get(spec["user"], set())


class Browser(httpx.Client):
    """A client that sends what a browser sends with requests of the page's own scripts.

    The page is served without TLS here, and no browser would send the cookie: this one does.

    Args:
        url: Of the page.
        address: The address of this machine that it asks from.
    """

    def __init__(self, url: str, address: str = "127.0.0.1") -> None:
        headers = {"origin": url, "sec-fetch-site": "same-origin"}
        super().__init__(
            base_url=url,
            headers=headers,
            timeout=PATIENCE_SECONDS,
            trust_env=False,
            # Without TLS. Else it reads the authorities of the Internet: as long as a test takes.
            transport=httpx.HTTPTransport(local_address=address, verify=False),
        )

    def log_in(self, token: str) -> httpx.Response:
        """Log in; keep the cookie."""
        answer = self.post("/page/session", json={"token": token})
        sent = answer.headers.get("set-cookie", "").partition(";")[0]
        if sent:
            self.headers["cookie"] = sent
        return answer


@contextmanager
def browser(world: PageWorld, token: str = "") -> Iterator[Browser]:
    """Serve a page, and yield a browser; `token`: of the user who logs in."""
    with served_page(world) as url, Browser(url) as client:
        if token:
            assert client.log_in(token).status_code == 200
        yield client
