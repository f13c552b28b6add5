"""The delay of a kubelet's probe while clients hold half-open connections on every port.

The ports are in their own process, as in a program: health, metrics, and debug, each with its own
gate. With each probe, some new half-open connections are made to every port, so that their number
on the client's side is constant, and the newest of them are open on the server's side. Control: the
same probes without other connections.
"""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from shared_api.process.clock import SystemClock
from shared_api.process.connection_gate import ConnectionGate
from shared_api.process.http_exchange import Answer
from shared_api.process.loop_thread import LoopThread
from shared_api.process.open_files import WANTED
from shared_api.process.probes import Address, open_listener
from tests.benchmarks.figures import Figure, percentile

ROOT: Final = Path(__file__).parents[2]
HALF_OPEN: Final = 1000
PROBES: Final = 1000
FRESH: Final = 10
"""New half-open connections on each port between two probes."""
PATIENCE_SECONDS: Final = 10.0
REQUEST: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

Crowd = deque[socket.socket]


def run(*, quick: bool = False) -> list[Figure]:
    """Measure; `quick` makes a tenth of the probes."""
    probes = PROBES // 10 if quick else PROBES
    _allow_open_files(len(WANTED) * HALF_OPEN + 512)
    with ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.benchmarks.probe_lateness"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        stack.callback(server.terminate)
        assert server.stdout is not None
        ports = [int(port) for port in server.stdout.readline().split()]
        _probe(ports[0])
        quiet = [_measure(ports[0], lambda: None) for _ in range(probes)]
        crowds = [Crowd() for _ in ports]
        stack.callback(_close, crowds)
        for crowd, port in zip(crowds, ports, strict=True):
            _open(crowd, port, HALF_OPEN)

        def refresh() -> None:
            for crowd, port in zip(crowds, ports, strict=True):
                _open(crowd, port, FRESH)

        crowded = [_measure(ports[0], refresh) for _ in range(probes)]
    note = f"{probes} probes, {HALF_OPEN} half-open on each of {len(ports)} ports; control: none"
    return [
        Figure(
            name=f"probe_ms_{what}",
            value=percentile(crowded, share),
            unit="ms",
            control=percentile(quiet, share),
            note=note,
        )
        for what, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    ]


def serve() -> None:
    """Serve three ports until stdin ends, and print their numbers."""
    clock = SystemClock()
    numbers = []
    for name, limit in WANTED.items():
        listener = open_listener(Address("127.0.0.1", 0), f"--{name}-address")
        numbers.append(listener.getsockname()[1])
        gate = ConnectionGate(listener, lambda _: Answer(200, b"ok"), limit=limit, clock=clock)
        for thread in gate.threads(name, lambda called, step: LoopThread(called, step, clock)):
            thread.start()
    print(*numbers, flush=True)
    sys.stdin.read()


def _allow_open_files(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


def _measure(port: int, before: Callable[[], None]) -> float:
    before()
    began = time.perf_counter()
    _probe(port)
    return 1000 * (time.perf_counter() - began)


def _probe(port: int) -> None:
    with closing(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)) as connection:
        connection.sendall(REQUEST)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.endswith(b"\r\n\r\nok"), answer


def _open(crowd: Crowd, port: int, count: int) -> None:
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        connection.sendall(b"GET /livez HT")
        crowd.append(connection)
        if len(crowd) > HALF_OPEN:
            crowd.popleft().close()


def _close(crowds: list[Crowd]) -> None:
    for crowd in crowds:
        for connection in crowd:
            connection.close()


if __name__ == "__main__":
    serve()
