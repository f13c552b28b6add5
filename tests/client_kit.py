"""A client of the fake API server, and one that asks it for reviews of access."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.client.transport import Transport
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import Clock
from shared_api.testing.virtual_clock import VirtualClock


def client_to(transport: Transport, clock: Clock) -> ResourceClient:
    """Return a client without a limit of requests."""
    flow = FlowControl(0, 1, clock)
    return ResourceClient(transport, flow=flow, clock=clock, rng=random.Random(1))


class ReviewingServer:
    """A server that knows user ann by her token, and a client of it.

    Attributes:
        specs: The reviews that were asked for.
    """

    def __init__(self, *why: str) -> None:
        """Make the server; `why`: values of an extra field of the user."""
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
        self.server.reviews.users["ann-token"] = {
            "username": "ann",
            "uid": "ann-1",
            "groups": ["staff"],
            "extra": {"why": list(why)},
        }
        self.client = client_to(self.server, self.clock)
        self.specs: list[dict[str, Any]] = []

    def allow(self, *, answer: bool) -> None:
        """Let all reviews have this answer."""

        def allows(spec: dict[str, Any]) -> bool:
            self.specs.append(spec)
            return answer

        self.server.reviews.allows = allows

    def asked(self) -> Counter[str]:
        """Return how many requests there were for each kind."""
        return Counter(entry.info.plural for entry in self.server.journal)
