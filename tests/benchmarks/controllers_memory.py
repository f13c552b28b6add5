"""The controllers' memory with 10,000 running jobs and their 50,000 pods, over real HTTP.

The API server is the fake one, in its own process. There are two measurements: batch Jobs alone,
with the default flags, and jobs of all kinds in turn, with every extension enabled. All jobs have
full size, and run before the controllers start, so that each is adopted: it gets a unit, and the
unit a phase. Jobs that consist of pods wait at their scheduling gates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

from queue_controllers.extension_list import EXTENSIONS
from shared_api.fake_api_server.server import FakeApiServer
from tests.benchmarks.cluster_world import programs_of
from tests.benchmarks.distant_server import AS_SHIPPED, distant_server, new_server, reply
from tests.benchmarks.figures import Figure
from tests.benchmarks.full_size import pod_status
from tests.benchmarks.job_mix import (
    PRIORITY_CLASS,
    MixedKind,
    batch_jobs,
    companions_of,
    gated_pods,
    job_body,
    kinds_of_objects,
    kinds_of_pods,
    open_crds,
    pods_of,
    status_of,
)
from tests.benchmarks.process_usage import Usage, cpu_seconds, usage
from tests.cluster.played_statuses import Stage
from tests.cluster.program_process import CONTROLLERS, ProgramProcess

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

JOBS: Final = 10_000
PODS_PER_JOB: Final = 5
NAMESPACES: Final = 50
LOOK_SECONDS: Final = 3.0
IDLE_SHARE: Final = 0.05
"""Part of a core; a process that uses less is idle."""
PATIENCE_SECONDS: Final = 600.0
OLDER_MPI: Final = "mpijobv1"
"""MPIJobs of kubeflow.org/v1; only one of the two versions is enabled."""
ALL_KINDS: Final = ",".join(e.kind.key for e in EXTENSIONS if e.kind.key != OLDER_MPI)


def run(jobs: int = JOBS) -> list[Figure]:
    """Measure both."""
    suffix = f"{jobs // 1000}k"
    return [
        *_measure(f"controllers_rss_mb_{suffix}", jobs, mixed=False),
        *_measure(f"controllers_rss_mb_{suffix}_mix", jobs, mixed=True),
    ]


def _measure(name: str, jobs: int, *, mixed: bool) -> list[Figure]:
    flags = (*AS_SHIPPED, *((f"--enabled-extensions={ALL_KINDS}",) if mixed else ()))
    with distant_server(serve) as server:
        with programs_of(server.kubeconfig) as programs:
            empty = _when_idle(programs.start(CONTROLLERS, *flags))
        pods = server.ask((jobs, mixed))
        with programs_of(server.kubeconfig) as programs:
            process = programs.start(CONTROLLERS, *flags)
            at_first = usage(process.pid)
            full = _when_idle(process)
        units = server.ask()
    if units != jobs:
        message = f"{units} units were made for {jobs} jobs"
        raise RuntimeError(message)
    return [
        Figure(
            name=name,
            value=full.peak_rss_mb,
            unit="MB",
            control=empty.rss_mb,
            note=f"peak; {at_first.rss_mb:.0f} when ready, {full.rss_mb:.0f} at the end;"
            f" {pods} pods; {full.cpu_seconds:.0f} s of CPU; control: no jobs",
        )
    ]


def _when_idle(process: ProgramProcess) -> Usage:
    """Return the usage of a process once it is idle."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    before = -1.0
    while (now := cpu_seconds(process.pid)) - before > IDLE_SHARE * LOOK_SECONDS:
        if time.monotonic() > deadline:
            message = f"still busy after {PATIENCE_SECONDS:g} s"
            raise RuntimeError(message)
        before = now
        time.sleep(LOOK_SECONDS)
    return usage(process.pid)


def serve(parent: Connection) -> None:
    """Run the API server: create this many jobs, mixed or not; reply with the number of units."""
    server = new_server(NAMESPACES, {"cpu": "2000", "memory": "4Ti"})
    server.direct.create_all([*open_crds(), PRIORITY_CLASS])
    reply(
        server,
        parent,
        lambda asked: _fill(server, asked[0], mixed=asked[1]),
        lambda _: len(server.direct.list("queueunits")),
    )


def _fill(server: FakeApiServer, jobs: int, *, mixed: bool) -> int:
    """Create the jobs and their pods; return the number of pods."""
    pods = 0
    for number, kind in enumerate(_kinds(jobs, mixed=mixed)):
        namespace = f"team-{number % NAMESPACES}"
        if kind.row is None:
            made = gated_pods(kind, f"{kind.key}-{number:05}", namespace, namespace)
            server.direct.create_all(made)
            pods += kind.pods
        else:
            pods += _create_running(server, kind, number, namespace)
    return pods


def _kinds(jobs: int, *, mixed: bool) -> Iterator[MixedKind]:
    """Return a kind for each job; the size of batch Jobs gives 5 pods per job on average."""
    if not mixed:
        return islice(cycle([batch_jobs(PODS_PER_JOB)]), jobs)
    left_out = {"job", OLDER_MPI}
    others = [each for each in kinds_of_objects() if each.key not in left_out] + kinds_of_pods()
    missing = sum(PODS_PER_JOB - each.pods for each in others)
    of_jobs = batch_jobs(PODS_PER_JOB + round(missing / len(others)))
    turns = [each for other in others for each in (other, of_jobs)]
    return islice(cycle(turns), jobs)


def _create_running(server: FakeApiServer, kind: MixedKind, number: int, namespace: str) -> int:
    direct, name = server.direct, f"{kind.key}-{number:05}"
    body = direct.create(job_body(kind, name, namespace, namespace, suspend=False))
    direct.create_all(companions_of(kind, body))
    status = {"status": status_of(kind, body, Stage.RUNNING)}
    direct.patch(kind.plural, name, status, namespace=namespace, subresource="status")
    made = pods_of(kind, body)
    for order, pod in enumerate(made):
        direct.create(pod)
        said = {"status": pod_status(10 * number + order, "Running")}
        where = {"namespace": namespace, "subresource": "status"}
        direct.patch("pods", pod["metadata"]["name"], said, **where)
    return len(made)
