"""RuntimeClass (node.k8s.io/v1): what pods of a runtime need in addition to their containers."""

from __future__ import annotations

from typing import Any

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class Overhead(WireStruct, frozen=True):
    """`overhead`: what each pod needs in addition to its containers."""

    pod_fixed: ResourceQuantities = {}


class RuntimeScheduling(WireStruct, frozen=True):
    """`scheduling`: which nodes have the runtime."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class RuntimeClass(WireStruct, frozen=True):
    """A RuntimeClass; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None
