"""The process around a program's work: connection, election, probes, signals, start and stop.

    flags --> Program --> builds the Work with the client
                |
                +-- start: probes, then the work (caches fill, on every replica), then the election
                +-- leading: the work is notified, and may write as soon as `may_write` is True
                +-- SIGTERM or SIGINT: not ready, work stopped, lease released, exit 0
                +-- lease lost: `writable_seconds` stops the writers; exit `EXIT_LOST_LEASE`

A replica that does not lead keeps its caches and answers requests: it is ready.
"""

from __future__ import annotations

import random
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import structlog

from shared_api.access_review import AccessReviewer, PathRight
from shared_api.client.connection_settings import SettingsError
from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import load_connection
from shared_api.client.resource_client import ResourceClient
from shared_api.leader_election import (
    EXIT_LOST_LEASE,
    LeaderElector,
    Leadership,
    LeaseSettingError,
    LeaseSettings,
    SoleLeader,
)
from shared_api.lease_lock import ApiLeaseLock
from shared_api.metrics import SharedMetrics
from shared_api.process.clock import Clock, SystemClock
from shared_api.process.loop_thread import LoopThread, Step, check_threads, stop_all
from shared_api.process.malloc_arenas import limit_arenas
from shared_api.process.open_files import (
    OpenFilesError,
    divide_open_files,
    raise_open_files,
)
from shared_api.process.probes import (
    AddressError,
    ProbeServer,
    Routes,
    load_tls,
    parse_address,
)
from shared_api.process.structured_logs import configure_logs
from shared_api.program_flags import FlagError, ProgramFlags

VERSION: Final = "0.1.0"

SWITCH_SECONDS: Final = 0.001
"""Interval of Python's thread switches: the default of 5 ms would be most of a decision's
latency."""

LEASE_REQUEST_SECONDS: Final = 5.0
"""Time limit of one request of the election: two tries fit into the default renew deadline."""

REVIEW_QPS: Final = 20.0
REVIEW_BURST: Final = 40
"""Rate limit of requests that identify readers, two per reader and path and minute: enough for a
page of dashboards, and a twenty-fifth of what the work may send by default."""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

STUCK_SECONDS: Final = 120.0
"""A step that takes longer counts as stuck: no request may take that long."""

EXIT_USAGE: Final = 2
"""A flag, the configuration or an address is not valid; one line on stderr says which."""

Check = Callable[[], tuple[bool, str]]

log = structlog.get_logger("program")


class Host(Protocol):
    """The process as the work sees it: a `Program`, or a test."""

    @property
    def client(self) -> ResourceClient:
        """The client of the API server."""
        ...

    @property
    def flow(self) -> FlowControl:
        """The flow control of the client."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of the process."""
        ...

    @property
    def rng(self) -> random.Random:
        """The source of randomness."""
        ...

    @property
    def leadership(self) -> Leadership:
        """Informs writers whether this process leads."""
        ...

    @property
    def metrics(self) -> SharedMetrics:
        """The metrics that both programs have."""
        ...

    @property
    def identity(self) -> str:
        """Name of this replica."""
        ...

    def spawn(
        self, name: str, step: Step, *, unblock: Callable[[], None] | None = None
    ) -> LoopThread:
        """Return a thread for a step, not yet started."""
        ...


class Work(Protocol):
    """The work of a program."""

    def start(self) -> None:
        """Start informers and workers; return at once."""
        ...

    def stop(self) -> None:
        """Stop everything; no write begins after this returns."""
        ...

    def on_started_leading(self) -> None:
        """Handle that this replica leads now; called on the election's thread, must be quick."""
        ...

    def ready_checks(self) -> Mapping[str, Check]:
        """Return the checks of `/readyz` by name."""
        ...

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""
        ...


