"""The scheduler's memory with 100,000 pending units, over real HTTP.

The API server is the fake one, in its own process: the real one would take five minutes to create
so many units. The units are as the controllers create them. A few run, the others wait for quota,
and the scheduler writes its reasons into them at the default rate, so that its queue of writes is
full.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.object_builders import node_body, queue_unit_body
from tests.benchmarks.cluster_world import programs_of
from tests.benchmarks.distant_server import AS_SHIPPED, distant_server, new_server, reply
from tests.benchmarks.figures import Figure
from tests.benchmarks.process_usage import cpu_seconds, usage
from tests.cluster.program_process import SCHEDULER

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

UNITS: Final = 100_000
QUEUES: Final = 100
SETTLE_SECONDS: Final = 20.0


def run(units: int = UNITS) -> list[Figure]:
    """Measure the scheduler without units, and with this many."""
    with distant_server(serve) as server:
        with programs_of(server.kubeconfig) as programs:
            empty = usage(programs.start(SCHEDULER, *AS_SHIPPED).pid)
        server.ask(units)
        with programs_of(server.kubeconfig) as programs:
            began = time.monotonic()
            process = programs.start(SCHEDULER, *AS_SHIPPED)
            ready_seconds = time.monotonic() - began
            at_first = usage(process.pid)
            time.sleep(SETTLE_SECONDS)
            full = usage(process.pid)
            cpu = cpu_seconds(process.pid)
    suffix = "100k" if units == UNITS else str(units)
    return [
        Figure(
            name=f"scheduler_rss_mb_{suffix}",
            value=full.peak_rss_mb,
            unit="MB",
            control=empty.rss_mb,
            note=f"peak; {at_first.rss_mb:.0f} when ready, {full.rss_mb:.0f} after"
            f" {SETTLE_SECONDS:.0f} s of writing reasons; control: no units",
        ),
        Figure(
            name=f"scheduler_ready_seconds_{suffix}",
            value=ready_seconds,
            unit="s",
            note=f"from start to /readyz, over HTTP from the fake; {cpu:.1f} s of CPU in all",
        ),
    ]


def serve(parent: Connection) -> None:
    """Run the API server: create the requested number of units."""
    server = new_server(QUEUES, {"cpu": "5", "memory": "100Gi"})
    server.direct.create(node_body("node", allocatable={"cpu": str(5 * QUEUES), "memory": "10Ti"}))
    reply(server, parent, lambda units: _fill(server, units))


def _fill(server: FakeApiServer, units: int) -> int:
    for number in range(units):
        server.direct.create(unit_body(number))
    return units


def unit_body(number: int) -> dict[str, Any]:
    """Return a unit as the controllers create it for a Job."""
    name = f"training-job-{number:06}"
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-uid-{number:028}"}
    return queue_unit_body(
        name,
        namespace=f"team-{number % QUEUES}",
        quota=f"team-{number % QUEUES}",
        requests={"cpu": str(number % 4 + 1), "memory": f"{number % 4 + 1}Gi"},
        priority=number % 3,
        consumerRef={**job, "namespace": f"team-{number % QUEUES}"},
        metadata={
            "annotations": {"koord-queue/managed-by": "koord-queue-controllers"},
            "ownerReferences": [{**job, "controller": True, "blockOwnerDeletion": True}],
        },
    )
