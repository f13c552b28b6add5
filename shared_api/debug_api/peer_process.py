"""Which process is on the other end of a socket of this machine."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("3i")
"""Of a peer: its process, user and group (unix(7), SO_PEERCRED)."""


def is_own_process(connection: socket.socket) -> bool:
    """Return whether both ends of a connection are of this process.

    Args:
        connection: Of AF_UNIX, connected.
    """
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[0] == os.getpid())
