"""Which of the connections that wait for their client is closed when a port is full."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What an accept fails with for want of a descriptor: it works again once others are closed."""

ConnectionT = TypeVar("ConnectionT")


def find_victim(
    waiting: Iterable[ConnectionT], host_of: Callable[[ConnectionT], str]
) -> ConnectionT | None:
    """Return the oldest connection of the address that has most of them; None if there is none.

    So a client that opens many loses its own, whoever else comes or waits.

    Args:
        waiting: The connections, the oldest first.
        host_of: Returns the address of one.
    """
    found = list(waiting)
    of_host = Counter(map(host_of, found))
    return max(found, key=lambda each: of_host[host_of(each)], default=None)
