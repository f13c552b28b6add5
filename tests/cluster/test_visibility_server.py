"""The aggregated API behind a real API server: who is answered, and what it leaves alone."""

from __future__ import annotations

import json
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from tests.charts.render import as_manifest, of_kind, render, rights
from tests.client_certificates import Identity
from tests.cluster.front_proxy_files import PROXY_NAME, FrontProxyFiles
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import (
    OWN_TIMES_SECONDS,
    PATIENCE_SECONDS,
    QUEUE_NAMESPACE,
    QueueWorld,
    until,
)
from tests.controlplane.api_client import ApiClient, ApiError
from tests.controlplane.control_plane import KubectlFailed, free_port

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

    def as_account(self, name: str) -> ApiClient:
        """Return a client with the token of a ServiceAccount, which is created."""
        kubectl, plane = self.world.plane.kubectl, self.world.plane
        kubectl("create", "serviceaccount", name)
        token = kubectl("create", "token", name).strip()
        admin = plane.client_for()
        return ApiClient(host=admin.host, port=admin.port, token=token, ca_file=admin.ca_file)


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Aggregated]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        proxy = FrontProxyFiles(folder)
        flags = proxy.flags()
        users: dict[str, list[str]] = {ACCOUNT: []}
        with QueueWorld(
            controlplane_binaries, jobs=True, users=dict(users), api_server_flags=flags
        ) as world:
            install(world)
            sockets = folder / "sockets"
            sockets.mkdir()
            follows = f"--insight-socket-dir={sockets}"
            world.start_scheduler(
                "--leader-elect=false", follows, "--withdraw-visibility-after=1s", user=ACCOUNT
            )
            create_service(world)
            insight = world.start_insight(*insight_flags(sockets, free_port()), user=ACCOUNT)
            yield Aggregated(world, proxy, insight, folder)


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


def delete_namespace(world: QueueWorld, name: str) -> None:
    """Create a namespace with an object, delete it, and wait until it is gone."""
    world.plane.kubectl("create", "namespace", name)
    world.plane.kubectl("create", "configmap", "it", "-n", name)
    world.plane.kubectl("delete", "namespace", name, "--wait=false")
    until(lambda: world.api.find(f"/api/v1/namespaces/{name}") is None, OWN_TIMES_SECONDS)


def may_read(client: ApiClient, path: str) -> bool:
    """Return whether a path may be read; a new right counts after a moment."""
    try:
        client.request("GET", path)
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


def test_it_becomes_available_with_the_charts_rights(cluster: Aggregated) -> None:
    until(cluster.available, OWN_TIMES_SECONDS)
    assert not cluster.insight.errors()
    delete_namespace(cluster.world, "beside-it")


def test_callers_have_their_own_rights(cluster: Aggregated) -> None:
    until(cluster.available, OWN_TIMES_SECONDS)
    reader, other = cluster.as_account("reader"), cluster.as_account("other")
    role = f"{SERVICE}-viewer"
    cluster.world.plane.kubectl(
        "create", "rolebinding", role, "--clusterrole", role, "--serviceaccount=default:reader"
    )
    until(lambda: may_read(reader, LIST))
    assert reader.request("GET", LIST)["kind"] == "PendingUnitList"
    with pytest.raises(ApiError) as refused:
        other.request("GET", LIST)
    assert refused.value.status == 403
    assert json.loads(refused.value.body)["message"] == (
        "pendingunits.visibility.koord-queue is forbidden: User "
        '"system:serviceaccount:default:other" cannot list resource "pendingunits" in API group '
        '"visibility.koord-queue" in the namespace "default"'
    )
    for everywhere in (f"{BASE}/pendingunits", f"{BASE}/namespaces/kube-system/pendingunits"):
        with pytest.raises(ApiError, match="403"):
            reader.request("GET", everywhere)
    assert other.request("GET", BASE)["kind"] == "APIResourceList", "discovery is for everybody"


def test_only_the_front_proxy_is_believed(cluster: Aggregated) -> None:
    until(cluster.available, OWN_TIMES_SECONDS)
    assert cluster.ask_directly(None, ANN) == 401
    assert cluster.ask_directly(cluster.proxy.sign("somebody"), ANN) == 401
    assert cluster.ask_directly(cluster.proxy.sign(PROXY_NAME), ANN) != 401


def test_a_new_authority_is_believed_without_a_restart(cluster: Aggregated) -> None:
    until(cluster.available, OWN_TIMES_SECONDS)
    added = cluster.proxy.add_authority()
    other = cluster.proxy.sign(PROXY_NAME, added)
    until(lambda: cluster.ask_directly(other, ANN) not in {0, 401}, OWN_TIMES_SECONDS)
    assert cluster.ask_directly(cluster.proxy.sign(PROXY_NAME), ANN) not in {0, 401}
    assert cluster.available()


def test_a_program_that_is_killed_stops_no_namespace(cluster: Aggregated) -> None:
    until(cluster.available, OWN_TIMES_SECONDS)
    world = cluster.world
    cluster.insight.kill()
    delete_namespace(world, "while-it-is-down")
    until(lambda: cluster.api_service() is None, OWN_TIMES_SECONDS)
    assert "configmaps" in world.plane.kubectl("api-resources")
    with pytest.raises(KubectlFailed, match="NotFound"):
        world.plane.kubectl("get", "--raw", LIST)
    delete_namespace(world, "after-that")
    cluster.insight.start()
    cluster.insight.wait_until_ready()
    until(cluster.available, OWN_TIMES_SECONDS)
    until(lambda: "pendingunits" in world.plane.kubectl("api-resources"), OWN_TIMES_SECONDS)


def test_a_program_that_ends_takes_its_api_with_it(cluster: Aggregated) -> None:
    until(cluster.available, OWN_TIMES_SECONDS)
    assert cluster.insight.stop() == 0
    assert cluster.api_service() is None
    delete_namespace(cluster.world, "without-it")
    cluster.insight.start()
    cluster.insight.wait_until_ready()
    until(cluster.available, OWN_TIMES_SECONDS)
