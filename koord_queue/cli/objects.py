"""Objects that several commands read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing, NotServed, Refused
from shared_api.objects.queue_unit import QueueUnit

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster

_QUOTAS: Final = "/apis/scheduling.sigs.k8s.io"
QUOTA_KINDS: Final = (
    (f"{_QUOTAS}/v1alpha1", "elasticquotas", "ElasticQuota"),
    (f"{_QUOTAS}/v1beta1", "elasticquotatrees", "ElasticQuotaTree"),
    ("/api/v1", "resourcequotas", "ResourceQuota"),
)
"""API, plural name and kind of what may be a quota."""
UNITS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/queueunits/{name}"


def read_unit(cluster: Cluster, namespace: str, name: str) -> QueueUnit:
    """Return a unit.

    Raises:
        CommandError: There is none, it may not be read, or it cannot be decoded.
    """
    data = cluster.get(UNITS.format(namespace=namespace, name=name))
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
    for api, plural, kind in QUOTA_KINDS:
        try:
            objects = list(_objects(cluster, f"{api}/{plural}"))
        except Refused:
            objects = list(_objects(cluster, f"{api}/namespaces/{namespace}/{plural}"))
        except (Missing, NotServed):
            continue
        found += [{**each, "kind": kind} for each in objects]
    return found


def _objects(cluster: Cluster, path: str) -> Iterator[dict[str, Any]]:
    for page in cluster.pages(path):
        yield from msgspec.json.decode(page).get("items", ())
