"""Runs `koord-queue` against a real cluster, as a process: in a pipe, or on a terminal.

What a command prints is compared with a file of `tests/data/command_line`; `UPDATE_GOLDEN=1` writes
these anew. What differs from run to run is replaced first: ages, times, ports and random names.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QueueWorld
from tests.cluster.visibility_world import Aggregated, aggregated
from tests.controlplane.binaries import chosen_kubernetes, default_kubernetes
from tests.waiting import PATIENCE_SECONDS, until

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = ROOT / "tests/data/command_line"
COLUMNS: Final = 100
ALWAYS: Final = "--forecast-least-runs=0"
"""Times are told though hardly a run has ended."""
# A shell starts programs in the background with SIGINT ignored, which what they start inherits.
INTERRUPTIBLE: Final = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from koord_queue.__main__ import main
main()
"""

_AGE: Final = r"\d+(?:y|d|h|m|s)(?:\d+(?:d|h|m|s))?"
_REPLACED: Final = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?", "TIME"),
    (r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d\d:\d\d(?::\d\d)?\b", "TIME"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (rf"(?<![\w.-]){_AGE}(?![\w.-])", "AGE"),
    (r"(?<=\S) {2,}", "  "),
)
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Printed(NamedTuple):
    """What a command has printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the answer."""
        return self.out.splitlines()


class CommandLine(NamedTuple):
    """The command line, and the cluster that it asks."""

    cluster: Aggregated
    controllers: ProgramProcess

    @property
    def world(self) -> QueueWorld:
        """The cluster's objects."""
        return self.cluster.world

    @property
    def server(self) -> str:
        """Where the scheduler's debug API is."""
        return f"http://127.0.0.1:{self.cluster.scheduler.port_of('--debug-address')}"

    @property
    def controllers_server(self) -> str:
        """Where the controllers' debug API is."""
        return f"http://127.0.0.1:{self.controllers.port_of('--debug-address')}"

    def run(
        self,
        *arguments: str,
        user: str = "admin",
        text: str = "",
        more: Mapping[str, str] | None = None,
        seconds: float = PATIENCE_SECONDS,
    ) -> Printed:
        """Run a command in a pipe.

        Args:
            arguments: Of the command.
            user: Whose kubeconfig it has.
            text: Its standard input.
            more: Environment variables.
            seconds: How long it may take.
        """
        done = subprocess.run(
            _command(arguments),
            cwd=ROOT,
            env=self.environment(user) | dict(more or {}),
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Printed(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command in a pipe, which goes on; the caller ends it, or interrupts it."""
        return subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *arguments],
            cwd=ROOT,
            env=self.environment("admin"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_on_terminal(
        self, *arguments: str, user: str = "admin", more: Mapping[str, str] | None = None
    ) -> Printed:
        """Run a command on a terminal of 100 columns; `out` has what a person sees, with styles."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        environment = self.environment(user) | {"TERM": "xterm-256color"} | dict(more or {})
        with subprocess.Popen(
            _command(arguments),
            cwd=ROOT,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            shown = b"".join(_chunks(ours))
            code = process.wait(PATIENCE_SECONDS)
        os.close(ours)
        return Printed(code, shown.decode().replace("\r\n", "\n"), "")

    def environment(self, user: str = "admin") -> dict[str, str]:
        """Return the environment variables of a command."""
        plane = self.world.plane
        kubeconfig = plane.kubeconfig if user == "admin" else plane.kubeconfig_for(user)
        kept = {
            key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLUMNS"}
        }
        return kept | {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT), "TZ": "UTC"}


@contextmanager
def command_line(binaries: Path, *insight_flags: str) -> Iterator[CommandLine]:
    """Start a cluster with all programs of this project, and wait until the APIs answer.

    Args:
        binaries: The control plane's.
        insight_flags: Further flags of the insight program.
    """
    with aggregated(binaries, "--forecast-interval=1s", ALWAYS, *insight_flags) as cluster:
        controllers = cluster.world.start_controllers()
        until(cluster.available, OWN_TIMES_SECONDS)
        yield CommandLine(cluster, controllers)


def without_styles(text: str) -> str:
    """Return a text without the escape sequences of a terminal."""
    return _STYLE.sub("", text)


def steady(text: str) -> str:
    """Return a text in which what differs from run to run is replaced."""
    text = text.replace(chosen_kubernetes(), default_kubernetes())
    for pattern, instead in _REPLACED:
        text = re.sub(pattern, instead, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def assert_golden(name: str, printed: str) -> None:
    """Compare what was printed with a file of `tests/data/command_line`."""
    file, got = GOLDEN / f"{name}.txt", steady(printed)
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(got, encoding="utf-8")
    assert got == file.read_text(encoding="utf-8")


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "koord_queue", *arguments]


def _chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:  # the last process that had the other end has closed it
            return
        if not chunk:
            return
        yield chunk
