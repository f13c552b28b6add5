"""The application of the aggregated API over an engine, with callers who may read namespaces."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, cast

import httpx
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from queue_insight.api_registration.api_service import GROUP
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.forecast_routes import Forecasts, forecast_scope
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.visibility.app import build_visibility_app
from queue_insight.visibility.caller import CALLER
from queue_insight.visibility.openapi import BASE
from queue_insight.visibility.snapshots import KeptSnapshots
from queue_insight.visibility.sources import VisibilitySources
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Moment, Rest
from queue_scheduler.engine.engine import Engine
from shared_api.authorization.caller import Caller
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import ResourceRight
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota, queue, queue_unit_body, to_struct
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.insight_kit import new_engine
from tests.served_app import served

Json = dict[str, Any]

TABLE: Final = {
    "accept": "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
}
"""What kubectl get sends."""

EVERYBODY: Final = "root"


class Rights:
    """The rights of callers: the namespaces that each may read; `EVERYBODY` may do all."""

    def __init__(self) -> None:
        self.namespaces: dict[str, set[str]] = {"ann": {"default"}}
        self.kinds: set[str] = {"jobs"}
        self.asked: list[tuple[str, str]] = []
        self.status = HTTPStatus.OK

    def judge(self, caller: Caller, right: ResourceRight) -> ReviewResult:
        """Return whether a caller may do something."""
        assert (right.subresource, right.name) == ("", "")
        self.asked.append((right.verb, right.namespace))
        if self.status is not HTTPStatus.OK:
            return ReviewResult(self.status, "the API server cannot be asked")
        may = right.namespace in self.namespaces.get(caller.user, ()) or caller.user == EVERYBODY
        if right.group != GROUP:
            may = may and right.resource in self.kinds
        return ReviewResult(HTTPStatus.OK if may else HTTPStatus.FORBIDDEN, "" if may else "no")


class Desk:
    """An engine, and the application that answers about it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.shared = SharedEngine(new_engine(), lambda _: None)
        self.rights = Rights()
        self.is_leader = True
        self.failure: Exception | None = None
        explanations = Explanations(self.shared, self.clock.now)
        self.forecasts = Forecasts(
            self._state,
            self.clock,
            load_run_time_model()(),
            Settings(paths=2),
            self.clock.now(),
            forecast_scope=forecast_scope(self.shared, explanations, least_runs=0),
        )
        self._count = 0

    def app(self) -> ASGIApp:
        sources = VisibilitySources(
            self.shared,
            self._check_state,
            lambda: self.is_leader,
            self.clock,
            self.forecasts,
            KeptSnapshots(self.clock),
        )
        return build_visibility_app(sources, self.rights.judge)

    def _check_state(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _state(self) -> State:
        return State(self.shared.fork(), Moment(self.clock.monotonic(), self.clock.now()))

    def add_queue(self, name: str, *, cpu: int = 4, policy: str = "Block") -> None:
        """Add a queue, and a quota of its name."""
        self.shared.apply(Engine.on_quota, elastic_quota(name, max={"cpu": cpu}))
        self.shared.apply(Engine.on_queue, queue(name, policy=policy))

    def add_unit(
        self,
        name: str,
        quota: str = "team",
        *,
        cpu: int = 4,
        namespace: str = "default",
        **spec: Any,
    ) -> QueueUnit:
        """Add a unit; a later one stands behind an earlier one."""
        self._count += 1
        meta: Json = {
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": str(self._count),
            "creationTimestamp": f"2026-11-01T09:{self._count // 60:02}:{self._count % 60:02}Z",
        }
        body = queue_unit_body(
            name, namespace=namespace, quota=quota, requests={"cpu": cpu}, metadata=meta, **spec
        )
        unit = to_struct(QueueUnit, body)
        self.shared.apply(Engine.on_queue_unit, unit)
        return unit

    def decide(self, name: str = "team") -> None:
        """Let a queue decide until it rests."""
        clock = self.clock
        while not isinstance(self.shared.decide_next(name, clock.monotonic(), clock.now()), Rest):
            clock.advance(0.1)


class Identify:
    """An ASGI middleware that says who asks: the header `user`, or a default."""

    def __init__(self, app: ASGIApp, user: str) -> None:
        self._app = app
        self._user = user.encode()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        who = dict(scope.get("headers", ())).get(b"user", self._user).decode()
        if who:
            scope.setdefault("state", {})[CALLER] = Caller(who)
        return self._app(scope, receive, send)


@contextmanager
def asking(desk: Desk, user: str = EVERYBODY) -> Iterator[httpx.Client]:
    """Serve the application, and yield a client; the header `user` says who asks."""
    app = cast("Starlette", desk.app())
    app.add_middleware(Identify, user=user)
    with served(app) as client:
        yield client


def units_path(namespace: str = "default", name: str = "", below: str = "") -> str:
    """Return the path of the units of a namespace, or of one of them."""
    parts = (f"{BASE}/namespaces/{namespace}/pendingunits", name, below)
    return "/".join(part for part in parts if part)


EVERYWHERE: Final = f"{BASE}/pendingunits"


def names_of(answer: httpx.Response) -> list[str]:
    """Return `namespace/name` of the units of a list."""
    items = answer.raise_for_status().json()["items"]
    return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in items]


def refusal_of(answer: httpx.Response) -> tuple[int, str]:
    """Return code and reason of an error, which must be a `Status`."""
    status = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert (status["kind"], status["apiVersion"]) == ("Status", "v1")
    assert (status["status"], status["code"]) == ("Failure", answer.status_code)
    assert status["message"]
    return answer.status_code, status["reason"]


def pages_of(
    client: httpx.Client, path: str, limit: int, headers: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Return the names of all pages of a list."""
    found, token = [], ""
    while True:
        query = {"limit": str(limit), "continue": token}
        answer = client.get(path, params=query, headers=headers)
        found.append(names_of(answer))
        token = answer.json()["metadata"]["continue"]
        if not token:
            return found
