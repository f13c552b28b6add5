"""Lease (coordination.k8s.io/v1), for leader election."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, Timestamp, WireStruct


class LeaseSpec(WireStruct, frozen=True):
    """`spec`; times are MicroTime texts."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Timestamp | None = None
    renew_time: Timestamp | None = None
    lease_transitions: int | None = None


class Lease(WireStruct, frozen=True):
    """A lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
