"""Use as people count it: cores, GiB and pieces, times hours. Exact, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared_api.quantity import counts_bytes

HOUR: Final = 3600
GIB: Final = 2**30
MILLI: Final = 1000


def in_hours(used: Mapping[str, int]) -> dict[str, str]:
    """Return use as decimal numbers with at most three digits, rounded; zeros are left out.

    Args:
        used: Base units times seconds, by resource.

    Returns:
        Cores times hours of cpu, GiB times hours of what is counted in bytes, and pieces times
        hours of all else.
    """
    return {name: _in_hours(name, amount) for name, amount in sorted(used.items()) if amount}


def _in_hours(resource: str, amount: int) -> str:
    base = MILLI if resource == "cpu" else GIB if counts_bytes(resource) else 1
    whole, rest = divmod((2 * amount * MILLI + base * HOUR) // (2 * base * HOUR), MILLI)
    return f"{whole}.{rest:03}".rstrip("0").rstrip(".")
