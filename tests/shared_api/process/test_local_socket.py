"""Sockets between processes of one user: names, and who is at the other end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared_api.process import local_socket
from shared_api.process.local_socket import (
    OtherUserError,
    PathTooLongError,
    accept_same_user,
    connect_to,
    listen_at,
    shut_down,
    wait_readable,
)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with listen_at(tmp_path / "one.sock") as made:
        yield made


def test_two_processes_of_one_user_are_connected(listener: socket.socket, tmp_path: Path) -> None:
    with connect_to(tmp_path / "one.sock", 5.0) as there, accept_same_user(listener) as here:
        there.sendall(b"hello")
        assert here.recv(10) == b"hello"


@pytest.mark.usefixtures("listener")
def test_only_the_user_may_open_the_socket(tmp_path: Path) -> None:
    assert (tmp_path / "one.sock").stat().st_mode & 0o777 == 0o600


def test_the_socket_of_a_crashed_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "one.sock"
    listen_at(path).close()
    assert path.exists(), "closing leaves the name"
    with listen_at(path) as listener, connect_to(path, 5.0), accept_same_user(listener):
        pass


def test_another_user_is_refused_at_both_ends(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(OtherUserError):
        connect_to(tmp_path / "one.sock", 5.0)
    with pytest.raises(OtherUserError):
        accept_same_user(listener)


def test_a_name_without_a_listener_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect_to(tmp_path / "none.sock", 5.0)


@pytest.mark.parametrize("use", [listen_at, lambda path: connect_to(path, 1.0)])
def test_a_name_that_is_too_long_is_told(use: object, tmp_path: Path) -> None:
    assert callable(use)
    with pytest.raises(PathTooLongError, match="at most 107 bytes"):
        use(tmp_path / ("x" * local_socket.MAX_PATH_BYTES))


def test_waiting_returns_what_has_something_to_read(
    listener: socket.socket, tmp_path: Path
) -> None:
    assert wait_readable([listener], 0.0) == []
    with connect_to(tmp_path / "one.sock", 5.0) as there:
        assert wait_readable([listener], 5.0) == [listener]
        with accept_same_user(listener) as here:
            assert wait_readable([listener, here], 0.0) == []
            shut_down(there)
            shut_down(there)
            assert wait_readable([listener, here], 5.0) == [here]
            assert here.recv(10) == b""
