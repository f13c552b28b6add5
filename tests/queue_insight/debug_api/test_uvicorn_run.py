"""A server that another thread ends, whenever that is."""

from __future__ import annotations

import socket
from typing import cast

import uvicorn

from queue_insight.debug_api.uvicorn_run import UvicornRun


class FakeServer:
    """Notes that it ran; ends the run itself while it does."""

    should_exit = False

    def __init__(self, run: UvicornRun) -> None:
        self._run = run
        self.ran: list[bool] = []

    def run(self, sockets: list[socket.socket]) -> None:
        self._run.end()
        self.ran.append(self.should_exit)


def test_a_run_ends_while_it_serves_and_does_not_begin_afterwards() -> None:
    with socket.socket() as listener:
        run = UvicornRun(listener)
        first, second = FakeServer(run), FakeServer(run)
        run.serve(cast("uvicorn.Server", first))
        assert first.ran == [True]
        run.serve(cast("uvicorn.Server", second))
        assert second.ran == []
        run.close()
        assert listener.fileno() == -1
