"""Namespace (core/v1), read for the labels that make its jobs managed."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct


class Namespace(WireStruct, frozen=True):
    """A namespace; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
