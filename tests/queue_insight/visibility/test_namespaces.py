"""Namespaces of manifests are read from the API server."""

from __future__ import annotations

import random

import pytest

from queue_insight.visibility.namespaces import namespace_reader
from queue_insight.visibility.statuses import StatusError
from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.object_builders import namespace_body
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to


def test_a_namespace_is_read() -> None:
    clock = VirtualClock()
    server = FakeApiServer(clock=clock, rng=random.Random(7))
    server.direct.create(namespace_body("lab", labels={"a": "b"}))
    read = namespace_reader(client_to(server, clock))
    found = read("lab")
    assert found is not None
    assert found.metadata.labels["a"] == "b"
    assert read("nowhere") is None


@pytest.mark.parametrize("code", [403, 500])
def test_one_that_cannot_be_read_is_not_taken_for_missing(code: int) -> None:
    clock = VirtualClock()
    server = FakeApiServer(clock=clock, rng=random.Random(7))
    server.faults.fail(code, times=99, match=Match(plural="namespaces"))
    read = namespace_reader(client_to(server, clock))
    with pytest.raises(StatusError) as raised:
        read("lab")
    assert raised.value.code.value == 503
