"""The cluster in the demo's own process."""

from __future__ import annotations

import random

from shared_api.client.resource_types import NAMESPACES
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from tests.demo.embedded_cluster import CountingTransport
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import build_namespace


def test_only_the_programs_writes_are_counted() -> None:
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    counting = CountingTransport(server)
    program = JsonApi(counting, "koord-queue-scheduler/0.1.0")
    program.create(NAMESPACES, build_namespace("a"))
    program.patch(NAMESPACES, "", "a", {"status": {}}, subresource="status")
    program.get(NAMESPACES, "", "a")
    JsonApi(counting, "kubectl/1.36").create(NAMESPACES, build_namespace("b"))
    assert counting.counts() == {"create namespaces": 1, "patch namespaces/status": 1}
