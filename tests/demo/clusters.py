"""What the demo needs of a cluster, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import load_connection
from shared_api.process.clock import Clock
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import GpuShape, LoadPlan


class DemoFailed(Exception):
    """The demo cannot go on; the message says why, to a person."""


class Cluster(Protocol):
    """A cluster from `start` to `stop`; the latter also after a `start` that failed."""

    kubeconfig: str
    """A path, or several as in KUBECONFIG."""
    context: str | None
    """Of the kubeconfig; None: its current one."""
    preparation: tuple[str, ...]
    """What a person types once in a shell, so that the lines with kubectl stay short."""
    kubectl: str
    """How a person calls kubectl on it after that, without arguments."""
    queue_namespace: str

    def start(self) -> None:
        """Bring it up as far as it is the demo's to bring up.

        Raises:
            DemoFailed: it cannot be had.
        """

    def stop(self) -> None:
        """Bring down what `start` brought up. Content is removed by `ClusterContent`."""

    def gpu_shape(self) -> GpuShape:
        """What stands for a GPU there."""

    def add_nodes(self, plan: LoadPlan, api: JsonApi) -> None:
        """Make nodes that hold the load, where nodes can be made."""

    def is_throw_away(self) -> bool:
        """Whether it goes as a whole, so that its content need not be removed."""

    def environment(self) -> Mapping[str, str] | None:
        """Return the environment of the programs; None: the person's own."""

    def writes_by_kind(self) -> Mapping[str, int]:
        """Return the programs' writing requests by kind, where they can be counted."""


def connect(cluster: Cluster, clock: Clock, user_agent: str = "koord-queue-demo") -> JsonApi:
    """Open connections of one's own to a cluster, as its kubeconfig says.

    Raises:
        SettingsError: the kubeconfig does not say how.
    """
    settings = load_connection(cluster.kubeconfig, cluster.context, clock=clock)
    return JsonApi(HttpTransport(settings, clock), user_agent)


def commands(cluster: Cluster, debug_url: str, jobs_url: str) -> Iterator[str]:
    """What a person can type in another terminal, given the URLs of the two debug APIs."""
    yield from cluster.preparation
    yield f"{cluster.kubectl} get queueunits -A"
    yield f"{cluster.kubectl} get queues,elasticquotas,jobs -A"
    for path in ("queues", "quotas", "queueunits/NAMESPACE/NAME"):
        yield f"curl -s {debug_url}/debug/{path} | python3 -m json.tool"
    yield f"curl -s {jobs_url}/debug/jobs/NAMESPACE/Job/NAME | python3 -m json.tool"


ROOT = Path(__file__).parents[2]
OUR_CRDS = ROOT / "crds"
QUOTA_CRD = ROOT / "tests" / "data" / "crds" / "elasticquotas.yaml"
