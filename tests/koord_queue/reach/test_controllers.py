"""How the controllers are reached, and what is told where they are not."""

from __future__ import annotations

from contextlib import ExitStack

import msgspec
import pytest

from koord_queue.errors import CommandError
from koord_queue.reach.choice import Choice
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.controllers import Controllers
from koord_queue.reach.debug_api import read_problem
from koord_queue.reach.errors import Missing, NotServed
from koord_queue.reach.port_forward import PortForwards
from shared_api.client.transport import Response
from shared_api.process.clock import SystemClock
from tests.koord_queue.reach.test_cluster import Server
from tests.koord_queue.reach.test_port_forward import cluster

MANAGED = {"kind": "Job", "name": "x", "managed": True, "message": "It is managed", "problems": []}


def test_whoever_may_not_forward_ports_is_told() -> None:
    clock = SystemClock()
    forwards = PortForwards(Choice(), lambda: cluster(may=False), clock)
    with pytest.raises(NotServed, match="you may not forward ports in namespace koord-queue"):
        Controllers(Choice(), forwards.url, clock, ExitStack()).job("team", "job", "x")


class Answering(Controllers):
    """Controllers whose server answers so."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(Choice(server="http://here:1"), lambda _: "", SystemClock(), ExitStack())
        reply = Response(status, {}, msgspec.json.encode(body))
        self.server = Server(reply)
        self._api = Cluster(self.server, "", "here:1", read_error=read_problem)


def test_a_job_is_asked_for_by_kind_and_name() -> None:
    asked = Answering(200, MANAGED)
    assert asked.job("team", "jobs.batch", "x").message == "It is managed"
    (request,) = asked.server.asked
    assert request.path == "/debug/jobs/team/jobs.batch/x"


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        pytest.param(404, {"detail": "Not Found"}, NotServed,
            "--server is not the debug API of the controllers", id="the scheduler's"),
        pytest.param(404, {"detail": "there is no Job 'x'"}, Missing, "there is no Job 'x'",
            id="no such job"),
        pytest.param(503, {"detail": "ask again in a moment"}, CommandError, "ask again",
            id="not read yet"),
        pytest.param(403, {"detail": "you may not get jobs"}, CommandError, "you may not get jobs",
            id="without the right"),
    ],
)  # fmt: skip
def test_why_there_is_no_answer(
    status: int, body: object, error: type[CommandError], message: str
) -> None:
    with pytest.raises(error, match=message):
        Answering(status, body).job("team", "job", "x")
