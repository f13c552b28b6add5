"""Resource names that Koordinator has given up, and what koord-scheduler reads in their place.

koord-scheduler never sees the old ones: it renames them as objects enter its caches. In pods (every
container and init container, and the overhead) and in nodes it renames both groups below, in an
ElasticQuota's `spec.min` and `spec.max` the batch names alone. A name is left where the new one is
in the same list. Annotations of quotas are not renamed.

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
"""The two of what is overcommitted; the new ones are those of Kubernetes' own domain."""

RENAMED_DEVICES: Final[Mapping[str, str]] = {
    f"kubernetes.io/{device}": f"koordinator.sh/{device}"
    for device in ("rdma", "fpga", "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")
}
"""The six of devices, the other way round."""

RENAMED: Final[Mapping[str, str]] = {**RENAMED_BATCH, **RENAMED_DEVICES}
"""What is renamed in pods and nodes."""


def rename_deprecated(amounts: Amounts, renamed: Mapping[str, str] = RENAMED) -> Amounts:
    """Return the list with every deprecated name replaced whose new one it does not have.

    A list without any is returned as it is, not copied: every pod passes here.
    """
    if renamed.keys().isdisjoint(amounts):
        return amounts
    return {
        new if (new := renamed.get(name)) is not None and new not in amounts else name: amount
        for name, amount in amounts.items()
    }


def current_name(name: str) -> str:
    """Return the name under which koord-scheduler knows what pods ask for by this one."""
    return RENAMED.get(name, name)
