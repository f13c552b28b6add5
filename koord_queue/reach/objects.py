"""Objects that several commands read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.resources import (
    ELASTIC_QUOTA_TREES,
    ELASTIC_QUOTAS,
    QUEUE_UNITS,
    QUOTA_POLICIES,
    RESOURCE_QUOTAS,
)
from shared_api.objects.queue_unit import QueueUnit

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster

QUOTA_KINDS: Final = (
    (ELASTIC_QUOTAS, "ElasticQuota"),
    (ELASTIC_QUOTA_TREES, "ElasticQuotaTree"),
    (RESOURCE_QUOTAS, "ResourceQuota"),
)
"""What may be a quota, and its kind."""


def read_unit(cluster: Cluster, namespace: str, name: str) -> QueueUnit:
    """Return a unit.

    Raises:
        CommandError: There is none, it may not be read, or it cannot be decoded.
    """
    data = cluster.get(QUEUE_UNITS.path(namespace, name))
    try:
        return msgspec.json.decode(data, type=QueueUnit)
    except msgspec.DecodeError as error:
        raise CommandError(f"queue unit {namespace}/{name} cannot be read: {error}") from error


def read_quotas(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """Return the objects that may be quotas: of all namespaces, or of one that may be read.

    Raises:
        CommandError: They may not be read in either.
    """
    found = []
    for resource, kind in QUOTA_KINDS:
        try:
            objects = list(_objects(cluster, resource.path("")))
        except Refused:
            objects = list(_objects(cluster, resource.path(namespace)))
        except (Missing, NotServed):
            continue
        found += [{**each, "kind": kind} for each in objects]
    return found


def read_policies(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """Return the QuotaPolicies; `namespace`: that of the queues.

    Raises:
        CommandError: They may not be read.
    """
    try:
        return list(_objects(cluster, QUOTA_POLICIES.path(namespace)))
    except (Missing, NotServed):
        return []


def _objects(cluster: Cluster, path: str) -> Iterator[dict[str, Any]]:
    for page in cluster.pages(path):
        yield from msgspec.json.decode(page).get("items", ())
