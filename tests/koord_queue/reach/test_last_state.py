"""What became of an object that is gone, by what the API server remembers."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from koord_queue.errors import CommandError
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.errors import Refused
from koord_queue.reach.last_state import last_state
from shared_api.client.errors import ConnectionLost, StreamIdle
from shared_api.client.transport import Request, Response, ResponseStream
from shared_api.testing.fake_api_server import FakeApiServer
from shared_api.testing.object_builders import job_body
from shared_api.testing.virtual_clock import VirtualClock

Json = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/default/jobs"


class Lines:
    """A transport whose watches have these lines; an exception is raised in the place of one."""

    def __init__(self, *lines: Json | Exception, status: int = 200) -> None:
        self._lines, self.status, self.headers = list(lines), status, dict[str, str]()
        self.is_closed = False

    def send(self, request: Request, timeout_seconds: float) -> Response:
        raise NotImplementedError

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        if self.status == 0:
            raise ConnectionLost("connection refused", sent=False)
        return self

    def read_line(self, timeout_seconds: float) -> bytes | None:
        line = self._lines.pop(0) if self._lines else None
        if isinstance(line, Exception):
            raise line
        return None if line is None else msgspec.json.encode(line)

    def close(self) -> None:
        self.is_closed = True


def event(kind: str, name: str, uid: str = "1") -> Json:
    return {"type": kind, "object": {"metadata": {"uid": uid}, "spec": name}}


def last(lines: Lines) -> str | None:
    """Return the `spec` of what was last."""
    found = last_state(Cluster(lines, "default", "api:443"), JOBS, "train", "1", "7")
    assert lines.is_closed
    return None if found is None else msgspec.json.decode(found)["spec"]


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param([], None, id="nothing has happened"),
        pytest.param([event("MODIFIED", "a"), event("MODIFIED", "b")], "b", id="it is still there"),
        pytest.param([event("DELETED", "a"), event("ADDED", "b")], "a", id="it is gone"),
        pytest.param([event("DELETED", "a", "2"), event("MODIFIED", "b")], "b", id="another's end"),
        pytest.param([event("ERROR", "gone", "")], None, id="the server has forgotten it"),
        pytest.param([event("MODIFIED", "a"), StreamIdle("late")], "a", id="the end comes late"),
    ],
)
def test_the_last_state(lines: list[Json | Exception], want: str | None) -> None:
    assert last(Lines(*lines)) == want


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        pytest.param(Lines({"reason": "Forbidden", "message": "no"}, status=403), Refused, "no",
            id="the right to watch is missing"),
        pytest.param(Lines(status=0), CommandError, "api:443 does not answer", id="no server"),
        pytest.param(Lines(ConnectionLost("it broke", sent=True)), CommandError, "it broke",
            id="the watch breaks"),
    ],
)  # fmt: skip
def test_what_is_not_answered(lines: Lines, error: type[CommandError], message: str) -> None:
    with pytest.raises(error, match=message):
        last_state(Cluster(lines, "default", "api:443"), JOBS, "train", "1", "7")
    assert lines.is_closed == bool(lines.status)


def test_only_changes_of_the_object_since_a_version_are_asked_for() -> None:
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(7))
    made = server.direct.create(job_body("train"))
    server.direct.create(job_body("other"))
    server.direct.delete("jobs", "train", "default")
    again = server.direct.create(job_body("train"))
    cluster = Cluster(server, "default", "played")
    for body, version in ((made, made), (again, made)):
        uid, since = body["metadata"]["uid"], version["metadata"]["resourceVersion"]
        found = last_state(cluster, JOBS, "train", uid, since)
        assert found is not None
        assert msgspec.json.decode(found)["metadata"]["uid"] == uid
