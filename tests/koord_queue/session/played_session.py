"""A session of a command on an API server in memory, where something happens meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, Final

from koord_queue.answers.jobs import Job
from koord_queue.reach.choice import Choice
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.errors import NotServed
from koord_queue.reach.questions import Question
from koord_queue.session.session import Session
from koord_queue.show.printer import Printer
from shared_api.client.transport import Request, Response
from shared_api.testing.fake_api_server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock

CRDS: Final = Path(__file__).resolve().parents[3] / "crds"


def nothing() -> None:
    """Let nothing happen."""


class PlayedClock(VirtualClock):
    """A clock on which something happens whenever a command rests."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = nothing

    def sleep(self, seconds: float) -> None:
        self.meanwhile()
        self.advance(seconds)


class PlayedSession(Session):
    """A session whose output is kept.

    Attributes:
        server: Its API server.
        source: Answers questions.
        job_source: Answers those about jobs without a unit.
        before_write: Happens once, right before the first write of the command.
        out_text, err_text: What was written.
    """

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__(Choice())
        self.time = PlayedClock()
        self.server = FakeApiServer(clock=self.time, rng=random.Random(7))
        self.server.direct.create_from(CRDS)
        self.out_text, self.err_text = StringIO(), StringIO()
        self.before_write: Callable[[], None] = nothing
        self._printer = Printer(self.out_text, self.err_text, is_terminal=is_terminal)
        self.source: Any = NoAnswers()
        self.job_source: Any = NoControllers()

    @property
    def clock(self) -> PlayedClock:
        return self.time

    @property
    def out(self) -> Printer:
        return self._printer

    def cluster(self) -> Cluster:
        return Cluster(self, "default", "played")

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Answer a request of the command."""
        if request.method != "GET":
            happens, self.before_write = self.before_write, nothing
            happens()
        return self.server.send(request, timeout_seconds)

    def stream(self, request: Request, timeout_seconds: float) -> Any:
        """Answer a watch of the command."""
        return self.server.stream(request, timeout_seconds)

    def close(self) -> None:
        """Stay as it is: the test reads it."""

    def sources(self) -> Any:
        """Return what answers questions; nothing does unless a test says so."""
        return self.source

    def controllers(self) -> Any:
        """Return what answers questions about jobs; nothing does unless a test says so."""
        return self.job_source


class NoAnswers:
    """Stands for the APIs of the queue where none is installed."""

    def answer(self, question: Question[Any]) -> Any:
        """Answer nothing."""
        raise NotServed(f"nobody answers {question.name}")


class NoControllers:
    """Stands for the controllers where they cannot be asked."""

    def job(self, namespace: str, kind: str, name: str) -> Job:
        """Answer nothing."""
        raise NotServed("you may not forward ports in namespace koord-queue")
