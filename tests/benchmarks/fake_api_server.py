"""The speed of the fake API server: in process, and over HTTP with open watches.

    python -m tests.benchmarks.fake_api_server [--objects 20000] [--watches 50] [--seconds 5]

The HTTP clients run in their own processes, so that only the server's process is measured; on two
cores they still share the machine with it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from shared_api.client.connection_settings import FixedLogin, Login, connection_settings
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request, Transport
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import SystemClock
from shared_api.testing.object_builders import queue_unit_body

CRDS = Path(__file__).parents[2] / "crds"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
CREATE = (("content-type", "application/json"), ("accept", "application/json"))
PATCH = (("content-type", "application/merge-patch+json"), ("accept", "application/json"))
WAIT_SECONDS = 30.0
CLIENTS = 4
PAGE = 500


def new_server(*, waits: bool) -> FakeApiServer:
    """Return a server with the project's kinds."""
    server = FakeApiServer(clock=SystemClock(), rng=random.Random(1), waits=waits)
    server.direct.create_from(CRDS)
    return server


def creations(count: int) -> Iterator[Request]:
    """Yield requests that create QueueUnits."""
    for i in range(count):
        body = queue_unit_body(f"u{i}", quota="team", queue="team", priority=i % 10)
        yield Request("POST", UNITS, headers=CREATE, body=msgspec.json.encode(body))


def phase_patches(count: int, phase: str) -> Iterator[Request]:
    """Yield requests that write a phase with a condition."""
    condition = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "Reserved",
        "message": "fits",
        "lastTransitionTime": "2026-11-01T10:00:00Z",
    }
    body = msgspec.json.encode({"status": {"phase": phase, "conditions": [condition]}})
    for i in range(count):
        yield Request("PATCH", f"{UNITS}/u{i}/status", headers=PATCH, body=body)


def reads(count: int) -> Iterator[Request]:
    """Yield requests that read one unit each."""
    for i in range(count):
        yield Request("GET", f"{UNITS}/u{i}", headers=CREATE)


def time_each(transport: Transport, requests: Iterator[Request]) -> float:
    """Return microseconds of CPU per request; the requests are built beforehand."""
    prepared = list(requests)
    started = time.process_time()
    for request in prepared:
        response = transport.send(request, WAIT_SECONDS)
        assert response.status < 300, response.body
    return (time.process_time() - started) / len(prepared) * 1e6


def time_once(act: Callable[[], object]) -> float:
    """Return milliseconds of CPU of one call."""
    started = time.process_time()
    act()
    return (time.process_time() - started) * 1e3


def read_pages(server: FakeApiServer) -> None:
    """List all units, page by page."""
    token = ""
    while True:
        query = (("limit", str(PAGE)), ("continue", token))
        response = server.send(Request("GET", UNITS, query), WAIT_SECONDS)
        token = msgspec.json.decode(response.body)["metadata"].get("continue", "")
        if not token:
            return


def in_process(count: int) -> None:
    """Print the cost of a request without HTTP."""
    server = new_server(waits=False)
    print(f"CPU in process, {count} QueueUnits:")
    print(f"  create                 {time_each(server, creations(count)):8.1f} us")
    print(f"  status patch           {time_each(server, phase_patches(count, 'Reserved')):8.1f} us")
    print(f"  get                    {time_each(server, reads(count)):8.1f} us")
    watched = (("watch", "true"), ("resourceVersion", str(server.resource_version)))
    for _ in range(5):
        server.stream(Request("GET", UNITS, watched), WAIT_SECONDS)
    cost = time_each(server, phase_patches(count, "Dequeued"))
    print(f"  status patch, 5 watches{cost:8.1f} us")
    whole = time_once(lambda: server.send(Request("GET", UNITS), WAIT_SECONDS))
    print(f"  list, whole            {whole:8.1f} ms")
    print(f"  list, in pages of {PAGE}  {time_once(lambda: read_pages(server)):8.1f} ms")


def transport_to(url: str) -> HttpTransport:
    """Return the product's transport."""
    return HttpTransport(connection_settings(url, FixedLogin(Login())), SystemClock())


def patch_for(url: str, seed: int, seconds: float, results: multiprocessing.Queue[int]) -> None:
    """Patch the messages of random units for some seconds; a client process."""
    rng, transport = random.Random(seed), transport_to(url)
    done, ends = 0, time.perf_counter() + seconds
    while time.perf_counter() < ends:
        body = msgspec.json.encode({"status": {"message": f"{rng.randrange(1000)}"}})
        path = f"{UNITS}/u{rng.randrange(1000)}/status"
        response = transport.send(Request("PATCH", path, headers=PATCH, body=body), WAIT_SECONDS)
        assert response.status == 200, response.body
        done += 1
    results.put(done)


def watch_for(url: str, count: int, results: multiprocessing.Queue[int]) -> None:
    """Hold watches open without reading their lines, so that all cost is the server's."""
    transport = transport_to(url)
    query = (("watch", "true"), ("resourceVersion", "0"), ("labelSelector", "none=none"))
    streams = [transport.stream(Request("GET", UNITS, query), WAIT_SECONDS) for _ in range(count)]
    results.put(len(streams))
    time.sleep(WAIT_SECONDS)


def over_http(watches: int, seconds: float) -> None:
    """Print how many writes per second the server processes over HTTP."""
    server = new_server(waits=True)
    for request in creations(1000):
        server.send(request, WAIT_SECONDS)
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    with server.serve_http() as face, ExitStack() as opened:
        if watches:
            watcher = context.Process(target=watch_for, args=(face.url, watches, results))
            watcher.start()
            opened.callback(watcher.terminate)
            results.get()
        used = time.process_time()
        clients = [
            context.Process(target=patch_for, args=(face.url, seed, seconds, results))
            for seed in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        done = sum(results.get() for _ in clients)
        used = time.process_time() - used
        for client in clients:
            client.join()
        print(
            f"over HTTP, {CLIENTS} clients, {watches} watches: {done / seconds:8.0f} status "
            f"patches/s, {used / done * 1e6:.0f} us CPU of the server each"
        )


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--watches", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    in_process(options.objects)
    over_http(0, options.seconds)
    over_http(options.watches, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
