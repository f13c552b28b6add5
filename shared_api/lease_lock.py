"""The Lease object that the candidates of an election share (a `LeaseLock`)."""

from __future__ import annotations

import msgspec

from shared_api.client.errors import NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import LEASES
from shared_api.objects.lease import Lease, LeaseSpec
from shared_api.well_known_labels import WRITES_END


class ApiLeaseLock:
    """Reads and writes one lease.

    Args:
        client: Used only by the election: its requests must not wait for others, and must end well
            within the renew deadline.
        namespace: Namespace of the lease.
        name: Name of the lease.
    """

    def __init__(self, client: ResourceClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    def read(self) -> Lease | None:
        """Return the lease, or None if there is none."""
        try:
            return self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            return None

    def write(self, spec: LeaseSpec, resource_version: str, promise: str) -> Lease:
        """Create the lease (with resource_version ""), or replace spec and promise of this version.

        Other annotations stay.
        """
        metadata: dict[str, object] = {"annotations": {WRITES_END: promise}}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, **metadata},
            "spec": _spec_body(spec),
        }
        if not resource_version:
            return self._client.create(LEASES, self._namespace, body)
        guarded = {
            "metadata": {"resourceVersion": resource_version, **metadata},
            "spec": body["spec"],
        }
        return self._client.patch(LEASES, self._namespace, self._name, guarded)


def _spec_body(spec: LeaseSpec) -> dict[str, object]:
    """Return all fields, even an empty holder: a merge patch leaves omitted fields as they are."""
    body: dict[str, object] = msgspec.to_builtins(spec)
    return body
