"""A real API server with our CRDs, clients for it, and our programs as processes."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import open_connection
from shared_api.client.resource_client import ResourceClient
from shared_api.process.clock import SystemClock
from tests.cluster.api_audit import ApiAudit
from tests.cluster.program_process import ROOT, ProgramProcess
from tests.controlplane.binaries import require_binaries
from tests.controlplane.child_process import Guardian
from tests.controlplane.control_plane import ControlPlane

CRDS: Final = (ROOT / "crds", ROOT / "tests" / "data" / "crds" / "elasticquotas.yaml")

WRITES: Final = {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]}
"""Rule of the audit log: all writes, without their content."""


class _Start(TypedDict, total=False):
    """How a program is started.

    Attributes:
        configuration: The content of its configuration file.
        root: The checkout that it is run from, such as one of another version.
        is_awaited: Whether to wait until it is ready.
    """

    configuration: Mapping[str, Any] | None
    root: Path
    is_awaited: bool


class ClusterWorld:
    """The API server and its clients; everything ends with the `with` block.

    Args:
        nodes: the number of kwok nodes; with any, the Job controller and kwok run too.
        audit: whether the API server logs which client writes what.
        users: users in addition to the administrator, with their groups.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        audit: bool = False,
        users: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._stack = ExitStack()
        self._nodes = nodes
        self._users = users
        self._audits = audit
        self.clock = SystemClock()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._audit = ApiAudit(folder, WRITES)
        with_jobs = bool(self._nodes)
        plane = ControlPlane(
            require_binaries(),
            controller_manager=with_jobs,
            scheduler=with_jobs,
            kwok=with_jobs,
            nodes=self._nodes,
            users=self._users,
            api_server_flags=self._audit.prepare() if self._audits else (),
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
        """Return what the API server has noted of writes, a JSON document per line."""
        return self._audit.lines()

    def start(self, program: str, *arguments: str, **more: Unpack[_Start]) -> ProgramProcess:
        """Start one of our programs, by default without a rate limit; see `Programs.start`."""
        return self._programs.start(program, *arguments, **more)


def connect(kubeconfig: Path) -> tuple[ResourceClient, Any]:
    """Return a client without a rate limit, and its transport, to be closed."""
    clock = SystemClock()
    found = open_connection(str(kubeconfig), None, clock=clock)
    transport = HttpTransport(found.settings, clock)
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
        self._started: list[ProgramProcess] = []

    def start(self, program: str, *arguments: str, **more: Unpack[_Start]) -> ProgramProcess:
        """Start a program (its package or script), and wait until it is ready."""
        configuration = more.get("configuration")
        name = f"{Path(program).name}-{len(self._started)}"
        flags = ["--kube-api-qps=0", "--leader-elect=false", *arguments]
        if configuration is not None:
            path = self._folder / f"{name}.yaml"
            path.write_text(json.dumps(configuration), encoding="utf-8")
            flags.append(f"--config={path}")
        log = self._folder / f"{name}.log"
        root = more.get("root", ROOT)
        process = ProgramProcess(
            program, self._kubeconfig, log, flags, group=self._group, root=root
        )
        self._started.append(process)
        process.start()
        if more.get("is_awaited", True):
            process.wait_until_ready()
        return process

    def stop(self) -> None:
        """End them all."""
        for each in self._started:
            each.stop()
