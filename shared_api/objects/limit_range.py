"""LimitRange (core/v1): requests for pods that state none, and how much they may ask for."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class LimitRangeItem(WireStruct, frozen=True):
    """One of `spec.limits`; `type` is Container, Pod or PersistentVolumeClaim."""

    type: str = ""
    max: ResourceQuantities = {}
    min: ResourceQuantities = {}
    default: ResourceQuantities = {}
    """Limits of containers that state none."""
    default_request: ResourceQuantities = {}
    """Requests of containers that state none."""
    max_limit_request_ratio: ResourceQuantities = {}


class LimitRangeSpec(WireStruct, frozen=True):
    """`spec`."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(WireStruct, frozen=True):
    """A LimitRange."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()
