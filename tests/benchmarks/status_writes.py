"""What a PUT of a unit's status costs the API server, beside the merge patch that is sent.

Both change the same units in the same way, dequeued and then ended, and take turns on one server.
The PUT has the least that the server accepts: name, version, and the whole status, which this
client knows only because it has kept each answer.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from queue_scheduler.unit_writes.applied_patches import merged
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import open_connection
from shared_api.client.resource_client import PatchType
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.transport import Request
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import SystemClock
from shared_api.queue_unit_phases import Phase
from shared_api.testing.object_builders import to_struct
from shared_api.timestamps import rfc3339
from tests.benchmarks import bare_loop
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.crd_writes import allocated_kb
from tests.benchmarks.figures import Figure, figure_of_turns
from tests.benchmarks.load_player import (
    NAMESPACE,
    PlannedUnit,
    dequeue_patch,
    end_status,
    unit_body,
)
from tests.benchmarks.process_usage import cpu_seconds

UNITS: Final = 1000
TURNS: Final = 6
CONNECTIONS: Final = 8
REST_SECONDS: Final = 0.3
"""Until what follows a write, such as its watch events, is over."""
WRITE_SECONDS: Final = 10.0
JSON: Final = "application/json"
QUOTA: Final = "team"

Json = dict[str, Any]


class _Server:
    """Sends requests to the API server, and reads what it has used."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._clock = SystemClock()
        found = open_connection(str(world.plane.kubeconfig), None, clock=self._clock)
        self.transport = HttpTransport(found.settings, self._clock)

    def send(self, method: str, path: str, media_type: str, body: Json) -> Json:
        """Return the object of the answer."""
        headers = (("Accept", JSON), ("Content-Type", media_type))
        request = Request(method, path, (), headers, json.dumps(body).encode())
        response = self.transport.send(request, WRITE_SECONDS)
        assert response.status < 300, response.body
        answer: Json = json.loads(response.body)
        return answer

    def create(self, name: str) -> Json:
        body = unit_body(PlannedUnit(name=name, quota=QUOTA))
        return self.send("POST", QUEUE_UNITS.path(NAMESPACE), JSON, body)

    def patch(self, unit: Json, phase: Phase) -> Json:
        """Write a status as the programs do."""
        meta = {"resourceVersion": unit["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "status": self._change(unit, phase)}
        return self.send("PATCH", _path_of(unit), PatchType.MERGE.value, body)

    def put(self, unit: Json, phase: Phase) -> Json:
        """Replace a status."""
        meta = {key: unit["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
        kind = {key: unit[key] for key in ("apiVersion", "kind")}
        status = merged(unit.get("status", {}), self._change(unit, phase))
        return self.send("PUT", _path_of(unit), JSON, {**kind, "metadata": meta, "status": status})

    def used(self) -> tuple[float, float]:
        """Return the CPU seconds and the kilobytes allocated so far."""
        time.sleep(REST_SECONDS)
        return cpu_seconds(self._world.plane.pids["kube-apiserver"]), allocated_kb(self._world)

    def _change(self, body: Json, phase: Phase) -> Json:
        unit, now = to_struct(QueueUnit, body), rfc3339(self._clock.now())
        if phase is Phase.SUCCEED:
            return end_status(unit, now)
        planned = PlannedUnit(name=unit.metadata.name, quota=QUOTA)
        status: Json = dequeue_patch(unit, planned, now)["status"]
        return status


def _path_of(unit: Json) -> str:
    return QUEUE_UNITS.path(NAMESPACE, unit["metadata"]["name"], "status")


def run(*, quick: bool = False) -> list[Figure]:
    """Let both take turns; return the figures per write, the control being the patch."""
    turns, units = (1, 200) if quick else (TURNS, UNITS)
    used: dict[str, list[tuple[float, float]]] = {"PUT": [], "PATCH": []}
    with ClusterWorld() as world, ThreadPoolExecutor(CONNECTIONS) as pool:
        bare_loop.warm_up(world)
        server = _Server(world)
        ways = {"PUT": server.put, "PATCH": server.patch}
        for number in range(turns):
            for way in ways if number % 2 else reversed(ways):
                names = [f"{way.lower()}-{number}-{each}" for each in range(units)]
                made = list(pool.map(server.create, names))
                cpu, size = server.used()
                for phase in (Phase.DEQUEUED, Phase.SUCCEED):
                    made = list(pool.map(ways[way], made, [phase] * units))
                cpu_after, size_after = server.used()
                writes = 2 * units
                used[way].append((1000 * (cpu_after - cpu) / writes, (size_after - size) / writes))
                print(f"  {number} {way}: %.3f ms, %.0f kB" % used[way][-1], flush=True)
                bare_loop.delete_units(world)
        server.transport.close()
    return [
        figure_of_turns(
            f"status_put_{name}", unit, *([each[index] for each in used[way]] for way in ways)
        )
        for index, (name, unit) in enumerate(
            (("api_cpu_ms", "ms/write"), ("allocated_kb", "kB/write"))
        )
    ]
