"""The fixture `api`: a fresh namespace on each of the three servers in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shared_api.client.transport import Transport
from tests.contracts.api_server.server_under_test import (
    Api,
    client_of,
    fake_in_process,
    fake_over_http,
    fresh_namespace,
    install_crds,
    real_server,
)

SERVERS = [
    pytest.param("fake", id="fake"),
    pytest.param("http", id="fake over HTTP"),
    pytest.param("real", id="real", marks=pytest.mark.cluster),
]


@pytest.fixture(scope="session", params=SERVERS)
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    """A transport to one server, with the kinds of the suite installed."""
    with ExitStack() as opened:
        way: Transport
        match request.param:
            case "fake":
                way = opened.enter_context(fake_in_process())
            case "http":
                face = opened.enter_context(fake_over_http())
                way = opened.enter_context(client_of(face))
            case _:
                binaries: Path = request.getfixturevalue("controlplane_binaries")
                plane = opened.enter_context(real_server(binaries))
                way = opened.enter_context(client_of(plane))
        install_crds(way)
        yield way


@pytest.fixture
def api(transport: Transport) -> Api:
    """One server, in a fresh namespace."""
    return Api(transport, fresh_namespace(transport))
