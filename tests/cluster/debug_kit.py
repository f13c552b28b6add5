"""Debug APIs that listen everywhere, with TLS, and who may ask them."""

from __future__ import annotations

import ssl
from typing import Any, Final

import httpx

from tests.cluster.program_process import ROOT, ProgramProcess
from tests.cluster.queue_world import PATIENCE_SECONDS

TLS: Final = ROOT / "tests" / "data" / "tls"
RBAC: Final = "rbac.authorization.k8s.io"
EXPOSED: Final = (
    "--debug-address=:0",
    f"--debug-tls-certificate={TLS / 'test_only_server.pem'}",
    f"--debug-tls-key={TLS / 'test_only_server_key.pem'}",
)
"""Flags of a program whose debug API listens on all addresses."""


def role_in_default(name: str, rule: dict[str, list[str]]) -> dict[str, Any]:
    """Return a Role of namespace default with one rule."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": "default"},
        "rules": [rule],
    }


def binding(kind: str, role: str, user: str) -> dict[str, Any]:
    """Return what gives a ClusterRole, or a Role of namespace default, to a user."""
    where = {"namespace": "default"} if kind == "Role" else {}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": f"{role}-{user}", **where},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


def ask(process: ProgramProcess, path: str, token: str = "") -> httpx.Response:
    """Ask an exposed debug API, as whom the token names ("": without one)."""
    trusted = ssl.create_default_context(cafile=str(TLS / "test_only_ca.pem"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{process.port_of('--debug-address')}{path}"
    return httpx.get(
        url, headers=headers, verify=trusted, timeout=PATIENCE_SECONDS, trust_env=False
    )
