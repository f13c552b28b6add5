"""The programs as processes: started, awaited, monitored, and stopped.

Each has a log file. If one ends by itself, the demo ends and shows the end of its log.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shared_api.process.clock import Clock
from tests.controlplane.child_process import ChildProcess, stop_all
from tests.demo.clusters import ROOT, Cluster, DemoFailed

ANY_PORT: Final = 0
Json = dict[str, Any]

READY_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 2.0
QUESTION_SECONDS: Final = 40.0
"""For a question that is posted: the scheduler waits for the insight program for up to 30 s."""
LOOPBACK: Final = "127.0.0.1"
WRITING_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
SCHEDULER: Final = "koord-queue-scheduler"
CONTROLLERS: Final = "koord-queue-controllers"
INSIGHT: Final = "koord-queue-insight"
DEBUG_PORTS: Final = {SCHEDULER: 19876, CONTROLLERS: 19877}
"""The default ports of the programs; if one is taken, any other."""
CONFIGURATION_FILE: Final = "scheduler.yaml"
CONFIGURATION: Final = """\
apiVersion: scheduling.k8s.io/v1
kind: KoordQueueConfiguration
accounts: {enabled: true}  # for the page's report
"""
FLAGS: Final = {
    # Relative to their folder, as the names of sockets are short.
    SCHEDULER: ("--insight-socket-dir", ".", "--config", CONFIGURATION_FILE),
    CONTROLLERS: ("--enabled-extensions", "job"),
}
FORECAST_INTERVAL: Final = "3s"
"""Minutes pass like days in the demo."""
MODULES: Final = {
    SCHEDULER: "queue_scheduler",
    CONTROLLERS: "queue_controllers",
    INSIGHT: "queue_insight.insight_program",
}
_LISTENING: Final = re.compile(
    r" listening .* flag=(?P<flag>--\S+)(?: \S+)* port=(?P<port>\d+)$", re.MULTILINE
)
_REQUESTS: Final = re.compile(r"^rest_client_requests_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$")
# The user's proxies are not for loopback.
_opener: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ProgramProcesses:
    """The three programs for one cluster. For one thread.

    Each chooses its ports and reports them in its log, since a port that another process finds free
    may be taken before the program binds it.
    """

    def __init__(self, cluster: Cluster, folder: Path, group: int, clock: Clock) -> None:
        self._clock = clock
        self._folder = folder
        self._group = group
        self._where = ["--queue-namespace", cluster.queue_namespace]
        self._where += ["--kubeconfig", cluster.kubeconfig]
        self._where += ["--context", cluster.context] if cluster.context else []
        common = cluster.environment()
        self._environment = {**(os.environ if common is None else common), "PYTHONPATH": str(ROOT)}
        self._debug_ports = dict(DEBUG_PORTS)
        self._children = {
            # The insight program first: its sockets are there when the scheduler looks for them.
            INSIGHT: self._insight(),
            **{name: self._program(name) for name in DEBUG_PORTS},
        }
        self._urls: dict[tuple[str, str], str] = {}

    def _program(self, name: str) -> ChildProcess:
        """Return the scheduler or the controllers."""
        address = f"{LOOPBACK}:{self._debug_ports[name]}"
        # One replica each: without an election, the first decision is a few seconds earlier.
        rest = ("--debug-address", address, "--leader-elect=false")
        return self._child(name, *self._where, *FLAGS[name], *rest)

    def _insight(self) -> ChildProcess:
        """Return the insight program, which knows no API server."""
        folders = ("--socket-dir", ".", "--record-dir", str(self._folder))
        page = ("--page-address", f"{LOOPBACK}:{ANY_PORT}")
        return self._child(INSIGHT, *folders, *page, "--forecast-interval", FORECAST_INTERVAL)

    def _child(self, name: str, *flags: str) -> ChildProcess:
        anywhere = f"{LOOPBACK}:{ANY_PORT}"
        addresses = ["--health-address", anywhere, "--metrics-address", anywhere]
        child = ChildProcess(
            [sys.executable, "-m", MODULES[name], *flags, *addresses, "--log-format", "console"],
            log_path=self._folder / f"{name}.log",
            environment=self._environment,
            group=self._group,
        )
        child.name = name
        return child

    def start(self) -> None:
        """Start all; returns at once."""
        (self._folder / CONFIGURATION_FILE).write_text(CONFIGURATION, encoding="utf-8")
        for child in self._children.values():
            child.start()

    def stop(self) -> None:
        """Stop all programs."""
        stop_all(self._children.values())

    def wait_until_ready(self, check_interruption: Callable[[], None]) -> None:
        """Return when all report that they are ready; what `check_interruption` raises ends it.

        Raises:
            DemoFailed: One has ended, or is not ready in time.
        """
        deadline = self._clock.monotonic() + READY_SECONDS
        for name in self._children:
            while not _is_ok(f"{self._url(name, '--health-address')}/readyz"):
                self.check_alive()
                check_interruption()
                if self._clock.monotonic() > deadline:
                    raise DemoFailed(self._children[name].describe_end())
                self._clock.sleep(POLL_SECONDS)

    def _gives_way(self, name: str) -> bool:
        """Start a program with any port if it has ended because the usual one is taken.

        Another demo has it, or another instance of the program.
        """
        port = self._debug_ports.get(name, ANY_PORT)
        taken = f"--debug-address: {LOOPBACK}:{port} is already in use"
        if port == ANY_PORT or taken not in self._children[name].log():
            return False
        self._debug_ports[name] = ANY_PORT
        self._children[name] = self._program(name)
        self._children[name].start()
        return True

    def _url(self, name: str, flag: str) -> str:
        if (name, flag) not in self._urls:
            port = find_port(self._children[name].log(), flag)
            url = f"http://{LOOPBACK}:{port}"
            if not port:
                return url
            self._urls[name, flag] = url
        return self._urls[name, flag]

    @property
    def debug_url(self) -> str:
        """The URL of the scheduler's debug API, once it listens."""
        return self._url(SCHEDULER, "--debug-address")

    @property
    def jobs_url(self) -> str:
        """The URL of the controllers' debug API."""
        return self._url(CONTROLLERS, "--debug-address")

    @property
    def page_url(self) -> str:
        """The URL of the page."""
        return self._url(INSIGHT, "--page-address")

    def check_alive(self) -> None:
        """Return while all run; start one anew whose usual port is taken.

        Raises:
            DemoFailed: One has ended for another reason; the message has the end of its log.
        """
        # Each is looked at once: one that ended between two looks would be taken for broken.
        for name, child in list(self._children.items()):
            if not child.running and not self._gives_way(name):
                raise DemoFailed(child.describe_end())

    @property
    def pids(self) -> dict[str, int]:
        """The ids of running processes."""
        return {name: pid for name, child in self._children.items() if (pid := child.pid)}

    def ask_debug_api(self, path: str, body: Json | None = None) -> Any | None:
        """Return the answer of the debug API, or None without one; `body` is posted."""
        try:
            return json.loads(_get(f"{self.debug_url}{path}", body))
        except (OSError, ValueError):
            return None

    def writes(self) -> dict[str, int]:
        """Return the write requests of each program so far, from its metrics."""
        counted: dict[str, int] = {}
        for name in DEBUG_PORTS:
            url = f"{self._url(name, '--metrics-address')}/metrics"
            try:
                counted[name] = count_writes(_get(url).decode())
            except OSError:
                counted[name] = 0
        return counted


def count_writes(exposition: str) -> int:
    """Return the sum of requests in a metrics page that may have changed something."""
    total = 0.0
    for line in exposition.splitlines():
        found = _REQUESTS.match(line)
        if found and any(f'method="{method}"' in found["labels"] for method in WRITING_METHODS):
            total += float(found["count"])
    return int(total)


def find_port(log: str, flag: str) -> int:
    """Return the port of a flag's address, 0 until it is in the log."""
    got = (found["port"] for found in _LISTENING.finditer(log) if found["flag"] == flag)
    return int(next(got, ANY_PORT))


def _is_ok(url: str) -> bool:
    try:
        _get(url)
    except OSError:
        return False
    return True


def _get(url: str, body: Json | None = None) -> bytes:
    """Return the answer to a GET, or to the POST of a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - our own address
    with _opener.open(request, timeout=QUESTION_SECONDS if data else ANSWER_SECONDS) as answer:
        found: bytes = answer.read()
        return found
