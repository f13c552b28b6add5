"""PriorityClass (scheduling.k8s.io/v1): a name for a number."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct


class PriorityClass(WireStruct, frozen=True):
    """A PriorityClass; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
