"""Names and counts of pod sets, within what the QueueUnit's schema allows. Pure."""

from __future__ import annotations

from typing import Final

MAX_POD_SET_NAME_CHARS: Final = 63
"""Limit of a pod set's name (a DNS label)."""

MAX_COUNT: Final = 2**31 - 1
"""The most pods of a set, and of reclaimable ones: int32. Admissions are int64, and may be more."""


def pod_set_name(name: str) -> str:
    """Return a name as a pod set may have it: a DNS label."""
    return name.lower().replace(".", "-")[:MAX_POD_SET_NAME_CHARS].strip("-") or "main"
