"""Debug APIs that listen everywhere, with TLS, and who may ask them."""

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
    """Ask an exposed debug API, as whom the token names ("": without one)."""
    trusted = ssl.create_default_context(cafile=str(TLS / "test_only_ca.pem"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{process.port_of('--debug-address')}{path}"
    return httpx.get(
        url, headers=headers, verify=trusted, timeout=PATIENCE_SECONDS, trust_env=False
    )
