"""The three servers of the conformance suite, and the client of its tests.

A test asks for the fixture `api` and so runs against the fake server in process, the fake server
over HTTP, and a real kube-apiserver with its controllers (marker `cluster`). It must not depend on
which one it gets: a difference is to be fixed, or documented in fake_api_server/server.py.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from shared_api.client.connection_settings import FixedLogin, Login, connection_settings
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request, ResponseStream, Transport
from shared_api.fake_api_server.http_server import HttpFace
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import SystemClock
from tests.controlplane.binaries import is_before
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until

CRDS = Path(__file__).parents[2] / "data" / "crds" / "claims.yaml"
GROUP = "conformance.example.com/v1alpha1"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
REQUEST_SECONDS = 60.0
EVENTUALLY_SECONDS = 100.0
"""The real garbage collector discovers new kinds every 30 s and then takes a while; it and the
namespace controller share the machine with others. Less than the timeout of any test."""

of_1_36 = pytest.mark.skipif(is_before(1, 36), reason="Kubernetes before 1.36 has it otherwise")
"""Marks what the fake server does as 1.36 does."""

until_1_36 = pytest.mark.skipif(
    not is_before(1, 37), reason="Kubernetes from 1.37 on has it otherwise"
)
"""Marks what the fake server does as 1.36 does, and newer versions do not."""

Json = Any
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """Status and decoded body."""

    status: int
    body: Json

    @property
    def reason(self) -> str:
        """Return the reason of a Status."""
        return str(self.body.get("reason", ""))

    @property
    def fields(self) -> set[str]:
        """Return the paths of invalid fields."""
        return {cause["field"] for cause in self.body["details"]["causes"]}


class Watch:
    """Events of one watch."""

    def __init__(self, stream: ResponseStream) -> None:
        """Read from an open stream."""
        self.stream = stream

    def next(self, seconds: float = REQUEST_SECONDS) -> Json:
        """Return the next event; None at the end of the stream."""
        line = self.stream.read_line(seconds)
        return None if line is None else msgspec.json.decode(line)

    def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next events."""
        events = [self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


class Api:
    """Requests to one server, in the namespace of the test."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        """Use this transport; the namespace must exist."""
        self.transport = transport
        self.namespace = namespace
        self.claims = f"/apis/{GROUP}/namespaces/{namespace}/claims"
        self.plains = f"/apis/{GROUP}/namespaces/{namespace}/plains"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.config_maps = f"/api/v1/namespaces/{namespace}/configmaps"

    def ask(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        headers = (("accept", accept), ("content-type", content_type))
        pairs = tuple((query or {}).items())
        response = self.transport.send(
            Request(method, path, pairs, headers, encoded), REQUEST_SECONDS
        )
        try:
            return Answer(response.status, msgspec.json.decode(response.body))
        except msgspec.DecodeError:
            return Answer(response.status, response.body.decode())

    def create(self, path: str, body: Json, **query: str) -> Json:
        """Create an object, and expect success."""
        answer = self.ask("POST", path, body, query=query)
        assert answer.status == 201, answer
        return answer.body

    def get(self, path: str, **query: str) -> Json:
        """Read an object, and expect success."""
        answer = self.ask("GET", path, query=query)
        assert answer.status == 200, answer
        return answer.body

    def merge(self, path: str, patch: Json, **query: str) -> Answer:
        """Send a merge patch."""
        return self.ask("PATCH", path, patch, content_type=MERGE, query=query)

    def merged(self, path: str, patch: Json) -> Json:
        """Send a merge patch, and expect success."""
        answer = self.merge(path, patch)
        assert answer.status == 200, answer
        return answer.body

    def names(self, path: str, **query: str) -> list[str]:
        """Return the names in a list."""
        return [item["metadata"]["name"] for item in self.get(path, **query)["items"]]

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[Watch]:
        """An open watch."""
        pairs = (("watch", "true"), *query.items())
        headers = (("accept", "application/json"),)
        stream = self.transport.stream(Request("GET", path, pairs, headers), REQUEST_SECONDS)
        try:
            yield Watch(stream)
        finally:
            stream.close()


def claim(name: str, *, labels: Mapping[str, str] | None = None, **spec: Json) -> Json:
    """Return a Claim; `spec` is merged over {queue: aa}."""
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": GROUP,
        "kind": "Claim",
        "metadata": metadata,
        "spec": {"queue": "aa", **spec},
    }


def plain(name: str, **fields: Json) -> Json:
    """Return a Plain with these fields."""
    return {"apiVersion": GROUP, "kind": "Plain", "metadata": {"name": name}, **fields}


def config_map(name: str, **metadata: Json) -> Json:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def owner(body: Json, *, blocks: bool = False) -> Json:
    """Return a reference to an owner."""
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "uid": body["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }


def fresh_namespace(transport: Transport) -> str:
    """Create a namespace for one test."""
    name = f"conformance-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = Api(transport, "").ask("POST", "/api/v1/namespaces", body)
    assert answer.status == 201, answer
    return name


def install_crds(transport: Transport) -> None:
    """Create the kinds of the suite, and wait until they are served."""
    api = Api(transport, "default")
    for crd in yaml.safe_load_all(CRDS.read_text()):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert api.ask("POST", path, crd).status == 201
    until(lambda: api.ask("GET", api.claims).status == 200, EVENTUALLY_SECONDS)
    until(lambda: api.ask("GET", api.plains).status == 200, EVENTUALLY_SECONDS)
    # Discovery is updated a little later.
    until(lambda: is_discovered(api), EVENTUALLY_SECONDS)


def is_discovered(api: Api) -> bool:
    """Return whether discovery lists the kinds of the suite and their group."""
    group, version = GROUP.split("/")
    named = api.ask("GET", f"/apis/{group}/{version}")
    kinds = {each["name"] for each in named.body["resources"]} if named.status == 200 else set()
    groups = {each["name"] for each in api.get("/apis")["groups"]}
    return group in groups and {"claims", "claims/status", "plains"} <= kinds


@contextmanager
def fake_in_process() -> Iterator[Transport]:
    """The fake server, called directly."""
    yield FakeApiServer(clock=SystemClock(), rng=random.Random(1), waits=True)


@contextmanager
def fake_over_http() -> Iterator[HttpFace]:
    """The fake server, over sockets."""
    server = FakeApiServer(clock=SystemClock(), rng=random.Random(1), waits=True)
    with server.serve_http() as face:
        yield face


@contextmanager
def real_server(binaries: Path) -> Iterator[ControlPlane]:
    """A real API server, with the controllers that it needs."""
    with ControlPlane(binaries, controller_manager=True) as plane:
        yield plane


@contextmanager
def client_of(server: HttpFace | ControlPlane) -> Iterator[Transport]:
    """The product's own transport to a server."""
    login = Login()
    if isinstance(server, ControlPlane):
        login = Login(authorization=f"Bearer {server.token}", ca_pem=server.ca_file.read_bytes())
    settings = connection_settings(server.url, FixedLogin(login))
    transport = HttpTransport(settings, SystemClock())
    try:
        yield transport
    finally:
        transport.close()
