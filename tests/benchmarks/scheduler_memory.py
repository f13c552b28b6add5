"""The scheduler's memory with 100,000 units that wait, behind real HTTP.

The API server is the fake one, in a process of its own: the real one would take five minutes to
create so many. The units look as the controllers make them. A few run, the others wait for quota,
and the scheduler writes its reasons into them at the rate as shipped, so that its queue of writes
is as full as it gets.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shared_api.process.clock import SystemClock
from shared_api.testing.fake_api_server import FakeApiServer
from shared_api.testing.object_builders import (
    elastic_quota_body,
    namespace_body,
    node_body,
    queue_unit_body,
)
from tests.benchmarks.cluster_world import CRDS, SCHEDULER, programs_of
from tests.benchmarks.figures import Figure
from tests.benchmarks.process_usage import cpu_seconds, usage

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

UNITS: Final = 100_000
QUEUES: Final = 100
AS_SHIPPED: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")
SETTLE_SECONDS: Final = 20.0
START_SECONDS: Final = 120.0


def run(units: int = UNITS) -> list[Figure]:
    """Measure the scheduler without units, and with so many."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    theirs.close()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.write_text(json.dumps(kubeconfig_of(_answer(ours))), encoding="utf-8")
            with programs_of(kubeconfig) as programs:
                empty = usage(programs.start(SCHEDULER, *AS_SHIPPED).pid)
            ours.send(units)
            _answer(ours)
            with programs_of(kubeconfig) as programs:
                began = time.monotonic()
                process = programs.start(SCHEDULER, *AS_SHIPPED)
                ready_seconds = time.monotonic() - began
                at_first = usage(process.pid)
                time.sleep(SETTLE_SECONDS)
                full = usage(process.pid)
                cpu = cpu_seconds(process.pid)
    finally:
        ours.close()
        server.join(START_SECONDS)
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


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(START_SECONDS):
        message = f"the fake API server did not answer within {START_SECONDS:g} s"
        raise RuntimeError(message)
    return pipe.recv()


def serve(parent: Connection) -> None:
    """Be the API server: tell the URL, create as many units as are asked for, live till the end."""
    # Without garbage collection, which would take units whose job was never made.
    server = FakeApiServer(
        clock=SystemClock(), rng=random.Random(1), waits=True, collects_garbage=False
    )
    for path in CRDS:
        server.direct.create_from(path)
    server.direct.create(namespace_body("koord-queue"))
    server.direct.create(node_body("node", allocatable={"cpu": str(5 * QUEUES), "memory": "10Ti"}))
    limits = {"cpu": "5", "memory": "100Gi"}
    for queue in range(QUEUES):
        server.direct.create(namespace_body(f"team-{queue}"))
        server.direct.create(elastic_quota_body(f"team-{queue}", min=limits, max=limits))
    with server.serve_http() as face:
        parent.send(face.url)
        try:
            count = parent.recv()
            for number in range(count):
                server.direct.create(unit_body(number))
            parent.send("created")
            parent.recv()
        except EOFError:
            pass  # the parent has gone


def unit_body(number: int) -> dict[str, Any]:
    """Return a unit as the controllers make it for a Job."""
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


def kubeconfig_of(url: str) -> dict[str, Any]:
    """Return a kubeconfig for an API server that asks for no login."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}],
        "current-context": "fake",
    }
