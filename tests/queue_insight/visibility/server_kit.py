"""The aggregated API's server on loopback, with an API server in memory behind it."""

from __future__ import annotations

import json
import random
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from queue_insight.insight_program.flags import PROGRAM, parse_insight_flags
from queue_insight.visibility.caller import CALLER, Judge
from queue_insight.visibility.server import VisibilityServer
from queue_insight.visibility.snapshots import KeptSnapshots
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.local_program import LocalProgram
from shared_api.process.clock import SystemClock
from shared_api.process.memory_file import memory_file
from shared_api.process.probes import Address, open_listener
from tests.client_certificates import Identity, make_authority, sign_client
from tests.client_kit import client_to
from tests.process_state import process_as_before
from tests.queue_insight.api_service_kit import SERVICE
from tests.queue_insight.insight_process import PATIENCE_SECONDS

NOW = SystemClock().now()
PROXIES = make_authority("front-proxy-ca", NOW)
USERS = make_authority("cluster-ca", NOW)
PROXY = sign_client(PROXIES, "aggregator", now=NOW)
API_SERVICE = "v1alpha1.visibility.koord-queue"
BASE = "/apis/visibility.koord-queue/v1alpha1"
LIST = f"{BASE}/namespaces/team/pendingunits"


def trust_data(proxies: Identity = PROXIES) -> dict[str, str]:
    """Return the data of the ConfigMap in which the API server says whom it believes."""
    return {
        "requestheader-client-ca-file": proxies.pem,
        "client-ca-file": USERS.pem,
        "requestheader-allowed-names": json.dumps(["aggregator"]),
        "requestheader-username-headers": json.dumps(["X-Remote-User"]),
        "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
        "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
    }


def api_service_definition() -> dict[str, Any]:
    """Return what makes the server in memory serve APIServices."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "apiservices.apiregistration.k8s.io"},
        "spec": {
            "group": "apiregistration.k8s.io",
            "scope": "Cluster",
            "names": {"plural": "apiservices", "kind": "APIService"},
            "versions": [version],
        },
    }


def build_fake_server() -> FakeApiServer:
    """Return an API server with the ConfigMap and an APIService that trusts nobody yet.

    It has a Service: the server in memory has no server-side apply, by which one is created.
    """
    server = FakeApiServer(clock=SystemClock(), rng=random.Random(7))
    server.direct.create(api_service_definition())
    named = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    spec = {"service": SERVICE.as_written()}
    server.direct.create({**named, "metadata": {"name": API_SERVICE}, "spec": spec})
    meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": trust_data()}
    server.direct.create(config)
    return server


def echo(request: Request) -> Response:
    """Answer what the application gets of a request."""
    caller = request.scope["state"][CALLER]
    got = {
        "user": caller.user,
        "groups": list(caller.groups),
        "extra": {key: list(values) for key, values in caller.extra.items()},
        "headers": sorted(request.headers),
        "body": int(request.headers.get("content-length", "0")),
    }
    return JSONResponse(got)


@dataclass
class Served:
    """A running server; `kept`: the states that its application was given, after a request."""

    fake: FakeApiServer
    server: VisibilityServer
    port: int
    kept: list[KeptSnapshots]

    def ask(
        self,
        path: str = LIST,
        *,
        identity: Identity | None = None,
        headers: list[tuple[str, str]] | None = None,
        body: bytes = b"",
    ) -> httpx.Response:
        """Send one request on a connection of its own; callable from many threads at once."""
        # A context of its own, too: httpx sets the protocols of its context at every connection,
        # and OpenSSL copies them without a lock when another thread begins one.
        context = self._client_context(identity)
        with httpx.Client(verify=context, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            return client.request(
                "POST" if body else "GET",
                f"https://127.0.0.1:{self.port}{path}",
                headers=headers,
                content=body,
                extensions={"sni_hostname": f"{SERVICE.name}.{SERVICE.namespace}.svc"},
            )

    def _client_context(self, identity: Identity | None) -> ssl.SSLContext:
        """Return the context of a client that trusts what the APIService says."""
        spec = self.fake.direct.get("apiservices", API_SERVICE)["spec"]
        context = ssl.create_default_context(cadata=b64decode(spec["caBundle"]).decode())
        if identity is not None:
            with memory_file((identity.pem + identity.key_pem).encode()) as path:
                context.load_cert_chain(path)
        return context


@contextmanager
def served(folder: Path, answer: Callable[[Request], Response] = echo) -> Iterator[Served]:
    """Run a server whose application answers what it gets."""
    with process_as_before():
        flags = parse_insight_flags([f"--socket-dir={folder}"])
        program = LocalProgram(PROGRAM, flags.process)
        fake = build_fake_server()
        client = client_to(fake, program.clock)
        listener = open_listener(Address("127.0.0.1", 0), "--visibility-address")
        app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
        port = listener.getsockname()[1]
        keepers: list[KeptSnapshots] = []

        def build(_judge: Judge, kept: KeptSnapshots) -> Starlette:
            keepers.append(kept)
            return app

        server = VisibilityServer(program, client, listener, SERVICE, lambda: True, build)
        server.look_after()
        server.start()
        try:
            yield Served(fake, server, port, keepers)
        finally:
            server.stop()
