"""The fake API server in a process of its own, for programs that are measured behind real HTTP."""

from __future__ import annotations

import json
import multiprocessing
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import SystemClock
from shared_api.testing.object_builders import elastic_quota_body, namespace_body
from tests.benchmarks.cluster_world import CRDS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

AS_SHIPPED: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")
START_SECONDS: Final = 900.0
"""For the server to be filled."""


class DistantServer:
    """The server, seen from the process that measures."""

    def __init__(self, pipe: Connection, folder: Path) -> None:
        self._pipe = pipe
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig_of(self._answer())), encoding="utf-8")

    def ask(self, question: object = None) -> Any:
        """Send what its next reply is made of; return the reply."""
        self._pipe.send(question)
        return self._answer()

    def _answer(self) -> Any:
        if not self._pipe.poll(START_SECONDS):
            message = f"the fake API server did not answer within {START_SECONDS:g} s"
            raise RuntimeError(message)
        return self._pipe.recv()


@contextmanager
def distant_server(serve: Callable[[Connection], None]) -> Iterator[DistantServer]:
    """Run `serve`, which calls `reply`, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield DistantServer(ours, Path(folder))
    finally:
        ours.close()
        process.join(START_SECONDS)


def new_server(teams: int, limits: Mapping[str, str]) -> FakeApiServer:
    """Return a server with our kinds, and so many namespaces with a quota each, "team-0" first.

    Without garbage collection: what owns the objects that are put there was never made.
    """
    server = FakeApiServer(
        clock=SystemClock(), rng=random.Random(1), waits=True, collects_garbage=False
    )
    for path in CRDS:
        server.direct.create_from(path)
    server.direct.create(namespace_body("koord-queue"))
    for number in range(teams):
        server.direct.create(namespace_body(f"team-{number}"))
        server.direct.create(elastic_quota_body(f"team-{number}", min=limits, max=limits))
    return server


def reply(server: FakeApiServer, parent: Connection, *replies: Callable[[Any], Any]) -> None:
    """Serve, and make these replies to what the parent asks, one after the other."""
    with server.serve_http() as face:
        parent.send(face.url)
        try:
            for make in replies:
                parent.send(make(parent.recv()))
            parent.recv()
        except EOFError:
            pass  # the parent has gone


def _kubeconfig_of(url: str) -> dict[str, Any]:
    """Return a kubeconfig for an API server that asks for no login."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}],
        "current-context": "fake",
    }
