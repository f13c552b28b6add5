"""Routes that ask the API server, each with the visitor's own token: pods, events, YAML.

They are asked only when a visitor opens that part of a view. They have turns and threads of
their own: while the API server is slow, all that the engine's copy answers comes as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Depends, FastAPI, Request
from starlette.responses import Response

from queue_insight.debug_api.answer_turns import AnswerTurns, CallerOf
from queue_insight.page.manifests import ManifestView, read_manifest
from queue_insight.page.sources import PageSources
from queue_insight.page.stated_objects import (
    StatedObject,
    find_policy_object,
    find_queue_object,
    find_quota_object,
)
from queue_insight.page.unit_events import EventsView, read_events
from queue_insight.page.unit_manifests import read_job, read_unit
from queue_insight.page.unit_objects import UnitObjects, find_objects
from queue_insight.page.unit_pods import PodsView, read_pods
from queue_insight.page.unit_view import check_namespace
from queue_insight.page.visitor_client import VisitorClient, segment
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api.parameters import At, Name, QuotaPath
from queue_scheduler.debug_api.state_answers import found_or_unknown
from queue_scheduler.engine.engine import Engine
from shared_api.caller_shares import ShareLimits
from shared_api.client.transport import Transport
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError

T = TypeVar("T")

LIMITS: Final = ShareLimits(
    # Each reads answers of up to `visitor_client.MAX_ANSWER_BYTES`.
    places=8,
    waiting=32,
    patience_seconds=10.0,
    own_places=2,
    # Seconds are those that the API server takes, mostly some hundredths for each request.
    rate=2.0,
    own_rate=0.25,
    saved_seconds=20.0,
)
"""How many answers may be in progress, and how many seconds they may take: of all visitors, and of
each."""

Of = Literal["unit", "job"]

_READERS: Final = {"unit": read_unit, "job": read_job}

Stated = Literal["queue", "quota", "policy"]

_STATED: Final[dict[Stated, tuple[Callable[[Engine, str], StatedObject | None], str]]] = {
    "queue": (find_queue_object, "queue"),
    "quota": (find_quota_object, "object of quota"),
    "policy": (find_policy_object, "QuotaPolicy of quota"),
}
"""What is found by a name, and what is said to be unknown."""


class ApiAnswers:
    """Builds the answers; callable from any thread.

    Args:
        sources: Which objects belong to a unit.
        transport: Sends requests to the API server, without credentials of its own.
    """

    def __init__(self, sources: PageSources, transport: Transport) -> None:
        self._sources = sources
        self._transport = transport

    def ask(
        self,
        visitor: Visitor,
        unit: tuple[str, str],
        at: At,
        read: Callable[[VisitorClient, UnitObjects], T],
    ) -> T:
        """Return what is read for a visitor.

        Args:
            visitor: Who asks.
            unit: Namespace and name.
            at: None, or it is refused: the API server has no earlier times.
            read: Reads of the API server.

        Raises:
            QuestionError: The visitor may not read the namespace, or the unit is unknown.
        """
        namespace, name = unit
        check_namespace(visitor, namespace)
        _refuse_earlier(at)
        found = find_objects(self._sources.at(None).shared, namespace, name)
        objects = found_or_unknown(found, f"queue unit {namespace}/{name}")
        return read(self._client(visitor), objects)

    def read_stated(self, visitor: Visitor, of: Stated, name: str, at: At) -> bytes:
        """Return an object that states a queue or a quota, as `ManifestView`.

        Args:
            visitor: Who asks.
            of: What is stated in it.
            name: Of the queue or quota.
            at: None, or it is refused.

        Raises:
            QuestionError: It is unknown; or it is a policy, which names users, and the visitor may
                not read the units of all namespaces.
        """
        _refuse_earlier(at)
        if of == "policy" and not visitor.reads_all:
            refused = "you may not list the units of all namespaces, and a QuotaPolicy names users"
            raise QuestionError(Code.PERMISSION_DENIED, refused)
        find, what = _STATED[of]
        found = self._sources.at(None).shared.ask(find, name)
        kind, namespace, own_name = found_or_unknown(found, f"{what} {name}")
        client = self._client(visitor)
        return read_manifest(
            lambda: client.get_raw(kind.path(segment(namespace), segment(own_name)))
        )

    def _client(self, visitor: Visitor) -> VisitorClient:
        token = "" if visitor.session is None else visitor.session.token
        return VisitorClient(self._transport, token, self._sources.clock)


def _refuse_earlier(at: At) -> None:
    if at is not None:
        raise QuestionError(Code.INVALID_ARGUMENT, "at: the API server is asked of now only")


def add_api_answers(
    app: FastAPI,
    sources: PageSources,
    transport: Transport,
    identify: Callable[[Request], Visitor],
    asker: CallerOf,
) -> None:
    """Add the routes.

    Args:
        app: The application.
        sources: Which objects belong to a unit.
        transport: Sends requests to the API server, without credentials of its own.
        identify: Returns who asks.
        asker: Returns whose share an answer is charged to.
    """
    answers = ApiAnswers(sources, transport)
    turns = AnswerTurns(sources.clock, LIMITS)
    Asking = Annotated[Visitor, Depends(identify)]  # noqa: N806 - a type

    def pods(visitor: Asking, namespace: Name, name: Name, at: At = None) -> PodsView:
        return answers.ask(visitor, (namespace, name), at, read_pods)

    def events(visitor: Asking, namespace: Name, name: Name, at: At = None) -> EventsView:
        return answers.ask(visitor, (namespace, name), at, read_events)

    def manifest(visitor: Asking, namespace: Name, name: Name, of: Of, at: At = None) -> Response:
        content = answers.ask(visitor, (namespace, name), at, _READERS[of])
        return Response(content, media_type="application/json")

    def stated(visitor: Asking, of: Stated, name: QuotaPath, at: At = None) -> Response:
        return Response(answers.read_stated(visitor, of, name, at), media_type="application/json")

    unit = "/page/units/{namespace}/{name}"
    routes: dict[str, tuple[Callable[..., Any], type[View]]] = {
        f"{unit}/pods": (pods, PodsView),
        f"{unit}/events": (events, EventsView),
        f"{unit}/manifests/{{of}}": (manifest, ManifestView),
        "/page/manifests/{of}/{name:path}": (stated, ManifestView),
    }
    for path, (answer, view) in routes.items():
        answer.__annotations__["visitor"] = Asking  # a text here, and the name of a local type
        timed = turns.in_turn(answer, asker)
        app.get(path, response_model=view, responses=problems(429))(timed)
