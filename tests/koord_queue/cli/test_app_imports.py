"""The command line starts fast, and without what only the programs need."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from koord_queue.cli.app import COMMANDS
from tests.queue_insight.replay.test_command_without_servers import SERVERS
from tests.tidy.source_tree import ROOT

SCRIPT: Final = """
import sys
from koord_queue.cli.app import run
code = run({line})
print(sorted(name.partition(".")[0] for name in sys.modules), file=sys.stderr)
print(sorted(name for name in sys.modules if name.startswith("koord_queue.")), file=sys.stderr)
sys.exit(code)
"""
LATE: Final = ("kubernetes", "msgspec", "rich", "structlog", "yaml", *SERVERS)


def modules_after(*line: str) -> tuple[str, str]:
    """Return the packages, and the modules of the command line, that a command has imported."""
    script = SCRIPT.replace("{line}", repr(list(line)))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages, own = done.stderr.splitlines()[-2:]
    return packages, own


def test_help_imports_no_command() -> None:
    packages, own = modules_after("--help")
    assert [name for name in LATE if f"'{name}'" in packages] == []
    assert own == str(["koord_queue.cli", "koord_queue.cli.app", "koord_queue.errors"])


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_needs_a_server_to_be_explained(command: str) -> None:
    packages, _ = modules_after(command, "--help")
    assert [name for name in ("kubernetes", "rich", *SERVERS) if f"'{name}'" in packages] == []
