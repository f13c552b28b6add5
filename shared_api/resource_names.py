"""Resource names that Koordinator has given up, and what koord-scheduler reads in their place.

koord-scheduler renames deprecated resources as objects enter its caches: both groups below in pods
(every container and init container, and the overhead) and in nodes, and only the batch names in
`spec.min` and `spec.max` of an ElasticQuota. A deprecated name stays if the list has the new one as
well. Nothing is renamed in the annotations of quotas.

Source: koordinator, apis/extension/deprecated.go and pkg/util/transformer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared_api.resource_list import Amounts

RENAMED_BATCH: Final[Mapping[str, str]] = {
    "koordinator.sh/batch-cpu": "kubernetes.io/batch-cpu",
    "koordinator.sh/batch-memory": "kubernetes.io/batch-memory",
}
"""Overcommitted resources, deprecated name to current one: they moved to kubernetes.io."""

RENAMED_DEVICES: Final[Mapping[str, str]] = {
    f"kubernetes.io/{device}": f"koordinator.sh/{device}"
    for device in ("rdma", "fpga", "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")
}
"""Devices, deprecated name to current one: they moved the other way, from kubernetes.io."""

RENAMED: Final[Mapping[str, str]] = {**RENAMED_BATCH, **RENAMED_DEVICES}
"""What is renamed in pods and nodes."""


def rename_deprecated(amounts: Amounts, renamed: Mapping[str, str] = RENAMED) -> Amounts:
    """Return the amounts by current names; a deprecated name stays if its new one is there as well.

    Amounts without a deprecated name are returned as they are, not copied: every pod passes here.
    """
    if renamed.keys().isdisjoint(amounts):
        return amounts
    return {
        new if (new := renamed.get(name)) is not None and new not in amounts else name: amount
        for name, amount in amounts.items()
    }


def current_name(name: str) -> str:
    """Return the name that koord-scheduler uses for a resource that pods request by this name."""
    return RENAMED.get(name, name)
