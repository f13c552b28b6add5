"""The process around a program's work: logs, probes, metrics, signals, start and stop.

What a program needs that talks to no API server. `shared_api.program` adds the connection and the
election.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from shared_api.exit_codes import EXIT_USAGE
from shared_api.metrics import SharedMetrics
from shared_api.process.clock import SystemClock
from shared_api.process.loop_thread import LoopThread, Step, check_threads, stop_all
from shared_api.process.malloc_arenas import limit_arenas
from shared_api.process.open_files import OpenFilesError, divide_open_files, raise_open_files
from shared_api.process.probes import (
    AddressError,
    Authorize,
    ProbeServer,
    Routes,
    load_tls,
    parse_address,
)
from shared_api.process.structured_logs import configure_logs
from shared_api.program_flags import FlagError, ProcessFlags
from shared_api.version import VERSION

SWITCH_SECONDS: Final = 0.001
"""Interval of Python's thread switches: the default of 5 ms would be most of a decision's
latency."""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

STUCK_SECONDS: Final = 120.0
"""A step that takes longer counts as stuck: no request may take that long."""

USAGE_ERRORS: Final = (FlagError, AddressError, OpenFilesError)

Check = Callable[[], tuple[bool, str]]

log = structlog.get_logger("program")


class LocalWork(Protocol):
    """The work of a program that talks to no API server."""

    def start(self) -> None:
        """Start the threads; return at once."""

    def stop(self) -> None:
        """Stop everything."""

    def ready_checks(self) -> Mapping[str, Check]:
        """Return the checks of `/readyz` by name."""

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""


class LocalProgram:
    """One process: build it, build the work with it, then call `run`.

    Args:
        component: Its name.
        flags: The command line.
        switch_seconds: Interval of Python's thread switches.

    Attributes:
        port_shares: Connections that each port may have at once, by its name.

    Raises:
        OpenFilesError: The process may not open enough files.
    """

    def __init__(
        self, component: str, flags: ProcessFlags, *, switch_seconds: float = SWITCH_SECONDS
    ) -> None:
        self._process_flags = flags
        self.clock = SystemClock()
        self.rng = random.Random()
        configure_logs(log_format=flags.log_format, level=flags.log_level, clock=self.clock)
        sys.setswitchinterval(switch_seconds)
        version = sys.version.split(maxsplit=1)[0]
        self.metrics = SharedMetrics(component=component, version=VERSION, python_version=version)
        self.component = component
        self._stopping = threading.Event()
        self._exit_code = 0
        open_files = raise_open_files()
        self.port_shares = divide_open_files(open_files)
        log.info("open files", limit=open_files, connections=self.port_shares)
        self._servers: list[tuple[ProbeServer, list[LoopThread]]] = []

    def spawn(
        self, name: str, step: Step, *, unblock: Callable[[], None] | None = None
    ) -> LoopThread:
        """Return a thread for a step, not yet started, whose errors are counted."""
        self.metrics.process.on_thread(name)
        return LoopThread(
            name,
            step,
            self.clock,
            on_error=self.metrics.process.on_loop_error,
            unblock=unblock,
        )

    def serve(self, work: LocalWork) -> int:
        """Start everything, wait for the signal to stop, stop everything; return the exit code.

        Raises:
            AddressError: An address cannot be listened on.
        """
        self._open_servers(work)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: self.stop())
        for _, threads in self._servers:
            for thread in threads:
                thread.start()
        work.start()
        self._on_started()
        self.clock.wait(self._stopping, None)
        log.info("stopping")
        work.stop()
        self._on_stopped()
        for server, threads in self._servers:
            stop_all(threads, self.clock)
            server.gate.close()
        log.info("stopped", exit_code=self._exit_code)
        return self._exit_code

    def stop(self, exit_code: int = 0) -> None:
        """Make it end; callable from any thread."""
        self._exit_code = self._exit_code or exit_code
        self._stopping.set()

    # ------------------------------------------------------------------ what programs add

    def _on_started(self) -> None:
        """Called when the work has started."""
        log.info("started", component=self.component)

    def _on_stopped(self) -> None:
        """Called when the work has stopped; probes are still answered."""

    def _authorize_metrics(self) -> Authorize | None:
        """Return the check of readers of the metrics; None if all clients may read them."""
        return None

    def _user_of(self, authorization: str) -> str:
        """Return the user of a header Authorization; "" if unknown."""
        del authorization
        return ""

    def _more_ready_checks(self) -> Mapping[str, Check]:
        """Return checks of `/readyz` beside those of the work."""
        return {}

    # ------------------------------------------------------------------ parts

    def _open_servers(self, work: LocalWork) -> None:
        probes = Routes(live=self._live_checks(work), ready=self._ready_checks(work))
        metrics = Routes(
            metrics=self.metrics.exposition,
            authorize=self._authorize_metrics(),
            user_of=self._user_of,
        )
        flags = self._process_flags
        tls = load_tls(flags.metrics_tls_certificate, flags.metrics_tls_key, "--metrics-tls")
        for flag, address, routes, context in (
            # Probes have no TLS: the kubelet does not verify certificates, and they are no secret.
            ("--health-address", flags.health_address, probes, None),
            ("--metrics-address", flags.metrics_address, metrics, tls),
        ):
            name = flag.removeprefix("--").removesuffix("-address")
            server = ProbeServer(
                parse_address(address, flag),
                routes,
                flag=flag,
                clock=self.clock,
                limit=self.port_shares[name],
                tls=context,
                observe=self.metrics.ports.of_port(name),
            )
            self._servers.append((server, server.gate.threads(name, self.spawn)))

    def _live_checks(self, work: LocalWork) -> Mapping[str, Check]:
        return {"threads": lambda: check_threads(work.threads(), STUCK_SECONDS)}

    def _ready_checks(self, work: LocalWork) -> Mapping[str, Check]:
        return {
            **work.ready_checks(),
            "not-stopping": self._check_not_stopping,
            "keys": self.metrics.work_queues.check_failing,
            **self._more_ready_checks(),
        }

    def _check_not_stopping(self) -> tuple[bool, str]:
        stopping = self._stopping.is_set()
        return not stopping, "stopping" if stopping else "running"


def run_local_program(
    main: Callable[[Sequence[str]], int],
    arguments: Sequence[str],
    usage_errors: tuple[type[Exception], ...] = USAGE_ERRORS,
) -> int:
    """Run a main function; a user's error becomes one line on stderr and exit code 2."""
    # Handlers until the program installs its own. The first process of a container receives no
    # signal without a handler: if stopped while it is built, it would start, lead, and be killed.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))
    limit_arenas()
    try:
        return main(arguments)
    except usage_errors as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
