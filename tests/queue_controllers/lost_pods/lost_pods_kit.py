"""Nodes that are lost and come back, and a Job with a pod on each of two."""

from __future__ import annotations

from typing import Any

from queue_controllers.configuration import Configuration, GeneralOptions
from queue_controllers.lost_pods.lost_nodes import UNREACHABLE
from shared_api.well_known_labels import DELETE_LOST_PODS_AFTER
from tests.queue_controllers.controllers_world import World, pod_of

Json = dict[str, Any]

ALLOWED = Configuration(general=GeneralOptions(delete_lost_pods=True))
ASKS = {DELETE_LOST_PODS_AFTER: "5m"}


def node(name: str, *, ready: str = "True", since: str = "", taints: tuple[Json, ...] = ()) -> Json:
    """Return a node."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since or None}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": list(taints)},
        "status": {"conditions": [condition]},
    }


class Nodes:
    """Nodes `n0` and `n1`, with pods `main-0` and `main-1` of Job `main`."""

    def __init__(self, world: World, **asks: Any) -> None:
        self.world = world
        for name in ("n0", "n1"):
            world.direct.create(node(name, since=world.now()))
        world.start(configuration=asks.pop("configuration", ALLOWED))
        world.job(annotations=asks.pop("annotations", ASKS), **asks)
        world.settle()
        world.admit()
        world.settle()
        for number in (0, 1):
            self.pod(f"main-{number}", f"n{number}")
        world.settle()

    def pod(self, name: str, on: str, **metadata: Any) -> None:
        """Create a pod of the Job that runs on a node."""
        body = pod_of(self.world.get_job(), name)
        body["metadata"] |= metadata
        body["spec"]["nodeName"] = on
        self.world.direct.create(body)
        self.world.patch_pod_status(name, phase="Running")

    def lose(self, name: str) -> str:
        """Let nothing be heard of a node any more; return from when on."""
        now = self.world.now()
        self._write(node(name, ready="Unknown", since=now, taints=(tainted(now),)))
        return now

    def find(self, name: str) -> None:
        """Let a node be heard again."""
        self._write(node(name, since=self.world.now()))

    def _write(self, body: Json) -> None:
        name = body["metadata"]["name"]
        self.world.direct.patch("nodes", name, {"spec": body["spec"]})
        self.world.direct.patch("nodes", name, {"status": body["status"]}, subresource="status")

    def pods(self) -> list[str]:
        """Return the names of the pods that are there."""
        return sorted(each["metadata"]["name"] for each in self.world.direct.list("pods"))


def tainted(since: str) -> Json:
    """Return the taint of an unreachable node."""
    return {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": since}
