"""The check of an installation, part by part."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.crds import DEFINITIONS
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.installation_check import PAUSE_SECONDS, InstallationCheck, judge_lease
from shared_api.objects.lease import Lease, LeaseSpec
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339_micro

NOW = datetime(2026, 11, 1, 10, tzinfo=UTC)


def lease(seconds_ago: float, holder: str = "a", lasts: int | None = 15) -> Lease:
    renewed = rfc3339_micro(NOW - timedelta(seconds=seconds_ago))
    spec = LeaseSpec(holder_identity=holder, renew_time=renewed, lease_duration_seconds=lasts)
    return Lease(spec=spec)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(None, "does not exist", id="the program has never led"),
        pytest.param(lease(1, holder=""), "has no holder", id="it released the lease"),
        pytest.param(lease(16), "last renewed 16 s ago, by a: it has stopped", id="it has stopped"),
        pytest.param(lease(16, lasts=None), "16 s ago", id="a lease without a duration"),
        pytest.param(Lease(spec=LeaseSpec(holder_identity="a")), "never", id="never renewed"),
        pytest.param(lease(14), "", id="it leads"),
        pytest.param(lease(-2), "", id="by a clock that is ahead"),
    ],
)
def test_a_lease_shows_whether_its_program_runs(found: Lease | None, want: str) -> None:
    answer = judge_lease("x", found, NOW)
    assert answer.is_good == (not want)
    assert want in answer.text


class World:
    """A server in virtual time, and a check of one lease."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(1))
        client = ResourceClient(
            self.server,
            flow=FlowControl(0, 1, self.clock),
            clock=self.clock,
            rng=random.Random(1),
        )
        self.check = InstallationCheck(client, self.clock, "default", ["x"])

    def install(self) -> None:
        for definition in DEFINITIONS:
            self.server.direct.create(definition.body())

    def lead(self) -> None:
        spec = {"holderIdentity": "a", "leaseDurationSeconds": 15}
        spec["renewTime"] = rfc3339_micro(self.clock.now())
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        metadata = {"name": "x", "namespace": "default"}
        self.server.direct.create({**kind, "metadata": metadata, "spec": spec})


def test_every_part_has_a_line() -> None:
    world = World()
    assert [answer.is_good for answer in world.check.look()] == [False, False, False]
    world.install()
    world.lead()
    assert [answer.text for answer in world.check.look()] == [
        "queues.scheduling.x-k8s.io/v1alpha1 is served",
        "queueunits.scheduling.x-k8s.io/v1alpha1 is served",
        "lease x is held by a",
    ]


def test_missing_parts_are_awaited_for_a_limited_time() -> None:
    world = World()
    began = world.clock.monotonic()
    answers = world.check.wait(3 * PAUSE_SECONDS)
    assert not any(answer.is_good for answer in answers)
    assert world.clock.monotonic() - began == pytest.approx(3 * PAUSE_SECONDS)
