"""Namespace (core/v1); its labels decide whether its jobs are managed."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct


class Namespace(WireStruct, frozen=True):
    """A namespace; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
