"""An API server that answers one visitor, and what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from queue_insight.page.unit_objects import KnownPod, UnitObjects
from queue_insight.page.visitor_client import VisitorClient
from shared_api.client.errors import ApiFailure
from shared_api.client.transport import Request, Response, ResponseStream
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import ConsumerReference
from shared_api.testing.virtual_clock import VirtualClock

TOKEN = "token-of-ann"
JOB = ConsumerReference(
    api_version="batch/v1", kind="Job", namespace="default", name="train", uid=Uid("job-uid")
)
DISCOVERY = "/apis/batch/v1"
JOBS: dict[str, Any] = {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}

Answer = bytes | dict[str, Any] | ApiFailure | Response


class PlayedApi:
    """A `Transport` that answers by path; other paths are not found.

    Attributes:
        asked: The requests, in order.
    """

    def __init__(self, answers: dict[str, Answer | Callable[[Request], Answer]]) -> None:
        self.answers = answers
        self.asked: list[Request] = []

    def send(self, request: Request, timeout_seconds: float) -> Response:
        assert timeout_seconds > 0
        self.asked.append(request)
        answer = self.answers.get(request.path, Response(404, {}, b'{"message": "not there"}'))
        found = answer(request) if callable(answer) else answer
        match found:
            case ApiFailure():
                raise found
            case Response():
                return found
            case bytes():
                return Response(200, {}, found)
            case _:
                return Response(200, {}, json.dumps(found).encode())

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        raise AssertionError("nothing is watched for a visitor")

    def close(self) -> None:
        """Nothing is open."""

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for."""
        return [each.path for each in self.asked]

    def client(self, token: str = TOKEN) -> VisitorClient:
        """Return a client for one answer."""
        return VisitorClient(self, token, VirtualClock())


def unit(job: ConsumerReference | None = JOB, *pods: str, name: str = "train-unit") -> UnitObjects:
    """Return a unit with pods on node `n1`."""
    known = tuple(KnownPod(name=each, node="n1") for each in pods)
    return UnitObjects("default", name, "unit-uid", job, known)
