"""Networks whose addresses stand for many visitors."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Networks = tuple[IPv4Network | IPv6Network, ...]


def read_networks(texts: Iterable[str]) -> Networks:
    """Return networks in CIDR notation, or single addresses.

    Raises:
        ValueError: A text is neither; the message names it.
    """
    return tuple(ip_network(each) for each in texts)


def is_within(address: str, networks: Networks) -> bool:
    """Return whether an address of a connection is in one of some networks.

    Args:
        address: As a socket tells it; "" if it is not known. A port for both families tells an
            address of IPv4 as one of IPv6.
        networks: The networks.
    """
    if not (address and networks):
        return False
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in each for each in networks)
