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
COMPLETE: Final = """
import sys
from koord_queue.cli.completion import complete
found = complete({words}, {typed})
print(*(each.value for each in found))
print(*sorted(name for name in sys.modules if name.startswith("koord_queue.cli.")))
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


@pytest.mark.parametrize(
    ("words", "typed", "want", "command"),
    [
        pytest.param([], "", " ".join(COMMANDS), "", id="names of commands, without a command"),
        pytest.param(["explain"], "--ch", "--changes", "explain", id="options of one command"),
        pytest.param(["hold"], "--dr", "--dry-run", "acts", id="options of an act"),
    ],
)
def test_completion_imports_no_more_than_options(
    words: list[str], typed: str, want: str, command: str
) -> None:
    script = COMPLETE.replace("{words}", repr(words)).replace("{typed}", repr(typed))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    completed, own = done.stdout.splitlines()
    assert completed == want
    known = {f"koord_queue.cli.{each}" for each in ("app", "completion", "options", "shells")}
    assert set(own.split()) - known == ({f"koord_queue.cli.{command}"} if command else set())


def test_the_program_does_not_need_what_completes_words_for_kubectl() -> None:
    _, own = modules_after("completion", "bash")
    assert "koord_queue.cli.shells" in own
    assert "koord_queue.cli.completion" not in own
