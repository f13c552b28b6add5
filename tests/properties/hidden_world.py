"""A random state of units of several namespaces, behind all doors that answer about it.

Whatever only objects of namespaces have that the visitor may not read is a random word, which no
answer to the visitor may have in it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus
from itertools import count
from typing import Any, Final, NamedTuple, cast

import anyio
import httpx
from fastapi import FastAPI
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.forecast_routes import Forecasts, forecast_scope
from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.insight_views import InsightView, LogView, RecordView
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.report_routes import ReportApi, Reports
from queue_insight.debug_api.what_if_routes import WhatIfAnswers
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_program.answer_app import (
    LogApi,
    NewUnitsApi,
    RunsApi,
    StateApi,
    add_recorded_report,
    build_answer_app,
)
from queue_insight.insight_program.followed_engine import Followed
from queue_insight.insight_program.horizons import Horizons
from queue_insight.insight_program.sources import Source, Sources
from queue_insight.page.api_routes import add_api_answers
from queue_insight.page.ended_jobs import EndedJobs
from queue_insight.page.page_app import build_page_api
from queue_insight.page.page_metrics import PageMetrics
from queue_insight.page.sources import PageSources
from queue_insight.page.visitors import LocalVisitors, Visitor
from queue_insight.record.decision_log import DecisionLog, LogEntry
from queue_insight.record.engine_samples import Admitted, take_samples
from queue_insight.record.log_query import LogPage, LogQuery
from queue_insight.record.quota_balance import read_balances
from queue_insight.record.sample_tables import Reach, TimedSample
from queue_insight.record.samples import HOUR, NOTHING
from queue_insight.record.use_sums import UseBlock, UseKey, UseRow, join_hour
from queue_insight.record.use_tables import TimedBlock, UseReach
from queue_insight.visibility.app import build_visibility_app
from queue_insight.visibility.caller import CALLER
from queue_insight.visibility.snapshots import KeptSnapshots
from queue_insight.visibility.sources import VisibilitySources
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Moment, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.periods import find_calendars
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.caller import Caller
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import ResourceRight, ReviewedRight, Right
from shared_api.debug_api.access import ReviewedAccess
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.objects.queue import FairShare, Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import Budget, UserLimit
from shared_api.process import http_exchange
from shared_api.testing.object_builders import (
    elastic_quota,
    pod_set,
    queue,
    queue_unit_body,
    to_struct,
    with_status,
)
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    GROUP,
    MAX_DEPTH,
    PREEMPT_RUNNING,
    QUOTA_NAME,
    USER,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import build_policy
from tests.queue_insight.forecast.forecast_kit import renew
from tests.queue_insight.insight_kit import new_engine
from tests.reserved_world import build_reservation, build_spec, schedules_at

Json = dict[str, Any]

MINE: Final = "mine"
"""The one namespace that the visitor may read."""
QUEUES: Final = ("lab", "team")
"""Queues, and their quotas, which all namespaces share."""
RULES: Final = "rules"
"""The QuotaPolicy, where there is one."""
VISITOR, READER_OF_ALL = "ann", "root"
LOCAL: Final = "http://localhost"
AT: Final = "2026-11-01T10:00:00Z"
OPTIONS: Final = (
    BACKFILL, ENABLE_PREEMPTION, PREEMPT_RUNNING, WAIT_FOR_PODS_RUNNING,
)  # fmt: skip


class HiddenWorld:
    """The objects, and an engine that has decided about them.

    Attributes:
        clock: The time.
        shared: The engine.
        words: What only objects have that the visitor may not read.
        mine: Names of the visitor's units.
        has_rules: Users and groups are limited, quotas have budgets, and queues are fair.
        log: What was decided, in order.
        ended: Jobs that have ended.
    """

    def __init__(self, seed: int, *, has_rules: bool = False) -> None:
        self._rng = random.Random(seed)
        # Of its own: without limits a seed is the story that it was before there were any.
        self._rules_rng = random.Random(f"{seed} limits")
        self.clock = VirtualClock()
        engine = new_engine()
        engine.usage.ledger = Ledger()
        self.shared = SharedEngine(engine, lambda _: None)
        self.words: set[str] = set()
        self.mine: list[str] = []
        self.has_rules = has_rules
        self.log: list[LogEntry] = []
        self.ended = EndedJobs(0.0)
        self._version = count(1)
        self._fill()

    def _fill(self) -> None:
        rng, apply = self._rng, self.shared.apply
        if self.has_rules:
            self._state_rules()
            self._reserve()
        for name in QUEUES:
            switches = {each: "true" for each in OPTIONS if rng.random() < 0.6}
            if rng.random() < 0.2:
                switches[MAX_DEPTH] = "2"
            apply(Engine.on_quota, elastic_quota(name, max={"cpu": 8}))
            policy = rng.choice(("Priority", "Priority", "Block", "FIFO"))
            stated = queue(name, policy=policy, metadata={"annotations": switches})
            apply(Engine.on_queue, self._with_fairness(stated) if self.has_rules else stated)
        others = [self._word() for _ in range(rng.choice((1, 2, 4)))]
        for _ in range(rng.randint(4, 14)):
            self._put(MINE if rng.random() < 0.4 else rng.choice(others))
        self._decide()
        for name in QUEUES:  # small units behind a large one, as a rule of another namespace
            ahead, behind = rng.sample((MINE, *others * 3), 2)
            self._put(ahead, name, cpu=6, priority=10)
            for _ in range(rng.randint(1, 3)):
                self._put(rng.choice((MINE, MINE, behind)), name, cpu=1)
        self._decide()
        for namespace in (MINE, *others):
            self._end(namespace)

    def _state_rules(self) -> None:
        """Limit users and groups, and give the quotas budgets."""
        rng, second = self._rules_rng, int(self.clock.now().timestamp())
        limits = [
            UserLimit(users=("me", self._rule_word()), max={"cpu": 5}, running=2),
            UserLimit(groups=("crew", self._rule_word()), max={"cpu": 7}),
            UserLimit(users=("*",), max={"cpu": 6}, running=3, pending=2),
            UserLimit(groups=("*",), max={"cpu": 12}),
        ]
        chosen = [each for each in limits if rng.random() < 0.6]
        budgets = (
            Budget(resource="cpu", hours=rng.choice((1, 100, 400)), period="Month"),
            Budget(amount=9000, price={"cpu": 1}, period="Week", undeclared="Refuse"),
        )[: rng.randint(0, 2)]
        apply = self.shared.apply
        apply(Engine.on_time, self.clock.now())
        apply(Engine.on_calendars, find_calendars(budgets, second))
        policy = build_policy(RULES, QUEUES, *chosen)
        policy = replace(policy, spec=replace(policy.spec, budgets=budgets))
        apply(Engine.on_quota_policy, policy)

    def _reserve(self) -> None:
        """Reserve a time that only units run into that declare none, and none waits for."""
        start, second = "2026-12-24T00:00", int(self.clock.now().timestamp())
        reservation = build_reservation(spec=build_spec(start, undeclared="Start"))
        self.shared.apply(Engine.on_schedules, schedules_at(reservation, second))
        self.shared.apply(Engine.on_reservation, reservation)

    def _with_fairness(self, stated: Queue) -> Queue:
        rng = self._rules_rng
        if rng.random() < 0.4:
            return stated
        levels = rng.choice(((), ("group", "user"), ("namespace",)))
        share = FairShare(levels=levels, priority=rng.choice(("", "First")))
        return replace(stated, spec=replace(stated.spec, queue_policy="Fair", fair_share=share))

    def _rule_word(self) -> str:
        """Return the name of a user or group of others."""
        word = f"w{self._rules_rng.getrandbits(40):010x}"
        self.words.add(word)
        return word

    def _end(self, namespace: str) -> None:
        """Let a job have ended, whose unit is gone."""

        def said(text: str) -> str:
            return text if namespace == MINE else self._word()

        now = self.clock.now().timestamp()
        self.ended.add(
            FinishedRun(
                unit=f"{namespace}/{said('done')}",
                uid=said("uid-done"),
                kind=said("Job"),
                user=said("me"),
                queue=said("gone-queue"),
                quota=said("gone-quota"),
                charge={"cpu": 1000},
                created=now - 20.0,
                ended=now - 10.0,
                ended_by="failed",
            )
        )

    def _word(self) -> str:
        word = f"w{self._rng.getrandbits(40):010x}"
        self.words.add(word)
        return word

    def _put(self, namespace: str, queue: str = "", cpu: int = 0, priority: int = 0) -> None:
        rng, version = self._rng, next(self._version)
        is_mine = namespace == MINE
        name = f"own-{version}" if is_mine else self._word()
        if is_mine:
            self.mine.append(name)

        def said(text: str) -> str:
            return text if is_mine else self._word()

        cpu = cpu or rng.choice((1, 2, 3, 3, 5, 6, 9))
        user, groups = said("me"), {}
        if self.has_rules:
            # A user may have units in namespaces of others, too.
            is_me = is_mine or self._rules_rng.random() < 0.2
            user = "me" if is_me else user
            groups = {GROUP: "crew" if is_me else self._rule_word()}
        quota = queue or rng.choice((*QUEUES * 3, said("no-such-quota")))
        body = queue_unit_body(
            name,
            namespace=namespace,
            quota=quota,
            metadata={
                "uid": said(f"uid-{version}"),
                "resourceVersion": str(version),
                "creationTimestamp": f"2026-11-01T09:00:{version:02}Z",
                "labels": {USER: user, QUOTA_NAME: quota, **groups},
                "annotations": {"note": said("mine")},
            },
            podSet=[pod_set(said("main"), requests={"cpu": cpu})],
            priority=priority or rng.choice((0, 0, 5, 9)),
            active=rng.random() < 0.9,
            consumerRef={
                "apiVersion": "batch/v1", "kind": "Job", "name": said(name), "uid": said("j"),
            },
            maximumExecutionTimeSeconds=rng.choice((None, 60, 6000)),
        )  # fmt: skip
        if not queue and cpu < 4 and quota in QUEUES and rng.random() < 0.3:
            name_of_set = body["spec"]["podSet"][0]["name"]
            grant = {"name": name_of_set, "replicas": 1, "running": 1, "resources": {"cpu": cpu}}
            ready = {
                "type": "PodsReady", "status": "False", "reason": "PodsUnschedulable",
                "message": said("no node"), "lastTransitionTime": "2026-11-01T09:00:00Z",
            }  # fmt: skip
            admitted = {**ready, "type": "Admitted", "status": "True", "reason": "Admitted"}
            conditions = [admitted, ready] if rng.random() < 0.5 else [admitted]
            body = with_status(body, phase="Running", admissions=[grant], conditions=conditions)
        self.shared.apply(Engine.on_queue_unit, to_struct(QueueUnit, body))

    def _decide(self) -> None:
        """Let both queues decide until they rest, and keep what they decide."""
        clock, log = self.clock, DecisionLog()
        for name in QUEUES:
            for number in range(60):
                if self.has_rules:
                    self.shared.apply(Engine.on_time, clock.now())
                answer = self.shared.decide_next(name, clock.monotonic(), clock.now())
                if isinstance(answer, Rest):
                    break
                call = EngineCall(number, clock.now().timestamp(), "decide_next")
                entry = log.entry_of(call, answer, self.shared.fork())
                if entry is not None:
                    self.log.append(entry)
                clock.advance(0.1)

    def state(self) -> State:
        """Return a copy of the engine."""
        return State(self.shared.fork(), Moment(self.clock.monotonic(), self.clock.now()))

    def source(self, _at: datetime | None) -> Source:
        """Return the engine; it is the same at all times."""
        return Source(self.shared, self.clock.now(), is_leader=True, now=self.clock.now)

    def read_samples(self, of: str, _reach: Reach, now: float) -> list[TimedSample]:
        """Return the sample of now, with a wait of each unit."""
        engine = self.shared.fork()
        admitted = [
            Admitted(each.queue_name, each.queue_name, each.unit.metadata.namespace, 9.0)
            for each in engine.units
        ]
        sample = take_samples(engine, admitted).get(of, NOTHING)
        return [TimedSample(int(now) - 60, 60, sample)]

    def namespaces(self, _start: int, _end: int, _now: int) -> list[str]:
        """Return whose use is recorded."""
        return sorted({row.key.namespace for row in self._use().rows})

    def visit(self, start: int, end: int, now: int, take: Callable[[TimedBlock], None]) -> UseReach:
        """Have what is charged now as the use of the last hour."""
        take(TimedBlock(now // HOUR * HOUR - HOUR, HOUR, self._use()))
        return UseReach(start, end, start, 0)

    def _use(self) -> UseBlock:
        engine = self.shared.fork()
        rows = [
            UseRow(UseKey(*charge.account, "Job"), dict(charge.amounts))
            for charge in engine.usage.charges.values()
        ]
        samples = take_samples(engine, ())
        return join_hour([UseBlock(rows, read_balances(engine, samples, HOUR))])

    def read_log(self, query: LogQuery) -> LogPage:
        """Return what was decided."""
        entries = (each for each in reversed(self.log) if query.unit in ("", each.unit))
        return LogPage(entries=tuple(entries), cursor=None)


class _Sources(Sources):
    """The world, at all times the same."""

    def __init__(self, world: HiddenWorld) -> None:
        self.clock = world.clock
        self._world = world

    def at(self, moment: datetime | None) -> Source:
        return self._world.source(moment)

    def log(self, query: LogQuery) -> LogPage:
        return self._world.read_log(query)

    def followed(self) -> Followed:
        now = self.clock.now()
        return Followed(number=1, state_at=now, is_leader=True, since=now)


class AppClient:
    """Asks an application in this thread, without a socket.

    Args:
        app: The application.
        reader: Who asks.
    """

    def __init__(self, app: ASGIApp, reader: str = "") -> None:
        self._app = app
        self._headers = {"authorization": reader}

    def send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request; return the answer."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(cast("Any", self._app))
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.request(method, path, **{"headers": self._headers, **more})

        return anyio.run(ask)


class _Link(InsightLink):
    """Asks the insight program without a socket."""

    def __init__(self, client: AppClient, clock: VirtualClock) -> None:
        super().__init__(None, clock)
        self._client = client

    @property
    def is_on(self) -> bool:
        return True

    def _answer(self, request: http_exchange.Request) -> http_exchange.Answer:
        got = self._client.send(
            request.method, request.target, content=request.body, headers=dict(request.headers)
        )
        headers = tuple(got.headers.items())
        return http_exchange.Answer(got.status_code, got.content, headers=headers)


class _Rights(Authorizer):
    """The visitor has every right on paths and in its namespace, the reader of all has all."""

    def __init__(self) -> None:
        """Need nothing."""

    def judge_bearer(self, authorization: str, right: Right) -> ReviewResult:
        return _judge(authorization, right)

    def judge(self, caller: Caller, right: ReviewedRight, *, anew: bool = False) -> ReviewResult:
        del anew
        return _judge(caller.user, right)

    def cached_user(self, authorization: str) -> str:
        return authorization


def _judge(who: str, right: Right) -> ReviewResult:
    is_elsewhere = isinstance(right, ResourceRight) and right.namespace != MINE
    may = who == READER_OF_ALL or not is_elsewhere
    return ReviewResult(HTTPStatus.OK if may else HTTPStatus.FORBIDDEN, "no")


class _Identify:
    """An ASGI middleware that takes the caller from the header Authorization."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        who = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        scope.setdefault("state", {})[CALLER] = Caller(who)
        return self._app(scope, receive, send)


