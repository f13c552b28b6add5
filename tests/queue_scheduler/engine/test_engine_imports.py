"""The engine is a library: it is imported without servers, pages or a database."""

from __future__ import annotations

import subprocess
import sys

import pytest

SERVERS = {
    *("cryptography", "fastapi", "httptools", "kubernetes", "prometheus_client", "pydantic"),
    *("sqlite3", "starlette", "uvicorn"),
}
ELSEWHERE = ("queue_insight", "queue_controllers", "queue_scheduler.account_store")
"""Who answers, who acts, and who keeps accounts in the cluster."""
TIME_ZONES = "zoneinfo"
"""0.7 MB, which only accounts and budgets of another zone than UTC need."""


@pytest.mark.parametrize(
    "module", ["queue_scheduler.engine.engine", "queue_scheduler.setup.engine_building"]
)
def test_the_engine_is_imported_without_servers(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert module in loaded
    assert not loaded & SERVERS
    assert TIME_ZONES not in loaded
    assert not [name for name in loaded if name.startswith(ELSEWHERE)]
