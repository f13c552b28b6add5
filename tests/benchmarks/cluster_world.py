"""A real API server with our CRDs, clients for it, and our programs as processes."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.request import urlopen

from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import load_connection
from shared_api.client.resource_client import ResourceClient
from shared_api.process.clock import SystemClock
from tests.controlplane.binaries import require_binaries
from tests.controlplane.child_process import ChildProcess, Guardian, stop_all
from tests.controlplane.control_plane import ControlPlane

ROOT: Final = Path(__file__).parents[2]
CRDS: Final = (ROOT / "crds", ROOT / "tests" / "data" / "crds" / "elasticquotas.yaml")
START_SECONDS: Final = 90.0
STOP_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.05
LOOPBACK_ANY_PORT: Final = "127.0.0.1:0"

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}

SCHEDULER: Final = "queue_scheduler"
CONTROLLERS: Final = "queue_controllers"


class ClusterWorld:
    """The API server and its clients; everything ends with the `with` block.

    Args:
        nodes: the number of kwok nodes; with any, the Job controller and kwok run too.
        audit: whether the API server logs which client writes what.
    """

    def __init__(self, *, nodes: int = 0, audit: bool = False) -> None:
        self._stack = ExitStack()
        self._nodes = nodes
        self._audits = audit
        self.clock = SystemClock()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._audit_log = folder / "audit.log"
        policy = folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY), encoding="utf-8")
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._audit_log}"]
        with_jobs = bool(self._nodes)
        plane = ControlPlane(
            require_binaries(),
            controller_manager=with_jobs,
            scheduler=with_jobs,
            kwok=with_jobs,
            nodes=self._nodes,
            api_server_flags=flags if self._audits else (),
        )
        self.plane = stack.enter_context(plane)
        self._programs = stack.enter_context(programs_of(self.plane.kubeconfig))
        for path in CRDS:
            self.plane.apply(path)
        self.plane.kubectl("create", "namespace", "koord-queue")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def client(self) -> ResourceClient:
        """Return a client without a rate limit, with its own connections."""
        client, close = connect(self.plane.kubeconfig)
        self._stack.callback(close)
        return client

    def audit_lines(self) -> list[str]:
        """Return the audit log of writes, a JSON document per line."""
        return self._audit_log.read_text(encoding="utf-8").splitlines()

    def start(
        self, program: str, *arguments: str, configuration: Mapping[str, Any] | None = None
    ) -> ProgramProcess:
        """Start one of our programs and wait until it is ready; by default without a rate limit."""
        return self._programs.start(program, *arguments, configuration=configuration)


def connect(kubeconfig: Path) -> tuple[ResourceClient, Any]:
    """Return a client without a rate limit, and its transport, to be closed."""
    clock = SystemClock()
    transport = HttpTransport(load_connection(str(kubeconfig), None, clock=clock), clock)
    client = ResourceClient(
        transport, flow=FlowControl(0, 1, clock), clock=clock, rng=random.Random()
    )
    return client, transport.close


@contextmanager
def programs_of(kubeconfig: Path) -> Iterator[Programs]:
    """Yield a starter of our programs, which end with the block or when this process dies."""
    with tempfile.TemporaryDirectory(prefix="koord-queue-bench-") as folder:
        guardian = Guardian(Path(folder))
        programs = Programs(kubeconfig, Path(folder), guardian.group)
        try:
            yield programs
        finally:
            programs.stop()
            guardian.dismiss()


class Programs:
    """Starts our programs for one API server."""

    def __init__(self, kubeconfig: Path, folder: Path, group: int) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._group = group
        self._children: list[ChildProcess] = []

    def start(
        self, program: str, *arguments: str, configuration: Mapping[str, Any] | None = None
    ) -> ProgramProcess:
        """Start a program (given by its package) and wait until it is ready."""
        name = f"{program}-{len(self._children)}"
        command = [sys.executable, "-m", program, "--kubeconfig", str(self._kubeconfig)]
        command += ["--kube-api-qps=0", "--leader-elect=false"]
        command += [f"--health-address={LOOPBACK_ANY_PORT}"]
        command += [f"--metrics-address={LOOPBACK_ANY_PORT}"]
        if program in {SCHEDULER, CONTROLLERS}:
            command += [f"--debug-address={LOOPBACK_ANY_PORT}"]
        if configuration is not None:
            path = self._folder / f"{name}.yaml"
            path.write_text(json.dumps(configuration), encoding="utf-8")
            command += ["--config", str(path)]
        # The programs of this checkout, even if another version is installed.
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        child = ChildProcess(
            [*command, *arguments], self._folder / f"{name}.log", environment, self._group
        )
        self._children.append(child)
        child.start()
        process = ProgramProcess(child)
        process.wait_until_ready()
        return process

    def stop(self) -> None:
        """Stop all programs."""
        stop_all(self._children, STOP_SECONDS)


class ProgramProcess:
    """A running program with its log in a file."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._child.pid is not None, self._child.describe_end()
        return self._child.pid

    def wait_until_ready(self) -> None:
        """Return when /readyz answers 200."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._child.running:
            port = self._port_of("--health-address")
            if port and _is_ready(port):
                return
            time.sleep(POLL_SECONDS)
        message = f"not ready: {self._child.describe_end()}"
        raise RuntimeError(message)

    def read_metrics(self) -> str:
        """Return the content of its /metrics."""
        port = self._port_of("--metrics-address")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def errors(self) -> list[str]:
        """Return the lines of the log that are errors or not log lines."""
        lines = self._child.log().splitlines()
        return [line for line in lines if '"level":"error"' in line or line[:1] != "{"]

    def _port_of(self, flag: str) -> int:
        for line in self._child.log().splitlines():
            if line.startswith("{") and flag in line:
                event = json.loads(line)
                if event.get("flag") == flag:
                    return int(event["port"])
        return 0


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