def identify(_visitors: object, request: Request) -> Visitor:
    """Return who asks the page, by the header Authorization."""
    who = request.headers["authorization"]
    reads_all = who == READER_OF_ALL
    return Visitor(who, reads_all, lambda space: reads_all or space == MINE, lambda _: None)


class Doors(NamedTuple):
    """The applications that answer about a world."""

    debug: FastAPI
    page: FastAPI
    visibility: Starlette


def open_doors(world: HiddenWorld) -> Doors:
    """Return the applications, with the insight program behind the debug API."""
    clock, budget = world.clock, QuestionBudget(world.clock)
    model = load_run_time_model()
    explanations = Explanations(world.shared, clock.now)
    forecasts = Forecasts(
        world.state,
        clock,
        model(),
        Settings(paths=2),
        clock.now(),
        forecast_scope=forecast_scope(world.shared, explanations, 0),
    )
    renew(forecasts)
    horizons = Horizons(model(), clock.now(), clock, least_runs=0)
    sources = _Sources(world)
    what_if = WhatIfAnswers(world.state, lambda: True, budget, horizons)
    new_units = NewUnitsApi(world.state, horizons, budget)
    insight = build_answer_app(
        sources,
        StateApi(sources, lambda: True, lambda: RecordView(state="off"), clock),
        forecasts,
        what_if,
        new_units,
        RunsApi(tuple),
        budget,
    )
    reports = Reports(world, lambda: True, clock, budget)
    add_recorded_report(insight, ReportApi(reports))
    state = StateAnswers(world.shared, lambda: True, clock.now)
    answers = Answers(state, budget=budget)
    access = ReviewedAccess(_Rights())
    debug = build_whole_app(answers, access, (), "0", _Link(AppClient(insight), clock))
    page_sources = _page_sources(world, forecasts, what_if, budget)._replace(reports=reports)
    page = build_page_api(page_sources, None, PageMetrics(CollectorRegistry()))
    # No visitor has a token here, so the API server is asked nothing: what the copy knows is left.
    add_api_answers(
        page,
        page_sources,
        FakeApiServer(clock=clock, rng=random.Random(7)),
        LocalVisitors().identify,
        lambda _, asked: str(asked["visitor"].user),
    )
    visible = VisibilitySources(
        world.shared, lambda: None, lambda: True, clock, forecasts, KeptSnapshots(clock),
        questions=budget,
    )  # fmt: skip
    visibility = cast("Starlette", build_visibility_app(visible, _Rights().judge))
    visibility.add_middleware(_Identify)
    return Doors(debug, page, visibility)


def _page_sources(
    world: HiddenWorld, forecasts: Forecasts, what_if: WhatIfAnswers, budget: QuestionBudget
) -> PageSources:
    def insight() -> InsightView:
        now = world.clock.now()
        return InsightView(
            connected=True, number=1, state_at=now, age_seconds=0.0, following_since=now,
            leader=True, record=RecordView(state="recording"),
        )  # fmt: skip

    def log(unit: str) -> LogView:
        return LogApi(_Sources(world)).log(unit=unit)

    return PageSources(
        at=world.source,
        number=count().__next__,
        insight=insight,
        log=log,
        forecasts=forecasts,
        what_if=what_if.answer,
        admissions_per_hour=lambda _: None,
        clock=world.clock,
        kept_seconds=0.0,
        questions=budget,
        samples=world.read_samples,
        ended_jobs=world.ended,
    )
