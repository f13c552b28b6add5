"""Helpers for tests of the fake API server: a server with one custom kind, and requests."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.fake_api_server.watch_stream import FakeStream
from shared_api.process.clock import Clock
from shared_api.testing.virtual_clock import VirtualClock

GROUP = "example.com/v1"
THINGS = "/apis/example.com/v1/namespaces/default/things"
SECONDS = 5.0

Json = Any

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def thing(name: str, **fields: Json) -> Json:
    """Return a Thing."""
    return {"apiVersion": GROUP, "kind": "Thing", "metadata": {"name": name}, **fields}


def make_server(clock: Clock | None = None, seed: int = 1, **settings: Any) -> FakeApiServer:
    """Return a server that serves Things."""
    server = FakeApiServer(clock=clock or VirtualClock(), rng=random.Random(seed), **settings)
    server.direct.create(CRD)
    return server


def ask(server: FakeApiServer, method: str, path: str, body: Json = None) -> Response:
    """Send one request, counted and subject to faults."""
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    encoded = b"" if body is None else msgspec.json.encode(body)
    return server.send(
        Request(method, path, headers=(("content-type", content_type),), body=encoded), SECONDS
    )


def watch(server: FakeApiServer, path: str = THINGS, **query: str) -> FakeStream:
    """Open a watch."""
    return server.stream(Request("GET", path, (("watch", "true"), *query.items())), SECONDS)


def read_all(stream: FakeStream) -> list[tuple[str, str]]:
    """Return type and name of all unread events."""
    events: list[tuple[str, str]] = []
    while True:
        line = stream.take_line()
        if line is None:
            return events
        event = msgspec.json.decode(line)
        events.append((event["type"], event["object"]["metadata"].get("name", "")))
