"""Resource names that Koordinator has deprecated, and the names that replace them.

koord-scheduler never sees the old names: it renames them when objects enter its caches. In pods
(every container and init container, and the overhead) and in nodes it renames both groups below, in
an ElasticQuota's `spec.min` and `spec.max` only the batch names. A name is kept if the new one is
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
"""The two overcommitted resources; the new names are in Kubernetes' own domain."""

RENAMED_DEVICES: Final[Mapping[str, str]] = {
    f"kubernetes.io/{device}": f"koordinator.sh/{device}"
    for device in ("rdma", "fpga", "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")
}
"""The six devices, whose new names are in Koordinator's domain."""

RENAMED: Final[Mapping[str, str]] = {**RENAMED_BATCH, **RENAMED_DEVICES}
"""Old name -> new name in pods and nodes."""


def rename_deprecated(amounts: Amounts, renamed: Mapping[str, str] = RENAMED) -> Amounts:
    """Return the list with deprecated names replaced, except those whose new name it has already.

    A list without deprecated names is returned itself, not a copy: this is called for every pod.
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
