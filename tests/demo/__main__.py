"""`make demo`: shows the queue at work, and removes everything at the end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final, NoReturn

from shared_api.client.connection_settings import SettingsError
from shared_api.client.errors import ApiFailure
from shared_api.process.clock import Clock, SystemClock
from shared_api.process.structured_logs import configure_logs
from tests.demo.clusters import Cluster, DemoFailed
from tests.demo.current_cluster import CurrentCluster
from tests.demo.demo_run import DemoRun
from tests.demo.demo_settings import Settings, Where, read_settings
from tests.demo.embedded_cluster import EmbeddedCluster
from tests.demo.local_cluster import LocalCluster
from tests.demo.terminal import Terminal

ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED: Final = 130
"""The exit status of shells for a program that SIGINT ended."""


class Interrupted(BaseException):
    """The user ends the demo. Not an Exception, so that no handler treats it as an error."""


class Interruption:
    """Remembers the first Ctrl-C, since Python drops what a handler raises inside a finalizer."""

    def __init__(self) -> None:
        self._came = False

    def come(self, _number: int, _frame: object) -> NoReturn:
        """Handle a signal."""
        self._came = True
        # A second Ctrl-C must not interrupt the removal that the first one started.
        _ignore_signals()
        raise Interrupted

    def check(self) -> None:
        """Raise the interruption if it was dropped."""
        if self._came:
            raise Interrupted


def main() -> int:
    """Run the demo and return the exit status."""
    settings = read_settings(sys.argv[1:], os.environ)
    clock = SystemClock()
    configure_logs(log_format="console", level="error", clock=clock)
    terminal = Terminal(sys.stdout)
    interruption = Interruption()
    for number in ENDING_SIGNALS:
        signal.signal(number, interruption.come)
    run = DemoRun(
        settings,
        terminal,
        clock,
        make_cluster=make_cluster,
        on_leaving=_ignore_signals,
        check_interruption=interruption.check,
    )
    try:
        run.run()
    except Interrupted:
        terminal.say("", "ended; nothing is left behind")
        return run.outcome.exit_status if run.outcome.is_finished else EXIT_INTERRUPTED
    except (DemoFailed, ApiFailure, SettingsError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    return run.outcome.exit_status


def make_cluster(settings: Settings, folder: Path, clock: Clock) -> Cluster:
    """Return the cluster of the settings, not started."""
    match settings.where:
        case Where.EMBEDDED:
            return EmbeddedCluster(folder, clock)
        case Where.LOCAL:
            return LocalCluster()
        case Where.CURRENT:
            return CurrentCluster(clock, _ask)


def _ask(question: str) -> str:
    if not sys.stdin.isatty():
        raise DemoFailed("CLUSTER=current asks before it begins, and there is no terminal to ask")
    return input(question)


def _ignore_signals() -> None:
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
