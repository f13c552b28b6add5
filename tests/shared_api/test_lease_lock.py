"""Tests of shared_api.lease_lock with the client and the fake API server."""

from __future__ import annotations

import random

import pytest

from shared_api.client.errors import AlreadyExists, Conflict
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.lease_lock import ApiLeaseLock
from shared_api.objects.lease import LeaseSpec
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.well_known_labels import WRITES_END
from tests.client_kit import client_to


@pytest.fixture
def lock() -> ApiLeaseLock:
    clock, rng = VirtualClock(), random.Random(7)
    server = FakeApiServer(clock=clock, rng=rng)
    client = client_to(server, clock)
    return ApiLeaseLock(client, "kube-system", "koord-queue")


def test_a_lease_is_created_read_and_renewed(lock: ApiLeaseLock) -> None:
    assert lock.read() is None
    created = lock.write(LeaseSpec(holder_identity="a", lease_transitions=3), "", "4 a")
    assert lock.read() == created
    version = created.metadata.resource_version
    renewed = lock.write(LeaseSpec(holder_identity="", lease_duration_seconds=1), version, "3 b")
    assert (renewed.spec.holder_identity, renewed.spec.lease_transitions) == ("", 3)
    assert lock.read() == renewed
    promises = [each.metadata.annotations[WRITES_END] for each in (created, renewed)]
    assert promises == ["4 a", "3 b"]


def test_a_late_write_raises(lock: ApiLeaseLock) -> None:
    version = lock.write(LeaseSpec(holder_identity="a"), "", "4 a").metadata.resource_version
    with pytest.raises(AlreadyExists):
        lock.write(LeaseSpec(holder_identity="b"), "", "4 b")
    lock.write(LeaseSpec(holder_identity="b"), version, "4 b")
    with pytest.raises(Conflict):
        lock.write(LeaseSpec(holder_identity="c"), version, "4 c")