class Program:
    """One process: build it, build the work with it, then call `run`.

    Attributes:
        port_shares: Connections that each port may have at once, by its name.

    Raises:
        SettingsError: The kubeconfig is missing or malformed.
        OpenFilesError: The process may not open enough files.
    """

    def __init__(self, component: str, flags: ProgramFlags) -> None:
        self.flags = flags
        self.clock = SystemClock()
        self.rng = random.Random()
        configure_logs(log_format=flags.log_format, level=flags.log_level, clock=self.clock)
        sys.setswitchinterval(SWITCH_SECONDS)
        version = sys.version.split(maxsplit=1)[0]
        self.metrics = SharedMetrics(component=component, version=VERSION, python_version=version)
        self.identity = f"{socket.gethostname()}_{self.rng.getrandbits(48):012x}"
        self.component = component
        self._connection = load_connection(flags.kubeconfig, flags.context, clock=self.clock)
        self._transport = HttpTransport(self._connection, self.clock)
        self.flow = FlowControl(flags.qps, flags.burst, self.clock)
        self.client = self._build_client(self.flow)
        # A separate budget: clients with random tokens must not use up that of the work, or cause
        # the server to hold it.
        reviews = FlowControl(REVIEW_QPS, REVIEW_BURST, self.clock)
        self.reviewer = AccessReviewer(self._build_client(reviews), self.clock)
        self._stopping = threading.Event()
        self._exit_code = 0
        self._work: Work | None = None
        self._elector: LeaderElector | None = None
        self.leadership: Leadership = self._build_leadership()
        open_files = raise_open_files()
        self.port_shares = divide_open_files(open_files)
        log.info("open files", limit=open_files, connections=self.port_shares)
        self._servers: list[tuple[ProbeServer, list[LoopThread]]] = []

    def spawn(
        self, name: str, step: Step, *, unblock: Callable[[], None] | None = None
    ) -> LoopThread:
        """Return a thread for a step, not yet started, whose errors are counted."""
        return LoopThread(
            name,
            step,
            self.clock,
            on_error=self.metrics.process.on_loop_error,
            unblock=unblock,
        )

    def run(self, work: Work) -> int:
        """Start everything, wait for the signal to stop, stop everything; return the exit code.

        Raises:
            AddressError: An address cannot be listened on.
        """
        self._work = work
        self._open_servers(work)
        self._catch_signals()
        for _, threads in self._servers:
            for thread in threads:
                thread.start()
        work.start()
        election = self._start_election()
        log.info("started", component=self.component, identity=self.identity)
        self.clock.wait(self._stopping, None)
        self._shut_down(work, election)
        return self._exit_code

    def stop(self, exit_code: int = 0) -> None:
        """Make `run` end; callable from any thread."""
        self._exit_code = self._exit_code or exit_code
        self._stopping.set()

    # ------------------------------------------------------------------ parts

    def _build_client(self, flow: FlowControl, timeout_seconds: float = 30.0) -> ResourceClient:
        return ResourceClient(
            self._transport,
            flow=flow,
            clock=self.clock,
            rng=self.rng,
            request_timeout_seconds=timeout_seconds,
            user_agent=f"{self.component}/{VERSION}",
            host=self._connection.host,
            observer=self.metrics.rest_client,
        )

    def _build_leadership(self) -> Leadership:
        if not self.flags.leader_elect:
            return SoleLeader(self.identity)
        settings = LeaseSettings(
            lease_seconds=self.flags.lease_seconds,
            renew_deadline_seconds=self.flags.renew_deadline_seconds,
            retry_seconds=self.flags.retry_seconds,
        )
        timeout = min(LEASE_REQUEST_SECONDS, self.flags.renew_deadline_seconds / 2)
        # Without flow control: a busy program must not lose its lease because of its own traffic or
        # of `Retry-After`, with which the server may ask for a longer pause than a lease lasts. One
        # try per retry period is no load, and a new leader after a lost lease would send more.
        flow = FlowControl(0, 1, self.clock, can_be_held=False)
        client = self._build_client(flow, timeout)
        lock = ApiLeaseLock(client, self.flags.lease_namespace, self.flags.lease_name)
        self._elector = LeaderElector(
            lock,
            self.identity,
            settings,
            clock=self.clock,
            rng=self.rng,
            on_started_leading=self._on_started_leading,
            on_stopped_leading=self._on_stopped_leading,
        )
        return self._elector

    def _open_servers(self, work: Work) -> None:
        authorize = self._authorize_metrics if self.flags.metrics_secure else None
        probes = Routes(live=self._live_checks(work), ready=self._ready_checks(work))
        metrics = Routes(metrics=self.metrics.exposition, authorize=authorize)
        flags = self.flags
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

    def _authorize_metrics(self, path: str, headers: Mapping[str, str]) -> HTTPStatus:
        return self.reviewer.judge(headers.get("authorization", ""), PathRight(path)).status

    def _live_checks(self, work: Work) -> Mapping[str, Check]:
        return {"threads": lambda: check_threads(work.threads(), STUCK_SECONDS)}

    def _ready_checks(self, work: Work) -> Mapping[str, Check]:
        return {
            **work.ready_checks(),
            "not-stopping": self._check_not_stopping,
            "leadership": lambda: (True, f"leader: {self.leadership.holder() or 'none'}"),
        }

    def _check_not_stopping(self) -> tuple[bool, str]:
        stopping = self._stopping.is_set()
        return not stopping, "stopping" if stopping else "running"

    # ------------------------------------------------------------------ start and stop

    def _catch_signals(self) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: self.stop())

    def _start_election(self) -> LoopThread | None:
        if self._elector is None:
            self._on_started_leading()
            return None
        thread = self.spawn("leader-election", self._elector.step)
        thread.start()
        return thread

    def _on_started_leading(self) -> None:
        self.metrics.process.on_leading(leading=True)
        log.info("leading", identity=self.identity)
        if self._work is not None:
            self._work.on_started_leading()

    def _on_stopped_leading(self, reason: str) -> None:
        self.metrics.process.on_leading(leading=False)
        log.error("lost the lease, ending the process", reason=reason)
        self.stop(EXIT_LOST_LEASE)

    def _shut_down(self, work: Work, election: LoopThread | None) -> None:
        log.info("stopping")
        work.stop()
        if election is not None:
            election.stop()
        if self._elector is not None:
            # Last, when no write can be in flight: the next leader starts at once.
            self._elector.release()
        if election is not None:
            election.stop()  # a try that is still running releases what it acquires
        for server, threads in self._servers:
            stop_all(threads, self.clock)
            server.gate.close()
        self._transport.close()
        log.info("stopped", exit_code=self._exit_code)


def run_program(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a main function; a user's error becomes one line on stderr and exit code 2."""
    # Handlers until the program installs its own. The first process of a container receives no
    # signal without a handler: if stopped while it is built, it would start, lead, and be killed.
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: sys.exit(0))
    limit_arenas()
    try:
        return main(arguments)
    except (FlagError, SettingsError, AddressError, LeaseSettingError, OpenFilesError) as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
