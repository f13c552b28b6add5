"""Identifies the process at the other end of a local socket."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a peer (unix(7), SO_PEERCRED)."""


def is_own_process(connection: socket.socket) -> bool:
    """Return whether both ends of a connection belong to this process.

    Args:
        connection: A connected socket of AF_UNIX.
    """
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[0] == os.getpid())
