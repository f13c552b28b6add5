"""What a program that only reads may send."""

from __future__ import annotations

import random

import pytest

from shared_api.client.read_only import ReadOnlyTransport, WriteRefusedError
from shared_api.client.resource_types import LEASES, NAMESPACES
from shared_api.client.transport import Request
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.lease_lock import ApiLeaseLock
from shared_api.objects.lease import LeaseSpec
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to

LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/kq/leases"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "/api/v1/namespaces/kq/pods", id="another kind"),
        pytest.param("PATCH", f"{LEASES_PATH}/other", id="the lease of another program"),
        pytest.param("DELETE", f"{LEASES_PATH}/shadow", id="the end of its own lease"),
        pytest.param("PUT", f"{LEASES_PATH}/shadow", id="another way to write it"),
        pytest.param(
            "PATCH", LEASES_PATH.replace("/kq/", "/x/") + "/shadow", id="another namespace"
        ),
    ],
)
def test_no_other_write_is_sent(method: str, path: str) -> None:
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    transport = ReadOnlyTransport(server, "kq", "shadow")
    for send in (transport.send, transport.stream):
        with pytest.raises(WriteRefusedError, match=f"{method} {path} was not sent"):
            send(Request(method, path), 1.0)
    assert not server.journal


def test_it_reads_and_holds_its_lease() -> None:
    clock, rng = VirtualClock(), random.Random(1)
    server = FakeApiServer(clock=clock, rng=rng)
    server.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kq"}})
    transport = ReadOnlyTransport(server, "kq", "shadow")
    client = client_to(transport, clock)
    lock = ApiLeaseLock(client, "kq", "shadow")
    created = lock.write(LeaseSpec(holder_identity="one"), "", "4 one")
    lock.write(LeaseSpec(holder_identity="two"), created.metadata.resource_version, "4 two")
    assert client.get(LEASES, "kq", "shadow").spec.holder_identity == "two"
    assert client.get(NAMESPACES, "", "kq").metadata.name == "kq"
    with pytest.raises(WriteRefusedError):
        client.delete(LEASES, "kq", "shadow")
