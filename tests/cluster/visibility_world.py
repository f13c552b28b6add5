"""A cluster with the aggregated API: its programs run with the chart's rights."""

from __future__ import annotations

import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from tests.charts.render import as_manifest, of_kind, render, rights
from tests.client_certificates import Identity
from tests.cluster.front_proxy_files import FrontProxyFiles
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QUEUE_NAMESPACE, QueueWorld
from tests.controlplane.api_client import ApiClient
from tests.controlplane.control_plane import free_port
from tests.waiting import PATIENCE_SECONDS

Json = dict[str, Any]

VALUES: Final[Json] = {"insight": {"enabled": True, "visibility": {"enabled": True}}}
SERVICE: Final = "koord-queue-visibility"
API_SERVICE: Final = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.koord-queue"
BASE: Final = "/apis/visibility.koord-queue/v1alpha1"
LIST: Final = f"{BASE}/namespaces/default/pendingunits"
ANN: Final = [("X-Remote-User", "ann"), ("X-Remote-Group", "system:masters")]
ACCOUNT: Final = "account"
"""The user whose token both programs have: it has the rights of the chart's service account."""


class Aggregated(NamedTuple):
    """A cluster whose scheduler and insight program run with the chart's rights."""

    world: QueueWorld
    proxy: FrontProxyFiles
    insight: ProgramProcess
    folder: Path
    scheduler: ProgramProcess

    def api_service(self) -> Json | None:
        found: Json | None = self.world.api.find(API_SERVICE)
        return found

    def available(self) -> bool:
        conditions = (self.api_service() or {}).get("status", {}).get("conditions", ())
        return any(each["status"] == "True" and each["reason"] == "Passed" for each in conditions)

    def ask_directly(self, identity: Identity | None, headers: list[tuple[str, str]]) -> int:
        """Ask the program's own port; return the status, 0 if TLS fails."""
        spec = (self.api_service() or {})["spec"]
        context = ssl.create_default_context(cadata=b64decode(spec["caBundle"]).decode())
        if identity is not None:
            context.load_cert_chain(*identity.write(self.folder, "client"))
        port = self.insight.port_of("--visibility-address")
        name = {"sni_hostname": f"{SERVICE}.{QUEUE_NAMESPACE}.svc"}
        with httpx.Client(verify=context, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            try:
                url = f"https://127.0.0.1:{port}{LIST}"
                return client.get(url, headers=headers, extensions=name).status_code
            except httpx.TransportError:
                return 0

    def as_account(self, name: str, namespace: str = "default") -> ApiClient:
        """Return a client with the token of a ServiceAccount, which is created."""
        kubectl, plane = self.world.plane.kubectl, self.world.plane
        kubectl("create", "serviceaccount", name, "--namespace", namespace)
        token = kubectl("create", "token", name, "--namespace", namespace).strip()
        admin = plane.client_for()
        return ApiClient(host=admin.host, port=admin.port, token=token, ca_file=admin.ca_file)


@contextmanager
def aggregated(binaries: Path, *more_flags: str) -> Iterator[Aggregated]:
    """Start scheduler and insight program on a real API server that passes requests on.

    Args:
        binaries: The control plane's.
        more_flags: Of the insight program.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        proxy = FrontProxyFiles(folder)
        flags = proxy.flags()
        users: dict[str, list[str]] = {ACCOUNT: []}
        with QueueWorld(binaries, jobs=True, users=dict(users), api_server_flags=flags) as world:
            install(world)
            sockets = folder / "sockets"
            sockets.mkdir()
            follows = f"--insight-socket-dir={sockets}"
            scheduler = world.start_scheduler(
                "--leader-elect=false", follows, "--withdraw-visibility-after=1s", user=ACCOUNT
            )
            create_service(world)
            got = (*insight_flags(sockets, free_port()), *more_flags)
            insight = world.start_insight(*got, user=ACCOUNT)
            yield Aggregated(world, proxy, insight, folder, scheduler)


def install(world: QueueWorld) -> None:
    """Apply what the chart installs for the API, its account's rights given to a user."""
    objects = render(VALUES, namespace=QUEUE_NAMESPACE)
    kinds = ("APIService", "FlowSchema", "PriorityLevelConfiguration")
    found = [one for kind in kinds for one in of_kind(objects, kind).values()]
    roles = [
        one
        for name, one in of_kind(objects, "ClusterRole").items()
        if name.startswith(f"{SERVICE}-")
    ]
    granted = rights("scheduler", user=ACCOUNT, values=VALUES, namespace=QUEUE_NAMESPACE)
    manifest = as_manifest([*found, *roles, *granted])
    world.plane.kubectl("apply", "--server-side", "-f", "-", input=manifest)


def insight_flags(sockets: Path, port: int) -> tuple[str, ...]:
    """Return the flags: without a proxy of Services, the API server asks the port itself."""
    return (
        f"--socket-dir={sockets}",
        f"--visibility-address=127.0.0.1:{port}",
        f"--visibility-service={QUEUE_NAMESPACE}/{SERVICE}:{port}",
    )


def create_service(world: QueueWorld) -> None:
    """Create the Service as a name of this machine, which the aggregator resolves."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": spec}
    world.api.request("POST", f"/api/v1/namespaces/{QUEUE_NAMESPACE}/services", body)
