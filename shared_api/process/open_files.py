"""Divides the descriptors of the process: the program's own work first, then its ports.

Clients open the connections of a port, and must not be able to take the descriptors that requests
to the API server need. So each port has a fixed share, and all shares together leave `RESERVED`
descriptors.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from typing import Final

RESERVED: Final = 256
"""For everything other than the ports' connections: 32 idle connections to the API server and those
in use (12 writers, a watch and a list per kind, one per answer that is being made), log,
certificates, the selectors, what plugins open."""

WANTED: Final[Mapping[str, int]] = {"health": 64, "metrics": 64, "debug": 640}
"""Connections by port. A kubelet, a Prometheus or two and a few people need few; the rest is room
for slow clients while others are evicted. "debug" is also that of the aggregated API, to which the
API server has a connection for each request that it passes on at a time: 600 at most, unless its
`--max-requests-inflight` and `--max-mutating-requests-inflight` say more."""

MIN_SHARE: Final = 8
"""The fewest connections of a port; with fewer they would evict each other."""


class OpenFilesError(ValueError):
    """The process may not open enough files; the message is one line that says what to do."""


def raise_open_files(more: int = 0) -> int:
    """Raise the soft limit of open files to what the program uses, as far as the hard limit allows.

    Args:
        more: What it uses beside `WANTED`.

    Returns:
        The limit in effect.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RESERVED + sum(WANTED.values()) + more
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def divide_open_files(limit: int, wanted: Mapping[str, int] = WANTED) -> dict[str, int]:
    """Return how many connections each port may have, by its name.

    Args:
        limit: Descriptors that the process may open.
        wanted: Connections by port. If they do not all fit, each port gets its proportional share.

    Raises:
        OpenFilesError: There are too few even for the least shares.
    """
    total = sum(wanted.values())
    left = min(total, limit - RESERVED)
    shares = {port: each * left // total for port, each in wanted.items()}
    if min(shares.values()) < MIN_SHARE:
        least = RESERVED + -(-MIN_SHARE * total // min(wanted.values()))
        msg = (
            f"the process may open {limit} files, at least {least} are needed: "
            "raise the limit (ulimit -n, LimitNOFILE)"
        )
        raise OpenFilesError(msg)
    return shares
