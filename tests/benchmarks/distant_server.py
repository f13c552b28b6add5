"""The fake API server in its own process, for measurements of programs over real HTTP."""

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
"""Timeout for filling the server."""


class DistantServer:
    """The server as the measuring process sees it."""

    def __init__(self, pipe: Connection, folder: Path) -> None:
        self._pipe = pipe
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig_of(self._answer())), encoding="utf-8")

    def ask(self, question: object = None) -> Any:
        """Send a question; return the reply to it."""
        self._pipe.send(question)
        return self._answer()

    def _answer(self) -> Any:
        if not self._pipe.poll(START_SECONDS):
            message = f"the fake API server did not answer within {START_SECONDS:g} s"
            raise RuntimeError(message)
        return self._pipe.recv()


@contextmanager
def distant_server(serve: Callable[[Connection], None]) -> Iterator[DistantServer]:
    """Run `serve`, which must call `reply`, in its own process."""
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
    """Return a server with our kinds, and this many namespaces with a quota each, from "team-0".

    Without garbage collection, since the owners of the objects are never created.
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
    """Serve over HTTP, and answer the parent's questions with these replies, in order."""
    with server.serve_http() as face:
        parent.send(face.url)
        try:
            for make in replies:
                parent.send(make(parent.recv()))
            parent.recv()
        except EOFError:
            pass  # the parent has ended


def _kubeconfig_of(url: str) -> dict[str, Any]:
    """Return a kubeconfig for an API server without authentication."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}],
        "current-context": "fake",
    }
