"""Debug APIs that listen on all addresses, with TLS, and the users that may read them."""

from __future__ import annotations

from typing import Final

import httpx

from tests.cluster.program_process import ProgramProcess
from tests.tls_files import CERTIFICATE, KEY, client_context
from tests.waiting import PATIENCE_SECONDS

EXPOSED: Final = (
    "--debug-address=:0",
    f"--debug-tls-certificate={CERTIFICATE}",
    f"--debug-tls-key={KEY}",
)
"""Flags of a program whose debug API listens on all addresses."""


def ask(process: ProgramProcess, path: str, token: str = "") -> httpx.Response:
    """Ask an exposed debug API, as whom the token names ("": without one)."""
    trusted = client_context()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{process.port_of('--debug-address')}{path}"
    return httpx.get(
        url, headers=headers, verify=trusted, timeout=PATIENCE_SECONDS, trust_env=False
    )
