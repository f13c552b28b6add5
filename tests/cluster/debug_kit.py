"""Debug APIs that listen on all addresses, with TLS, and the users that may read them."""

from __future__ import annotations

import ssl
from typing import Final

import httpx

from tests.cluster.program_process import ROOT, ProgramProcess
from tests.cluster.queue_world import PATIENCE_SECONDS

TLS: Final = ROOT / "tests" / "data" / "tls"
EXPOSED: Final = (
    "--debug-address=:0",
    f"--debug-tls-certificate={TLS / 'test_only_server.pem'}",
    f"--debug-tls-key={TLS / 'test_only_server_key.pem'}",
)
"""Flags of a program whose debug API listens on all addresses."""


def ask(process: ProgramProcess, path: str, token: str = "") -> httpx.Response:
    """Send a request to an exposed debug API with this token ("" for none)."""
    trusted = ssl.create_default_context(cafile=str(TLS / "test_only_ca.pem"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{process.port_of('--debug-address')}{path}"
    return httpx.get(
        url, headers=headers, verify=trusted, timeout=PATIENCE_SECONDS, trust_env=False
    )
