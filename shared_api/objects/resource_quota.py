"""ResourceQuota (core/v1): what the pods of a namespace may request together."""

from __future__ import annotations

from typing import Any

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class ResourceQuotaSpec(WireStruct, frozen=True):
    """`spec`: `hard` limits; with scopes or a selector it applies to some of the pods only."""

    hard: ResourceQuantities = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class ResourceQuota(WireStruct, frozen=True):
    """A ResourceQuota object.

    `status.used` is not read: it includes the pods of units, which are charged as units.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
