"""The fake API server over HTTP on loopback, with a player for the rest of a cluster."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from shared_api.client.resource_types import NODES
from shared_api.client.transport import Request, Response, ResponseStream
from shared_api.fake_api_server.http_server import HttpFace
from shared_api.fake_api_server.request_router import take_apart
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread
from tests.demo.cluster_player import ClusterPlayer
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import REAL_GPUS, GpuShape, LoadPlan, build_node, nodes_needed

PROGRAMS: Final = ("koord-queue-scheduler/", "koord-queue-controllers/")
"""The prefixes of user agents whose writes are counted."""


class CountingTransport:
    """A transport that counts the writes of the two programs by kind, and forwards everything."""

    def __init__(self, inner: FakeApiServer) -> None:
        self._inner = inner
        # Guards the counts: each connection has its own thread.
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Forward a request."""
        if request.method != "GET":
            self._count(request)
        return self._inner.send(request, timeout_seconds)

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        """Forward a watch."""
        return self._inner.stream(request, timeout_seconds)

    def close(self) -> None:
        """Forward the call."""
        self._inner.close()

    def counts(self) -> dict[str, int]:
        """Return writes by `verb kind/subresource`."""
        with self._lock:
            return dict(self._counts)

    def _count(self, request: Request) -> None:
        info = take_apart(request).info
        if not info.user_agent.startswith(PROGRAMS):
            return
        place = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
        with self._lock:
            self._counts[f"{info.verb} {place}"] += 1


class EmbeddedCluster:
    """A `Cluster` in this process."""

    context: str | None = None
    queue_namespace = "koord-queue"
    kubectl = "kubectl"

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.kubeconfig = str(folder / "kubeconfig")
        self.preparation: tuple[str, ...] = (f"export KUBECONFIG={self.kubeconfig}",)
        self.server = FakeApiServer(clock=clock, rng=random.Random(1), waits=True)
        self._transport = CountingTransport(self.server)
        self._face = HttpFace(self._transport)
        player = ClusterPlayer(JsonApi(self.server), clock=clock, rng=random.Random(2))
        self._player = LoopThread("player", player.step, clock)

    def start(self) -> None:
        """Listen, and write the kubeconfig."""
        self._face.start()
        self._player.start()
        Path(self.kubeconfig).write_text(yaml.safe_dump(_kubeconfig(self._face.url)))

    def stop(self) -> None:
        """End the player, then the server."""
        self._player.stop()
        self.server.close()
        self._face.stop()

    def gpu_shape(self) -> GpuShape:
        """Return GPUs, since nodes may have any resource."""
        return REAL_GPUS

    def add_nodes(self, plan: LoadPlan, api: JsonApi) -> None:
        """Create nodes of eight GPUs."""
        for number in range(nodes_needed(plan)):
            api.create(NODES, build_node(f"gpu-node-{number}", plan.shape))

    def is_throw_away(self) -> bool:
        """Return True: it ends with the process."""
        return True

    def environment(self) -> Mapping[str, str]:
        """Return an environment without the user's proxy and settings."""
        return bare_environment(Path(self.kubeconfig).parent)

    def writes_by_kind(self) -> Mapping[str, int]:
        """Return the writes over HTTP."""
        return self._transport.counts()


def bare_environment(home: Path) -> dict[str, str]:
    """Return the environment of a program that must not see the user's settings."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)}


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": {"server": url}}],
        "users": [{"name": "demo", "user": {}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        "current-context": "demo",
    }
