"""`koord-queue replay` knows the choices of replays, and needs no server, as no command does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages

import koord_queue
from koord_queue.cli import replay
from queue_insight.replay import score_command
from queue_insight.replay.scored_world import DECLARED
from queue_insight.replay.trace_files import FORMATS
from tests.queue_insight.offline.dump_files import dump_bytes, write
from tests.queue_insight.replay.replay_kit import Desk
from tests.queue_insight.replay.test_command_without_servers import SERVERS
from tests.queue_scheduler.shell_kit import ShellKit
from tests.tidy.source_tree import ROOT

WITHOUT_SERVERS = f"""
import sys
from pathlib import Path
for name in {SERVERS}:
    sys.modules[name] = None  # importing it is an ImportError
from koord_queue.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


def test_the_choices_are_those_of_the_engine() -> None:
    assert sorted(replay.FORMS) == sorted(FORMATS)
    assert set(replay.DECLARED) == set(DECLARED)
    assert replay.LOADS == score_command.LOADS
    assert replay.SCORED_POLICIES == score_command.POLICIES
    assert (replay.FORECASTS, replay.PATHS) == (score_command.FORECASTS, score_command.PATHS)


def without_servers(*line: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that cannot import the packages of the server."""
    command = [sys.executable, "-c", WITHOUT_SERVERS, *line]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_trace_is_replayed_where_no_server_is_installed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    files = (f"--trace={desk.folder}/trace.csv", f"--quotas={desk.folder}/quotas.yaml")
    done = without_servers("replay", *files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("5 jobs within 40 s\n")


def test_a_dump_is_prepared_there(tmp_path: Path) -> None:
    kit = ShellKit()
    kit.add_quota("team", 4)
    file = write(tmp_path, "mine.json", dump_bytes(kit))
    done = without_servers("dump", "--from-dump", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert '"kind":"KoordQueueDump"' in done.stdout
    assert '"busy"' not in done.stdout


def test_no_module_of_the_command_line_needs_a_server() -> None:
    found = [each.name for each in walk_packages(koord_queue.__path__, "koord_queue.")]
    modules = [name for name in found if not name.endswith("__main__")]
    script = WITHOUT_SERVERS.partition("from koord_queue")[0]
    imports = "\n".join(f"import {name}" for name in modules)
    command = [sys.executable, "-c", script + imports]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert len(modules) > 50
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dump_cannot_be_asked_there_and_the_error_says_what_to_install() -> None:
    done = without_servers("explain", "default/big", "--from-dump", "none.json")
    assert done.returncode == 1
    assert done.stderr.startswith("error: --from-dump needs the packages of the server, and ")
    assert done.stderr.endswith("Install them: pip install 'koord-queue[server]'\n")
