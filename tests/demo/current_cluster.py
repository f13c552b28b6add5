"""The cluster of the user's kubeconfig, used only after a confirmation.

The two programs run on this machine against that cluster, and would manage everything that is
labeled for the queue there. So the demo does not start if the cluster has quotas, queue units, jobs
that name a queue or a quota, or the queue itself.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kubernetes.config import ConfigException
from kubernetes.config.kube_config import list_kube_config_contexts

from shared_api.client.connection_settings import SettingsError
from shared_api.client.errors import ApiFailure
from shared_api.client.resource_types import (
    ELASTIC_QUOTAS,
    JOBS,
    LEASES,
    NODES,
    QUEUE_UNITS,
    QUEUES,
)
from shared_api.process.clock import Clock
from shared_api.quantity import amount
from tests.demo.clusters import DemoFailed, connect
from tests.demo.json_api import Json, JsonApi
from tests.demo.load_plan import GPU, NO_GPUS, QUOTA_NAME, REAL_GPUS, GpuShape, LoadPlan

ENOUGH_GPUS: Final = 48
"""Enough GPUs for the load; with fewer, a fraction of a CPU stands for each GPU."""
SPECIAL_QUOTAS: Final = frozenset(
    ("koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota")
)
"""Quotas that koord-scheduler itself creates."""
PROGRAMS: Final = frozenset(("koord-queue-scheduler", "koord-queue-controllers"))
"""The names of the programs' leases."""
QUEUE_NAME: Final = "koord-queue/queue-name"
SUSPEND: Final = "scheduling.x-k8s.io/suspend"

Ask = Callable[[str], str]
"""Shows a question, and returns the typed answer."""


class CurrentCluster:
    """A `Cluster` that already exists."""

    queue_namespace = "koord-queue-demo"

    def __init__(self, clock: Clock, ask: Ask) -> None:
        self.kubeconfig = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
        self.context: str | None = None
        self.preparation: tuple[str, ...] = ()
        self.kubectl = "kubectl"
        self._clock = clock
        self._ask = ask
        self._has_gpus = False

    def start(self) -> None:
        """Check that the cluster is unused, and ask for a confirmation."""
        try:
            self.context = _current_context(self.kubeconfig)
            with contextlib.closing(connect(self, self._clock)) as api:
                nodes = api.list_all(NODES)
                found = list(_what_is_there(api))
        except (SettingsError, ApiFailure) as error:
            raise DemoFailed(str(error)) from error
        # In a variable, since the context name of a cloud may be as long as a line.
        self.preparation = (f"export CONTEXT={shlex.quote(self.context)}",)
        self.kubectl = 'kubectl --context "$CONTEXT"'
        if found:
            raise DemoFailed(
                f"the cluster of context {self.context} has {found[0]}; the demo would take charge"
                " of it, so it does not begin"
            )
        self._has_gpus = _gpus_of(nodes) >= ENOUGH_GPUS
        self._confirm(len(nodes))

    def _confirm(self, nodes: int) -> None:
        load = "GPUs" if self._has_gpus else "a hundredth of a core for each GPU of the trace"
        answer = self._ask(
            f"Context {self.context}, {nodes} nodes. The demo makes namespaces, quotas, a policy of"
            f" one, a priority class and about 300 short jobs there (busybox, {load}), installs"
            " kinds that are missing, and removes at the end what it made. Go on? [y/N] "
        )
        if answer.strip().lower() not in {"y", "yes"}:
            raise DemoFailed("nothing was done")

    def stop(self) -> None:
        """Do nothing: the cluster stays."""

    def gpu_shape(self) -> GpuShape:
        """Return GPUs if there are enough, else CPU."""
        return REAL_GPUS if self._has_gpus else NO_GPUS

    def add_nodes(self, plan: LoadPlan, api: JsonApi) -> None:
        """Do nothing: the cluster has its own nodes."""

    def is_throw_away(self) -> bool:
        """Return False: it is the user's cluster."""
        return False

    def environment(self) -> None:
        """Return None: login plugins and proxies need the user's environment."""
        return

    def writes_by_kind(self) -> dict[str, int]:
        """Return nothing: the API server does not count writes by client."""
        return {}


def _current_context(kubeconfig: str) -> str:
    """Return the name of the current context; read once, as it must not change during the demo."""
    try:
        untyped: Any = list_kube_config_contexts  # the package is untyped
        _, current = untyped(config_file=kubeconfig)
    except (ConfigException, OSError) as error:
        raise DemoFailed(f"kubeconfig {kubeconfig}: {error}") from error
    name: str = current["name"]
    return name


def _gpus_of(nodes: list[Json]) -> int:
    sizes = (node.get("status", {}).get("allocatable") or {} for node in nodes)
    return sum(amount(GPU, size.get(GPU, 0)) for size in sizes)


def _what_is_there(api: JsonApi) -> Iterator[str]:
    """Yield what the two programs would manage."""
    for kind in (ELASTIC_QUOTAS, QUEUES, QUEUE_UNITS):
        if not api.is_served(kind):
            continue
        for body in api.list_all(kind):
            if body["metadata"]["name"] not in SPECIAL_QUOTAS:
                yield f"{kind.kind} {_name(body)}"
    for lease in api.list_all(LEASES):
        if lease["metadata"]["name"] in PROGRAMS and lease["spec"].get("holderIdentity"):
            yield f"Lease {_name(lease)}, so the queue runs there already"
    for job in api.list_all(JOBS):
        marks = {**job["metadata"].get("labels", {}), **job["metadata"].get("annotations", {})}
        if marks.keys() & {QUOTA_NAME, QUEUE_NAME, SUSPEND}:
            yield f"Job {_name(job)}, which is marked for a queue"


def _name(body: Json) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"
