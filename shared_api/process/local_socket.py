"""Sockets between two processes of one machine, under a name in a folder.

Both ends must belong to the same user: the folder is shared by the containers of a pod, and what is
sent through is trusted. The kernel says who is at the other end, so no mode of a file is relied on.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from pathlib import Path
from typing import Final

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a peer (unix(7), SO_PEERCRED)."""

BACKLOG: Final = 64

MAX_PATH_BYTES: Final = 107
"""The longest path of a socket (unix(7)), without the terminating null byte."""


class OtherUserError(ConnectionRefusedError):
    """The process at the other end belongs to another user."""


class PathTooLongError(ValueError):
    """The name of a socket is longer than the kernel allows; the message is one line."""


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this process's user.

    Args:
        connection: A connected socket of AF_UNIX.
    """
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[1] == os.geteuid())


def listen_at(path: Path) -> socket.socket:
    """Return a listening socket under a name; one that a crashed process left is replaced.

    Raises:
        PathTooLongError: The name is too long.
        OSError: The folder is missing, or may not be written.
    """
    _check_length(path)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def accept_same_user(listener: socket.socket) -> socket.socket:
    """Return the next connection of a listener.

    Raises:
        OtherUserError: It comes from a process of another user; it is closed.
    """
    connection, _ = listener.accept()
    return _checked(connection)


def connect_to(path: Path, timeout_seconds: float) -> socket.socket:
    """Return a connection to the socket under a name; each of its calls has the time limit.

    Raises:
        OtherUserError: A process of another user listens there.
        OSError: Nothing listens there.
    """
    _check_length(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return _checked(connection)


def shut_down(connection: socket.socket) -> None:
    """End a connection, and wake a thread that uses it; callable from any thread, and again.

    The thread that owns it closes it: another connection could get its number meanwhile.
    """
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def wait_readable(sockets: list[socket.socket], seconds: float) -> list[socket.socket]:
    """Return those that can be read or have a connection, after waiting for the first."""
    poll = select.poll()
    by_number = {each.fileno(): each for each in sockets}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(seconds * 1000)]


def _check_length(path: Path) -> None:
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise PathTooLongError(f"{path}: the name of a socket has at most {MAX_PATH_BYTES} bytes")


def _checked(connection: socket.socket) -> socket.socket:
    if not is_same_user(connection):
        connection.close()
        raise OtherUserError("the process at the other end belongs to another user")
    return connection
