"""An API server that knows one user, and an authorizer that asks it."""

from __future__ import annotations

import random
from collections import Counter
from http import HTTPStatus
from typing import Any, Final

from shared_api.authorization.authorizer import Authorizer, Policy
from shared_api.authorization.caller import Caller
from shared_api.authorization.rights import PathRight, ReviewedRight, Right
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock

ANN: Final = Caller("ann", "ann-1", ("staff",), {"why": ("test", "more")})
BEARER: Final = "Bearer ann-token"
METRICS: Final = PathRight("/metrics")

POLICY: Final = Policy(allowed_seconds=60.0, refused_seconds=5.0, failed_seconds=2.0, entries=100)


class ReviewDesk:
    """A server that knows user ann, and an authorizer that asks it.

    Args:
        policy: Of the authorizer.
        qps: The rate limit of its client; 0: none.
        burst: The same after a pause.

    Attributes:
        specs: The specs of the reviews of rights, in order.
        seconds: How long the server takes for a review of a right.
    """

    def __init__(self, policy: Policy = POLICY, qps: float = 0.0, burst: int = 1) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
        self.server.reviews.users["ann-token"] = {
            "username": "ann",
            "groups": ["staff"],
            "uid": "ann-1",
            "extra": {"why": ["test", "more"]},
        }
        flow = FlowControl(qps, burst, self.clock)
        client = ResourceClient(self.server, flow=flow, clock=self.clock, rng=random.Random(1))
        self.authorizer = Authorizer(client, self.clock, policy)
        self.specs: list[dict[str, Any]] = []
        self.seconds = 0.0

    def allow(self, *, answer: bool) -> None:
        """Answer all reviews of rights from now on."""

        def allows(spec: dict[str, Any]) -> bool:
            self.specs.append(spec)
            self.clock.advance(self.seconds)
            return answer

        self.server.reviews.allows = allows

    def judge(self, right: ReviewedRight = METRICS, caller: Caller = ANN) -> HTTPStatus:
        """Return whether a caller has a right."""
        return self.authorizer.judge(caller, right).status

    def judge_bearer(self, authorization: str = BEARER, right: Right = METRICS) -> HTTPStatus:
        """Return whether the request of a token is allowed."""
        return self.authorizer.judge_bearer(authorization, right).status

    def identify(self, token: str) -> HTTPStatus:
        """Return whether a token is valid."""
        return self.authorizer.identify(token).status

    def asked(self) -> Counter[str]:
        """Return how many reviews of each kind the server has made."""
        return Counter(entry.info.plural for entry in self.server.journal)
