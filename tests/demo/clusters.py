"""The interface of the demo's clusters, and how to connect to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import open_connection
from shared_api.process.clock import Clock
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import GpuShape, LoadPlan


class DemoFailed(Exception):
    """The demo cannot continue; the message is for the user."""


class Cluster(Protocol):
    """A cluster from `start` to `stop`; `stop` is called also after a `start` that failed."""

    kubeconfig: str
    """The path of the kubeconfig, or several as in KUBECONFIG."""
    context: str | None
    """The context of the kubeconfig; None: its current one."""
    preparation: tuple[str, ...]
    """Commands to run once in a shell, which make the lines with kubectl short."""
    kubectl: str
    """How kubectl is then called, without arguments."""
    queue_namespace: str

    def start(self) -> None:
        """Start what the demo has to start.

        Raises:
            DemoFailed: It is not available.
        """

    def stop(self) -> None:
        """Stop what `start` started. `ClusterContent` removes the content."""

    def gpu_shape(self) -> GpuShape:
        """Return the resources that stand for a GPU there."""

    def add_nodes(self, plan: LoadPlan, api: JsonApi) -> None:
        """Create nodes for the load, if nodes can be created."""

    def is_throw_away(self) -> bool:
        """Whether it is removed as a whole, so that its content need not be removed."""

    def environment(self) -> Mapping[str, str] | None:
        """Return the environment of the programs; None: that of the user."""

    def writes_by_kind(self) -> Mapping[str, int]:
        """Return the programs' write requests by kind, if they can be counted."""


def connect(cluster: Cluster, clock: Clock, user_agent: str = "koord-queue-demo") -> JsonApi:
    """Open new connections to a cluster by its kubeconfig.

    Raises:
        SettingsError: The kubeconfig is incomplete or invalid.
    """
    found = open_connection(cluster.kubeconfig, cluster.context, clock=clock)
    return JsonApi(HttpTransport(found.settings, clock), user_agent)


def commands(cluster: Cluster, debug_url: str, jobs_url: str) -> Iterator[str]:
    """Yield commands to type in another terminal, with the URLs of the two debug APIs."""
    yield from cluster.preparation
    yield 'export PATH="$PWD/.venv/bin:$PATH"'
    yield f"export KOORD_QUEUE_SERVER={debug_url} KOORD_QUEUE_NAMESPACE={cluster.queue_namespace}"
    options = cluster.kubectl.removeprefix("kubectl")
    for asked in (
        "units -A",
        "queues",
        "tree",
        "report --by user",
        "explain -n NAMESPACE unit/NAME --changes",
        "when -n NAMESPACE unit/NAME",
    ):
        yield f"koord-queue {asked}{options}"
    yield f"{cluster.kubectl} get queueunits,queues,elasticquotas,jobs -A"
    yield f"curl -s {debug_url}/debug/queues | python3 -m json.tool"
    yield f"curl -s {jobs_url}/debug/jobs/NAMESPACE/Job/NAME | python3 -m json.tool"
    yield "koord-queue dump -o dump.json.gz"


ROOT = Path(__file__).parents[2]
OUR_CRDS = ROOT / "crds"
QUOTA_CRD = ROOT / "tests" / "data" / "crds" / "elasticquotas.yaml"
