"""A program that talks to the API server: the connection and the election around its work.

    flags --> Program --> builds the Work with the client
                |
                +-- start: probes, then the work (caches fill, on every replica), then the election
                +-- leading: the work is notified, and may write as soon as `may_write` is True
                +-- SIGTERM or SIGINT: not ready, work stopped, lease released, exit 0
                +-- lease lost: `writable_seconds` stops the writers; exit `EXIT_LOST_LEASE`

A replica that does not lead keeps its caches and answers requests: it is ready.
"""

from __future__ import annotations

import gc
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import structlog

from shared_api.authorization.authorizer import Authorizer, Policy
from shared_api.authorization.rights import PathRight
from shared_api.client.connection_settings import SettingsError
from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import open_connection
from shared_api.client.read_only import ReadOnlyTransport
from shared_api.client.resource_client import ResourceClient
from shared_api.client.transport import Transport
from shared_api.leader_election import (
    EXIT_LOST_LEASE,
    LeaderElector,
    Leadership,
    LeaseSettingError,
    LeaseSettings,
    SoleLeader,
)
from shared_api.lease_lock import ApiLeaseLock
from shared_api.local_program import USAGE_ERRORS, Check, LocalProgram, LocalWork, run_local_program
from shared_api.metrics import SharedMetrics
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.process.probes import Authorize
from shared_api.program_flags import ProgramFlags
from shared_api.version import VERSION

READERS: Final = Policy(allowed_seconds=60.0, refused_seconds=5.0, failed_seconds=5.0)
"""How readers of metrics and of the debug API are authorized (Kueue's dashboard backend uses the
same times)."""

REVIEW_QPS: Final = 2 * READERS.new_tokens_per_second
REVIEW_BURST: Final = 2 * READERS.new_tokens_at_once
"""Rate limit of reviews of readers, of one token and one right per path a minute: enough for a page
of dashboards, and less than a tenth of what the work may send by default. New tokens have half of
it, so that who makes up tokens keeps no known reader waiting."""

log = structlog.get_logger("program")


class Host(Protocol):
    """The process as the work sees it: a `Program`, or a test."""

    @property
    def client(self) -> ResourceClient:
        """The client of the API server."""

    @property
    def flow(self) -> FlowControl:
        """The flow control of the client."""

    @property
    def clock(self) -> Clock:
        """The clock of the process."""

    @property
    def rng(self) -> random.Random:
        """The source of randomness."""

    @property
    def leadership(self) -> Leadership:
        """Informs writers whether this process leads."""

    @property
    def metrics(self) -> SharedMetrics:
        """The metrics that both programs have."""

    @property
    def identity(self) -> str:
        """Name of this replica."""

    def spawn(
        self, name: str, step: Step, *, unblock: Callable[[], None] | None = None
    ) -> LoopThread:
        """Return a thread for a step, not yet started."""

    def on_prepared(self, seconds: float) -> None:
        """Note that the caches are complete, so many seconds after this process might write."""


class Work(LocalWork, Protocol):
    """The work of a program."""

    def on_started_leading(self) -> None:
        """Handle that this replica leads now; called on the election's thread, must be quick."""


