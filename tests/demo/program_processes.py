"""The two programs as processes: started, found ready, watched, ended.

What they write goes to one log file each. One that ends by itself ends the demo, with the end of
its log: a person should not have to look for why nothing moves.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shared_api.process.clock import Clock
from tests.controlplane.child_process import ChildProcess, stop_all
from tests.controlplane.control_plane import PORTS
from tests.demo.clusters import ROOT, Cluster, DemoFailed

DEBUG_PORT: Final = 19876
"""The scheduler's default; another where that is taken."""
READY_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 2.0
LOOPBACK: Final = "127.0.0.1"
WRITING_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
_REQUESTS: Final = re.compile(r"^rest_client_requests_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$")
# The person's proxies are not for loopback.
_opener: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ProgramProcesses:
    """Both programs against one cluster. One thread."""

    def __init__(self, cluster: Cluster, folder: Path, group: int, clock: Clock) -> None:
        self._clock = clock
        self._health: dict[str, str] = {}
        self._metrics: dict[str, str] = {}
        self.debug_url = f"http://{LOOPBACK}:{free_port(DEBUG_PORT)}"
        where = ["--queue-namespace", cluster.queue_namespace, "--kubeconfig", cluster.kubeconfig]
        where += ["--context", cluster.context] if cluster.context else []
        debug = ["--debug-address", self.debug_url.removeprefix("http://")]
        common = cluster.environment()
        environment = {**(os.environ if common is None else common), "PYTHONPATH": str(ROOT)}
        self._children = {
            name: self._child(name, [*where, *more], folder, environment, group)
            for name, more in (
                ("koord-queue-scheduler", debug),
                ("koord-queue-controllers", ["--enabled-extensions", "job"]),
            )
        }

    def _child(
        self,
        name: str,
        flags: list[str],
        folder: Path,
        environment: Mapping[str, str],
        group: int,
    ) -> ChildProcess:
        health, metrics = (f"{LOOPBACK}:{free_port()}" for _ in range(2))
        self._health[name], self._metrics[name] = f"http://{health}", f"http://{metrics}"
        addresses = ["--health-address", health, "--metrics-address", metrics]
        # One of each: nobody to elect, and a few seconds less until the first decision.
        rest = ["--leader-elect=false", "--log-format", "console"]
        module = name.removeprefix("koord-").replace("-", "_")
        child = ChildProcess(
            [sys.executable, "-m", module, *flags, *addresses, *rest],
            log_path=folder / f"{name}.log",
            environment=environment,
            group=group,
        )
        child.name = name
        return child

    def start(self) -> None:
        """Start both; returns at once."""
        for child in self._children.values():
            child.start()

    def stop(self) -> None:
        """End both."""
        stop_all(self._children.values())

    def wait_until_ready(self) -> None:
        """Return when both say that they are ready.

        Raises:
            DemoFailed: one ended, or is not ready in time.
        """
        deadline = self._clock.monotonic() + READY_SECONDS
        for name, url in self._health.items():
            while not _is_ok(f"{url}/readyz"):
                self.check_alive()
                if self._clock.monotonic() > deadline:
                    raise DemoFailed(self._children[name].describe_end())
                self._clock.sleep(POLL_SECONDS)

    def check_alive(self) -> None:
        """Return while both run.

        Raises:
            DemoFailed: one has ended; the message has the end of its log.
        """
        for child in self._children.values():
            if not child.running:
                raise DemoFailed(child.describe_end())

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of those that run."""
        return {name: pid for name, child in self._children.items() if (pid := child.pid)}

    def ask_debug_api(self, path: str) -> Any | None:
        """Return what the debug API answers, or None where it does not."""
        try:
            return json.loads(_get(f"{self.debug_url}{path}"))
        except (OSError, ValueError):
            return None

    def writes(self) -> dict[str, int]:
        """Return the writing requests of each program so far, as its own metrics count them."""
        counted: dict[str, int] = {}
        for name, url in self._metrics.items():
            try:
                counted[name] = count_writes(_get(f"{url}/metrics").decode())
            except OSError:
                counted[name] = 0
        return counted


def count_writes(exposition: str) -> int:
    """Add up the requests in a metrics page that may have changed something."""
    total = 0.0
    for line in exposition.splitlines():
        found = _REQUESTS.match(line)
        if found and any(f'method="{method}"' in found["labels"] for method in WRITING_METHODS):
            total += float(found["count"])
    return int(total)


def free_port(preferred: int = 0) -> int:
    """Return the preferred port if it is free, else any other that is.

    Below the range from which the kernel takes ports for outgoing connections: one of those would
    be given to a connection of the demo's own before the program listens on it.
    """
    while True:
        port = preferred or secrets.choice(PORTS)
        preferred = 0
        with socket.socket() as listener:
            # As the server will: a port whose last connections linger is free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue
        return port


def _is_ok(url: str) -> bool:
    try:
        _get(url)
    except OSError:
        return False
    return True


def _get(url: str) -> bytes:
    with _opener.open(url, timeout=ANSWER_SECONDS) as answer:
        body: bytes = answer.read()
        return body
