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
    return {
        name: in_decimals(amount, base_of(name) * HOUR)
        for name, amount in sorted(used.items())
        if amount
    }


def base_of(resource: str) -> int:
    """Return the base units in what people count of a resource: a core, a GiB, or a piece."""
    return MILLI if resource == "cpu" else GIB if counts_bytes(resource) else 1


def in_decimals(amount: int, scale: int) -> str:
    """Return an amount divided by `scale` as a decimal number with at most three digits."""
    sign = "-" if amount < 0 else ""
    whole, rest = divmod((2 * abs(amount) * MILLI + scale) // (2 * scale), MILLI)
    text = f"{whole}.{rest:03}".rstrip("0").rstrip(".")
    return text if text == "0" else f"{sign}{text}"
