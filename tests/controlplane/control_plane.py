"""A temporary Kubernetes control plane for tests: real etcd and API server, others on demand.

    with ControlPlane(require_binaries(), controller_manager=True, scheduler=True, kwok=True,
                      nodes=3, users={"ann": ["team-a"]}) as plane:
        plane.apply(Path("crds"))
        plane.kubectl("get", "nodes")

Everything listens on 127.0.0.1 and is in one temporary folder, which `stop` removes. No program
outlives the process that started it, however that ends (guardian.py).

A control plane is for one thread, except `kill_api_server` and `restart_api_server`, which any one
thread may call while others use the server.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.api_client import ApiClient, Json
from tests.controlplane.binaries import mutating_policy_version
from tests.controlplane.child_process import ChildProcess, Guardian, stop_all

FOLDER = Path(__file__).parent
STAGES = FOLDER / "stages"
SERVICE_ACCOUNT_KEY = FOLDER / "test_only_service_account_key.pem"

ADMIN = "admin"
# Far above the 4 s of a start on 2 idle cores, since test machines are slow and busy.
READY_SECONDS = 180.0
POLL_SECONDS = 0.05
# With open watches, a graceful end would take far longer than a test should wait.
RESTART_GRACE_SECONDS = 1.5
KUBECTL_SECONDS = 120.0
# Below the kernel's range of ports for outgoing connections (32768 and up). In that range, while
# the API server is down between two starts, a client that keeps dialing its port may be assigned
# the same port, connect to itself, and so prevent the server from coming back.
PORTS = range(20000, 32000)
# One loopback address for all: nothing here may be reachable from outside.
LOOPBACK = "127.0.0.1"
# The variable that becomes GOGC for the programs, not for their build: the garbage before a
# collection, in percent of the memory in use.
GARBAGE_PERCENT = "CONTROL_PLANE_GOGC"

CONTROLLERS = (
    "job-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    # Fills the ClusterRoles admin, edit, and view, which are empty without it.
    "clusterrole-aggregation-controller",
    # Checks the types in policies, and writes the findings into their status.
    "validatingadmissionpolicy-status-controller",
)


class ControlPlaneFailed(Exception):
    """A program did not start, or has ended; the message has the end of its log."""


class KubectlFailed(Exception):
    """kubectl ended with a status other than 0; the message is its stderr."""


@dataclass(kw_only=True)
class _Ports:
    """The ports of the programs of one start."""

    api_server: int
    etcd_client: int
    etcd_peer: int


@dataclass(eq=False)
class ControlPlane:
    """A control plane that runs from `start` to `stop`, or for the duration of a `with` block."""

    binaries: Path
    """The folder of the six binaries, from `binaries.require_binaries()`."""
    controller_manager: bool = field(default=False, kw_only=True)
    """Runs the controllers named in CONTROLLERS: Jobs, sets, garbage collection, namespaces."""
    scheduler: bool = field(default=False, kw_only=True)
    kwok: bool = field(default=False, kw_only=True)
    """Simulates nodes and pods as defined in `stages/`."""
    nodes: int = field(default=0, kw_only=True)
    """The number of nodes of the default size that `start` creates."""
    users: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    """Users in addition to "admin", with their groups; without rights until a test grants some."""
    api_server_flags: Sequence[str] = field(default=(), kw_only=True)
    """Further flags of the API server, such as "--feature-gates=X=true"."""

    _folder: Path | None = field(default=None, init=False, repr=False)
    _guardian: Guardian | None = field(default=None, init=False, repr=False)
    _ports: _Ports | None = field(default=None, init=False, repr=False)
    _tokens: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _children: dict[str, ChildProcess] = field(default_factory=dict, init=False, repr=False)

    # ------------------------------------------------------------------ from start to stop

    def __enter__(self) -> Self:
        """Start the control plane."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the control plane."""
        self.stop()

    def start(self) -> None:
        """Start all programs; return when the API server is ready and nodes exist.

        Raises:
            ControlPlaneFailed: A program ended, or the API server was not ready in time. Nothing
                is left behind.
        """
        assert self._folder is None, "it was started already"
        try:
            self._start_once()
        except ControlPlaneFailed as error:
            # Another process may have taken a port after our check and before its bind.
            if "address already in use" not in str(error):
                raise
            self._start_once()

    def stop(self) -> None:
        """Stop the processes that it started and remove its folder; may be called twice."""
        # Killed, since nothing is kept; in a graceful end the API server would wait for its
        # watchers.
        for child in reversed(self._children.values()):
            child.kill()
        if self._guardian is not None:
            self._guardian.dismiss()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._children, self._guardian, self._folder, self._ports = {}, None, None, None

    def kill_api_server(self) -> None:
        """Kill the API server, as in a crash; etcd and the others stay."""
        self._children["kube-apiserver"].kill()

    def restart_api_server(self) -> None:
        """Start the API server again, on the same port with the same data; return when it is ready.

        A running one is terminated first. After `kill_api_server`, this ends the outage.

        Raises:
            ControlPlaneFailed: It did not become ready.
        """
        api_server = self._children["kube-apiserver"]
        stop_all([api_server], RESTART_GRACE_SECONDS)
        self._start_api_server(api_server)

    # ------------------------------------------------------------------------------ access

    @property
    def folder(self) -> Path:
        """The temporary folder of the running control plane: data, kubeconfigs, logs."""
        assert self._folder is not None, "it is not running"
        return self._folder

    @property
    def url(self) -> str:
        """The address of the API server, without a slash at the end."""
        return f"https://{LOOPBACK}:{self._running_ports.api_server}"

    @property
    def etcd_url(self) -> str:
        """The address of etcd, without TLS, and without a slash at the end."""
        return f"http://{LOOPBACK}:{self._running_ports.etcd_client}"

    @property
    def token(self) -> str:
        """The bearer token of the admin."""
        return self.token_for(ADMIN)

    @property
    def ca_file(self) -> Path:
        """The CA of the API server's certificate."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file of the admin (system:masters)."""
        return self.kubeconfig_for(ADMIN)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of running programs by name, such as "kube-apiserver"."""
        ids = {name: child.pid for name, child in self._children.items()}
        return {name: pid for name, pid in ids.items() if pid is not None}

    def token_for(self, user: str) -> str:
        """Return the bearer token of a user declared at construction, or of "admin"."""
        return self._tokens[user]

    def kubeconfig_for(self, user: str) -> Path:
        """Return a kubeconfig file of a user declared at construction, or of "admin"."""
        assert user in self._tokens, f"{user} was not declared at construction"
        return self.folder / f"{user}.kubeconfig"

    def client_for(self, user: str = ADMIN) -> ApiClient:
        """Return a client for plain HTTP requests as a user, for use instead of kubectl."""
        return ApiClient(
            host=LOOPBACK,
            port=self._running_ports.api_server,
            token=self.token_for(user),
            ca_file=self.ca_file,
        )

    def log(self, program: str) -> str:
        """Return the log of a program, such as "kube-apiserver", so far."""
        return self._children[program].log()

    # ------------------------------------------------------------------------------ use

    def kubectl(self, *arguments: str, input: str | None = None, user: str = ADMIN) -> str:  # noqa: A002 - the name that subprocess uses
        """Run kubectl and return its stdout.

        Raises:
            KubectlFailed: It ended with a status other than 0.
        """
        done = subprocess.run(
            [self.binaries / "kubectl", "--kubeconfig", self.kubeconfig_for(user), *arguments],
            input=input,
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            check=False,
            env=_environment(self.folder),
        )
        if done.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, path: Path) -> str:
        """Apply a manifest or all of a folder; server-side, since CRDs may be too large otherwise.

        Raises:
            KubectlFailed: An object was refused.
        """
        return self.kubectl("apply", "--server-side", "--recursive", "--filename", str(path))

    def await_kinds(self, *names: str) -> None:
        """Wait until kubectl knows these kinds by name, with their fields.

        Discovery and schemas follow a CRD with a delay, even after it is reported as established.

        Raises:
            KubectlFailed: A kind is not known in time.
        """
        deadline = time.monotonic() + READY_SECONDS
        for name in names:
            while True:
                try:
                    self.kubectl("explain", name)
                    break
                except KubectlFailed:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(POLL_SECONDS)

    def create_nodes(
        self,
        count: int,
        cpu: str = "32",
        memory: str = "128Gi",
        extra_resources: Mapping[str, str] | None = None,
        *,
        name_prefix: str = "node",
    ) -> list[str]:
        """Create nodes that differ only in name, and return the names.

        Pods can be bound to them at once; kwok makes them Ready a moment later.

        Args:
            count: the number of nodes.
            cpu: the CPU of each node, as a Kubernetes quantity.
            memory: the memory of each node, as a Kubernetes quantity.
            extra_resources: further capacity, such as {"nvidia.com/gpu": "8"}.
            name_prefix: names are the prefix and a number from 0; a second call needs another
                prefix.
        """
        sizes = {"cpu": cpu, "memory": memory, "pods": "1000", **(extra_resources or {})}
        names = [f"{name_prefix}-{number}" for number in range(count)]
        self.client_for().create_all("/api/v1/nodes", [_node(name, sizes) for name in names])
        return names

    # ------------------------------------------------------------------------------- private

    @property
    def _running_ports(self) -> _Ports:
        assert self._ports is not None, "it is not running"
        return self._ports

    def _start_once(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="koord-queue-controlplane-"))
        self._ports = _free_ports()
        self._tokens = {user: secrets.token_hex(16) for user in (ADMIN, *self.users)}
        self._guardian = Guardian(self._folder)
        try:
            self._write_credentials()
            self._child("etcd", self._etcd_flags()).start()
            api_server = self._child("kube-apiserver", self._api_server_arguments())
            self._start_api_server(api_server)
            for program, flags in self._wanted_programs():
                self._child(program, flags).start()
            self.create_nodes(self.nodes)
            self._check_alive()
        except BaseException:
            self.stop()
            raise

    def _child(self, program: str, flags: Sequence[str]) -> ChildProcess:
        assert self._guardian is not None, "the guardian comes first"
        child = ChildProcess(
            [str(self.binaries / program), *flags],
            log_path=self.folder / f"{program}.log",
            environment=_environment(self.folder),
            group=self._guardian.group,
        )
        self._children[program] = child
        return child

    def _start_api_server(self, api_server: ChildProcess) -> None:
        api_server.start()
        deadline = time.monotonic() + READY_SECONDS
        # The server creates the certificate at its first start.
        while not (self.ca_file.exists() and self.client_for().is_ready()):
            self._check_alive()
            if time.monotonic() > deadline:
                raise ControlPlaneFailed(
                    f"not ready after {READY_SECONDS:.0f} s: {api_server.describe_end()}"
                )
            time.sleep(POLL_SECONDS)

    def _check_alive(self) -> None:
        for child in self._children.values():
            if not child.running:
                raise ControlPlaneFailed(child.describe_end())

    def _write_credentials(self) -> None:
        lines = []
        for user, token in self._tokens.items():
            groups = ["system:masters"] if user == ADMIN else self.users[user]
            lines.append(f'{token},{user},{user},"{",".join(groups)}"\n')
            config = _kubeconfig(self.url, self.ca_file, user, token)
            self.kubeconfig_for(user).write_text(json.dumps(config, indent=2))
        (self.folder / "tokens.csv").write_text("".join(lines))

    def _etcd_flags(self) -> list[str]:
        client = self.etcd_url
        peer = f"http://{LOOPBACK}:{self._running_ports.etcd_peer}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",  # the data need not survive a crash of the machine
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # The default of 2 GB is full after minutes of a load test, as the API server
            # compacts only every five minutes.
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ]

    def _api_server_arguments(self) -> list[str]:
        return [
            f"--etcd-servers=http://{LOOPBACK}:{self._running_ports.etcd_client}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._running_ports.api_server}",
            # Otherwise it uses the machine's default route, and ends if there is none.
            f"--advertise-address={LOOPBACK}",
            # Loopback must not be an endpoint of a Service; nothing here calls that Service.
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.ca_file.parent}",
            f"--service-account-key-file={SERVICE_ACCOUNT_KEY}",
            f"--service-account-signing-key-file={SERVICE_ACCOUNT_KEY}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # The first needs a controller that does not run here. The second taints every new node,
            # and the controller that removes the taint does not run either.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            # As in Kueue's performance test, so that the server is not the bottleneck.
            "--max-requests-inflight=5000",
            "--max-mutating-requests-inflight=2500",
            *_older_policy_flags(),
            *self.api_server_flags,
        ]

    def _wanted_programs(self) -> Iterator[tuple[str, list[str]]]:
        kubeconfig = f"--kubeconfig={self.kubeconfig}"
        # Port 0: they serve nothing, so that two control planes do not conflict on a fixed port.
        # With the default limits of 20 and 50 requests a second, they would be slower than the
        # queue.
        alone = ["--leader-elect=false", "--secure-port=0"]
        alone += ["--kube-api-qps=1000", "--kube-api-burst=2000"]
        if self.controller_manager:
            controllers = f"--controllers={','.join(CONTROLLERS)}"
            credentials = "--use-service-account-credentials=false"
            yield "kube-controller-manager", [kubeconfig, *alone, controllers, credentials]
        if self.scheduler:
            yield "kube-scheduler", [kubeconfig, *alone]
        if self.kwok:
            stages = [f"--config={path}" for path in sorted(STAGES.glob("*.yaml"))]
            network = ["--cidr=10.1.0.0/16", f"--node-ip={LOOPBACK}"]
            # Otherwise it logs every patch, which costs more than the patch.
            quiet = "--v=WARN"
            yield "kwok", [kubeconfig, quiet, "--manage-all-nodes=true", *network, *stages]


def _older_policy_flags() -> Iterator[str]:
    """Yield what an API server needs that has MutatingAdmissionPolicies, but not by default."""
    version = mutating_policy_version()
    if version != "v1":
        yield "--feature-gates=MutatingAdmissionPolicy=true"
        yield f"--runtime-config=admissionregistration.k8s.io/{version}=true"


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of the programs, without the user's configuration and proxy."""
    garbage = {"GOGC": os.environ[GARBAGE_PERCENT]} if GARBAGE_PERCENT in os.environ else {}
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **garbage}


def _free_ports() -> _Ports:
    with ExitStack() as held:
        numbers = [_bind_some_port(held) for _ in range(3)]
    api_server, etcd_client, etcd_peer = numbers
    return _Ports(api_server=api_server, etcd_client=etcd_client, etcd_peer=etcd_peer)


def free_port() -> int:
    """Return a port that a program of a test may listen on, and again after a restart."""
    with ExitStack() as held:
        return _bind_some_port(held)


def _bind_some_port(held: ExitStack) -> int:
    # Not the seeded generator of a test, since two test processes with one seed would collide.
    for _ in range(1000):
        port = secrets.choice(PORTS)
        listener = held.enter_context(socket.socket())
        try:
            listener.bind((LOOPBACK, port))
        except OSError:
            continue
        return port
    raise ControlPlaneFailed(f"no free port among {PORTS}")


def _kubeconfig(url: str, ca_file: Path, user: str, token: str) -> Json:
    cluster = {"server": url, "certificate-authority": str(ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }


def _node(name: str, sizes: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": dict(sizes), "allocatable": dict(sizes)},
    }
