"""How many descriptors the process may have, and how they are divided: work first, ports after it.

Clients open the connections of a port; the way to the API server must have its own descriptors
whatever they do. So each port has a fixed share, and all shares together leave `RESERVED`
descriptors.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Final

RESERVED: Final = 256
"""For what is no port's connection: 32 connections to the API server that rest and those in use (12
writers, a watch and a list per kind, one per answer that is being made), both ends of each debug
request's way to uvicorn (8 at once), log, certificates, the selectors, what plugins open."""

WANTED: Final[Mapping[str, int]] = {"health": 64, "metrics": 64, "debug": 128}
"""By port. A kubelet, a Prometheus or two, a few people; the rest is room for those that come in
slowly while others are pushed out."""

LEAST_SHARE: Final = 8
"""Fewer would push out each other."""


class OpenFilesError(ValueError):
    """The process may not open enough files; one line that says what to do."""


def raise_open_files() -> int:
    """Raise the soft limit of open files to what is used here, as far as the hard one lets.

    Returns:
        The limit that counts.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RESERVED + sum(WANTED.values())
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def divide_open_files(limit: int, wanted: Mapping[str, int] = WANTED) -> dict[str, int]:
    """Return how many connections each port may have, by its name.

    Args:
        limit: Descriptors of the process.
        wanted: Connections by port. Where there are fewer, each gets its part of them.

    Raises:
        OpenFilesError: There are too few even for a little.
    """
    total = sum(wanted.values())
    left = min(total, limit - RESERVED)
    shares = {port: each * left // total for port, each in wanted.items()}
    if min(shares.values()) < LEAST_SHARE:
        least = RESERVED + -(-LEAST_SHARE * total // min(wanted.values()))
        msg = (
            f"the process may open {limit} files, at least {least} are needed: "
            "raise the limit (ulimit -n, LimitNOFILE)"
        )
        raise OpenFilesError(msg)
    return shares
