"""Settings of reservations; values only, read by `configuration`."""

from __future__ import annotations

from typing import Final

import msgspec

TTL_SECONDS: Final = 1800
"""Upstream's: how long capacity is kept that no pod takes."""

BLACKLIST_SECONDS: Final = 12 * 3600.0
"""Upstream's: how long a node counts as bad after it was last reported."""


class ReservationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all reservations."""

    ttl_seconds: int = TTL_SECONDS
    blacklist_namespace: str = "kube-system"
    blacklist_name: str = "kubedl-blacklist-data"
    """Name of the ConfigMap that lists bad nodes; "" if there is none."""
    blacklist_key: str = "global_anomalousNodesGlobal_xingyun-aiph"
    """Its key that holds them."""
    blacklist_seconds: float = BLACKLIST_SECONDS
