"""Numbers and names in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shared_api.durations import seconds_in_words
from shared_api.quantity import QuantityError, amount, for_people

MOST_NAMED: Final = 5
"""Names in one sentence; more of them are counted."""


def counted(number: int, what: str) -> str:
    """Return `1 unit`, `3 units`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def listed(names: Sequence[str], others: int = 0) -> str:
    """Return `a, b and 3 others`.

    Args:
        names: The first of them are named.
        others: How many there are that have no name here.
    """
    named = list(names[:MOST_NAMED])
    more = others + len(names) - len(named)
    if more:
        named.append("1 other" if more == 1 else f"{more} others")
    if len(named) < 2:  # noqa: PLR2004 - two names take an and
        return "".join(named)
    return f"{', '.join(named[:-1])} and {named[-1]}"


def amounts(quantities: Mapping[str, str]) -> str:
    """Return `cpu 2, memory 206.8Gi`; `nothing` without any."""
    return (
        ", ".join(f"{resource} {short(resource, each)[0]}" for resource, each in quantities.items())
        or "nothing"
    )


def short(resource: str, *quantities: str) -> tuple[str, ...]:
    """Return quantities of one resource, as the API writes them, in short; unread ones as is."""
    try:
        return for_people(resource, [amount(resource, each) for each in quantities])
    except QuantityError:
        return quantities


def short_seconds(seconds: float) -> str:
    """Return a span in few characters, such as 5m or 1h."""
    return seconds_in_words(seconds).replace(" min", "m").replace(" ", "")
