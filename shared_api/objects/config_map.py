"""ConfigMap (core/v1)."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct


class ConfigMap(WireStruct, frozen=True):
    """Named texts."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