class Program(LocalProgram):
    """One process: build it, build the work with it, then call `run`.

    Args:
        component: Its name.
        flags: The command line.
        only_reads: Whether every write is refused in this process, but those of the Lease.

    Raises:
        SettingsError: The kubeconfig is missing or malformed.
        OpenFilesError: The process may not open enough files.
    """

    def __init__(self, component: str, flags: ProgramFlags, *, only_reads: bool = False) -> None:
        super().__init__(component, flags)
        self.flags = flags
        self.identity = f"{socket.gethostname()}_{self.rng.getrandbits(48):012x}"
        found = open_connection(flags.kubeconfig, flags.context, clock=self.clock)
        self._connection = found.settings
        self._transport: Transport = HttpTransport(self._connection, self.clock)
        if only_reads:
            lease = (flags.lease_namespace, flags.lease_name)
            self._transport = ReadOnlyTransport(self._transport, *lease)
        waits = self.metrics.rest_client.on_wait
        self.flow = FlowControl(flags.qps, flags.burst, self.clock, on_wait=waits)
        self.client = self._build_client(self.flow)
        # A separate budget: clients with random tokens must not use up that of the work, or cause
        # the server to hold it. A review is a create, so it ends after `WRITE_SECONDS`: a reader
        # occupies one of a port's few places meanwhile.
        reviews = FlowControl(REVIEW_QPS, REVIEW_BURST, self.clock)
        self.authorizer = Authorizer(self._build_client(reviews), self.clock, READERS)
        self._work: Work | None = None
        self._elector: LeaderElector | None = None
        self._election: LoopThread | None = None
        self.leadership: Leadership = self._build_leadership()

    def run(self, work: Work) -> int:
        """Start everything, wait for the signal to stop, stop everything; return the exit code.

        Raises:
            AddressError: An address cannot be listened on.
        """
        self._work = work
        return self.serve(work)

    def on_prepared(self, seconds: float) -> None:
        """Note that the caches are complete, so many seconds after this process might write.

        From now on the garbage collector passes over what there is. The caches live as long as the
        process; with 100,000 units a whole collection visits each entry of each large dict, and all
        threads wait for it, some for a lock that is held meanwhile.
        """
        self.metrics.process.on_prepared(seconds)
        gc.collect()
        gc.freeze()

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
        # Without flow control: a busy program must not lose its lease because of its own traffic or
        # of `Retry-After`, with which the server may ask for a longer pause than a lease lasts. One
        # try per retry period is no load, and a new leader after a lost lease would send more.
        flow = FlowControl(0, 1, self.clock, can_be_held=False)
        client = self._build_client(flow, settings.request_seconds)
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

    def _authorize_metrics(self) -> Authorize | None:
        return self._judge_reader if self.flags.metrics_secure else None

    def _judge_reader(self, path: str, headers: Mapping[str, str]) -> HTTPStatus:
        authorization = headers.get("authorization", "")
        return self.authorizer.judge_bearer(authorization, PathRight(path)).status

    def _user_of(self, authorization: str) -> str:
        return self.authorizer.cached_user(authorization)

    def _more_ready_checks(self) -> Mapping[str, Check]:
        return {"leadership": lambda: (True, f"leader: {self.leadership.holder() or 'none'}")}

    # ------------------------------------------------------------------ start and stop

    def _on_started(self) -> None:
        self._election = self._start_election()
        log.info("started", component=self.component, identity=self.identity)

    def _start_election(self) -> LoopThread | None:
        if self._elector is None:
            self._on_started_leading()
            return None
        thread = self.spawn("leader-election", self._elector.step)
        thread.start()
        return thread

    def _on_started_leading(self) -> None:
        self.metrics.process.on_leading(leading=True)
        elector = self._elector
        if elector is not None:
            settle = elector.settle_seconds_left()
            self.metrics.process.on_takeover(lease=elector.waited_seconds(), settle=settle)
        log.info("leading", identity=self.identity)
        if self._work is not None:
            self._work.on_started_leading()

    def _on_stopped_leading(self, reason: str) -> None:
        self.metrics.process.on_leading(leading=False)
        log.error("lost the lease, ending the process", reason=reason)
        self.stop(EXIT_LOST_LEASE)

    def _on_stopped(self) -> None:
        election = self._election
        if election is not None:
            election.stop()
        if self._elector is not None:
            # Last, when no write can be in flight: the next leader starts at once.
            self._elector.release()
        if election is not None:
            election.stop()  # a try that is still running releases what it acquires
        self._transport.close()


def run_program(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a main function; a user's error becomes one line on stderr and exit code 2."""
    return run_local_program(main, arguments, (*USAGE_ERRORS, SettingsError, LeaseSettingError))
