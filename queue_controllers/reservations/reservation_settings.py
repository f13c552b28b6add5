"""What can be set about reservations; values only, read by `configuration`."""

from __future__ import annotations

from typing import Final

import msgspec

TTL_SECONDS: Final = 1800
"""Upstream's: how long room that nobody takes is kept."""

BLACKLIST_SECONDS: Final = 12 * 3600.0
"""Upstream's: how long a node counts as bad after it was last reported."""


class ReservationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all reservations."""

    ttl_seconds: int = TTL_SECONDS
    blacklist_namespace: str = "kube-system"
    blacklist_name: str = "kubedl-blacklist-data"
    """Of the ConfigMap that names bad nodes; "": there is none."""
    blacklist_key: str = "global_anomalousNodesGlobal_xingyun-aiph"
    """What it names them under."""
    blacklist_seconds: float = BLACKLIST_SECONDS
