"""The command line starts fast, and without what only the programs need."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

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


EXPLAIN_ALL: Final = f"""
import sys
from koord_queue.cli.app import run
late = {{"kubernetes", "rich", *{SERVERS}}}
for command in sys.argv[1:]:
    assert run([command, "--help"]) == 0, command
    print(command, *sorted(late & sys.modules.keys()), file=sys.stderr)
"""
"""Prints each command, and what it should not have imported."""


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


def test_no_command_needs_a_server_to_be_explained() -> None:
    """One process explains all of them: what one has imported is there for each after it."""
    command = [sys.executable, "-c", EXPLAIN_ALL, *COMMANDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == list(COMMANDS)
