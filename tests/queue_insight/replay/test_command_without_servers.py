"""Replays and dumps work where only the command line's own dependencies are installed."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests.tidy.source_tree import ROOT

SERVERS: Final = (
    "cryptography",
    "fastapi",
    "prometheus_client",
    "pydantic",
    "pydantic_core",
    "starlette",
    "uvicorn",
)
WITHOUT_SERVERS: Final = f"""
import importlib, sys
for name in {SERVERS}:
    sys.modules[name] = None  # importing it is an ImportError
importlib.import_module(sys.argv[1])
"""


def import_without_servers(module: str) -> str:
    """Return what importing a module in a new process writes to stderr; "" if it succeeds."""
    line = [sys.executable, "-c", WITHOUT_SERVERS, module]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr


@pytest.mark.parametrize(
    "module",
    [
        "queue_insight.replay.command",
        "queue_insight.dump.anonymize",
        "queue_insight.offline.load",
    ],
)
def test_it_needs_no_server(module: str) -> None:
    assert import_without_servers(module) == ""


def test_a_module_that_needs_one_is_found() -> None:
    assert "starlette" in import_without_servers("queue_scheduler.wiring")
