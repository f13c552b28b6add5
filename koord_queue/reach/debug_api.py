"""Where the debug API of a program is: at `--server`, or behind a port-forward."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from koord_queue.errors import CommandError
from koord_queue.reach.cluster import Cluster
from shared_api.client.connection_settings import (
    FixedLogin,
    Login,
    SettingsError,
    connection_settings,
)
from shared_api.client.errors import ApiError, status_error
from shared_api.client.http_transport import HttpTransport

if TYPE_CHECKING:
    from contextlib import ExitStack

    from koord_queue.reach.choice import Choice
    from shared_api.client.transport import Response
    from shared_api.process.clock import Clock

PROBLEM: Final = "Problem"
"""Reason of an error of the debug API, which has none."""
UNREACHED_STEP: Final = "Check --server (or the variable KOORD_QUEUE_SERVER), and the network."
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine."""


def open_debug_api(choice: Choice, clock: Clock, connections: ExitStack) -> Cluster:
    """Return the debug API at `--server`; `connections` closes its own at the end.

    Raises:
        CommandError: Its address, token or authorities cannot be used.
    """
    assert choice.server
    if urlsplit(choice.server).username is not None:
        raise CommandError(
            "--server names a user or a password, which would be shown in lists of processes",
            "Write a token into a file, and name it with --token-file.",
        )
    token = _content(choice.token_file, "--token-file").strip()
    ca = _content(choice.ca_file, "--ca-file").encode()
    if token and is_readable_on_its_way(choice.server):
        raise CommandError(
            f"{choice.server} is no https address, and everybody on the way could read the token",
            "Write https://, or leave --token-file out.",
        )
    login = Login(authorization=f"Bearer {token}" if token else "", ca_pem=ca)
    return _open(choice.server, login, clock, connections)


def is_readable_on_its_way(server: str) -> bool:
    """Return whether requests to a server leave this machine without TLS."""
    parts = urlsplit(server)
    return parts.scheme != "https" and parts.hostname not in LOOPBACK


def _content(file: str | None, option: str) -> str:
    """Return what a file of an option has; "" without one."""
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{option} {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{option} {file} is no text") from error


def open_forwarded(url: str, clock: Clock, connections: ExitStack) -> Cluster:
    """Return the debug API behind a port-forward, which asks for no token.

    `connections` closes its own at the end.
    """
    return _open(url, Login(), clock, connections)


def _open(server: str, login: Login, clock: Clock, connections: ExitStack) -> Cluster:
    try:
        transport = HttpTransport(connection_settings(server, FixedLogin(login)), clock)
    except SettingsError as error:
        raise CommandError(f"--server {server}: {error}") from error
    connections.callback(transport.close)
    return Cluster(transport, "", server, read_error=read_problem, unreached_step=UNREACHED_STEP)


class _Problem(msgspec.Struct):
    detail: str = ""


def read_problem(answer: Response) -> ApiError:
    """Return what a refusal of the debug API says: `{"detail": ...}`."""
    try:
        text = msgspec.json.decode(answer.body, type=_Problem).detail
    except msgspec.DecodeError:
        text = ""
    # Servers of the same kind answer so where they have no such route.
    if not text or (answer.status == HTTPStatus.NOT_FOUND and text == "Not Found"):
        return status_error(answer.status, "", "this is no debug API of Koord-Queue")
    after = answer.headers.get("retry-after", "")
    wait = float(after) if after.isdecimal() else 0.0
    return status_error(answer.status, PROBLEM, text, retry_after_seconds=wait)
