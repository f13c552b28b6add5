"""Fetches a dump from the debug API of a scheduler."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from queue_scheduler.dump.codec import DumpError
from shared_api.client.connection_settings import (
    FixedLogin,
    Login,
    SettingsError,
    connection_settings,
)
from shared_api.client.errors import ConnectionLost, Timeout
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request
from shared_api.process.clock import SystemClock

TIMEOUT_SECONDS: Final = 120.0
PATH: Final = "/debug/dump"


class _Problem(msgspec.Struct):
    detail: str = ""


def fetch_dump(server: str, token_file: Path | None, ca_file: Path | None) -> bytes:
    """Return the dump of a scheduler, compressed.

    Args:
        server: URL of its debug API.
        token_file: A file with a bearer token; None: none is sent.
        ca_file: Authorities for its certificate; None: those of the system.

    Raises:
        DumpError: There is none; the message is a sentence.
    """
    try:
        token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
        ca = ca_file.read_bytes() if ca_file else b""
    except (OSError, UnicodeDecodeError) as error:
        raise DumpError(str(error)) from error
    login = FixedLogin(Login(authorization=f"Bearer {token}" if token else "", ca_pem=ca))
    request = Request("GET", PATH, query=(("gzip", "true"),))
    try:
        transport = HttpTransport(connection_settings(server, login), SystemClock())
        answer = transport.send(request, TIMEOUT_SECONDS)
        transport.close()
    except (SettingsError, ConnectionLost, Timeout) as error:
        raise DumpError(f"{server}: {error}") from error
    if answer.status != HTTPStatus.OK:
        raise DumpError(f"{server}: {answer.status}: {_detail_of(answer.body)}")
    return answer.body


def _detail_of(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Problem).detail
    except msgspec.DecodeError:
        return "no debug API of koord-queue answers there"
