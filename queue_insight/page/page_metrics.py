"""Metrics of the page. No label has a value that a visitor can choose freely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared_api.process.clock import Clock

SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Buckets: most answers take milliseconds, a what-if question with a horizon up to 20 s."""

EVENTS: Final = "events"
OTHER: Final = "other"
_ANSWERS: Final = {
    "session": "session",
    "events": EVENTS,
    "overview": "overview",
    "queues": "queue",
    "units": "unit",
    "quotas": "quota",
    "what-if": "what-if",
    "jobs": "jobs",
    "jobs.csv": "table",
    "over-time": "over-time",
    "report": "report",
    "report.csv": "table",
    "names": "names",
    "manifests": "manifest",
}
_WINDOW: Final = frozenset(
    {"", "jobs", "queues", "units", "quotas", "over-time", "report", "what-if", "login"}
)
_PARTS_OF_UNIT: Final = {
    "changes": "changes",
    "pods": "unit-objects",
    "events": "unit-objects",
    "manifests": "unit-objects",
}
"""What follows the namespace and name in the path of a unit; the last three ask the API server."""
_AT: Final = 3
"""Where that stands in a path, below `/page/`."""

Refusal = Literal["token", "rate", "unavailable"]


def view_of(path: str) -> str:
    """Return what a path asks for, as one of a few words; others are `other`."""
    _, first, *rest = path.split("/") if path.startswith("/") else ("", OTHER)
    if first == "assets":
        return "file"
    if first != "page":
        return "window" if first in _WINDOW else OTHER
    view = _ANSWERS.get(rest[0], OTHER) if rest else OTHER
    if view == "queue" and path.endswith(".csv"):
        return "table"
    if view == "unit" and len(rest) > _AT:
        return _PARTS_OF_UNIT.get(rest[_AT], OTHER)
    return view


class PageMetrics:
    """Requests and how long they take, open streams, sessions, refused logins."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "koord_queue_page_requests",
            "Requests to the page by what was asked for and status code",
            ("view", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "koord_queue_page_request_duration_seconds",
            "Time from a request to the end of its answer, streams of events left out, in seconds",
            ("view",),
            registry=registry,
            buckets=SECONDS,
        )
        self._streams = Gauge(
            "koord_queue_page_event_streams", "Open streams of events", registry=registry
        )
        self._sessions = Gauge(
            "koord_queue_page_sessions", "Sessions of users who have logged in", registry=registry
        )
        self._refused = Counter(
            "koord_queue_page_refused_logins",
            "Logins that were refused: token (not valid), rate (too many were tried), unavailable"
            " (the API server could not be asked)",
            ("reason",),
            registry=registry,
        )

    def show(self, *, streams: Callable[[], float], sessions: Callable[[], float]) -> None:
        """Set the functions that each scrape calls."""
        self._streams.set_function(streams)
        self._sessions.set_function(sessions)

    def on_request(self, view: str, status: int, seconds: float) -> None:
        """Count a request, and how long it took."""
        self._requests.labels(view, str(status)).inc()
        if view != EVENTS:
            self._seconds.labels(view).observe(seconds)

    def on_refused_login(self, reason: Refusal) -> None:
        """Count a login that was refused."""
        self._refused.labels(reason).inc()


class CountedRequests:
    """An ASGI middleware that counts what its application answers.

    Args:
        app: The application.
        metrics: Counts.
        clock: The time.
    """

    def __init__(self, app: ASGIApp, metrics: PageMetrics, clock: Clock) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered; one that gets no answer counts as 499, as in nginx."""
        began, status = self._clock.monotonic(), 499
        ended: float | None = None

        async def send_and_note(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                ended = self._clock.monotonic()  # what is done for the next answer comes later

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            view = view_of(str(scope.get("path", "")))
            until = self._clock.monotonic() if ended is None else ended
            self._metrics.on_request(view, status, until - began)
