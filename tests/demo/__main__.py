"""`make demo`: shows the queue at work, and removes everything at the end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from shared_api.client.connection_settings import SettingsError
from shared_api.client.errors import ApiFailure
from shared_api.process.clock import Clock, SystemClock
from shared_api.process.structured_logs import configure_logs
from tests.demo.clusters import Cluster, DemoFailed
from tests.demo.current_cluster import CurrentCluster
from tests.demo.demo_run import DemoRun
from tests.demo.demo_settings import Settings, Where, read_settings
from tests.demo.embedded_cluster import EmbeddedCluster
from tests.demo.interruption import Interrupted, Interruption
from tests.demo.local_cluster import LocalCluster
from tests.demo.terminal import Terminal

EXIT_INTERRUPTED: Final = 130
"""The exit status of shells for a program that SIGINT ended."""


def main() -> int:
    """Run the demo and return the exit status."""
    settings = read_settings(sys.argv[1:], os.environ)
    clock = SystemClock()
    configure_logs(log_format="console", level="error", clock=clock)
    terminal = Terminal(sys.stdout)
    interruption = Interruption()
    interruption.listen()
    run = DemoRun(
        settings,
        terminal,
        clock,
        make_cluster=make_cluster,
        on_looking=interruption.note_only,
        check_interruption=interruption.check,
    )
    try:
        run.run()
    except Interrupted:
        terminal.say("", "ended; all that it started is gone")
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


if __name__ == "__main__":
    sys.exit(main())
