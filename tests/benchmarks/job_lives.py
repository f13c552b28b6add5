"""Complete lives of real Jobs: both programs, the Job controller, kube-scheduler, and kwok.

Every pod requests one core and runs for half a second; the quotas hold a hundred of them at a time.
The writes of each client are counted in the API server's audit log while jobs of one pod run; jobs
of several pods follow.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import JOBS
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.job import Job
from shared_api.objects.meta import is_condition_true
from shared_api.process.clock import SystemClock
from shared_api.well_known_labels import QUOTA_NAME
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure
from tests.benchmarks.process_usage import Meter, usage
from tests.benchmarks.quota_tree_objects import await_queues, create_quotas, quota
from tests.cluster.program_process import CONTROLLERS, SCHEDULER

JOB_COUNT: Final = 300
WIDE_PODS: Final = 4
QUOTAS: Final = 5
CPU_PER_QUOTA: Final = 20
NODES: Final = 4
SETTLE_SECONDS: Final = 3.0
PATIENCE_SECONDS: Final = 180.0
KCM: Final = "kube-controller-manager"
OURS: Final = ("koord-queue-controllers", "koord-queue-scheduler")


def run(jobs: int = JOB_COUNT) -> list[Figure]:
    """Run this many jobs and return the figures."""
    with ClusterWorld(nodes=NODES, audit=True) as world:
        client = world.client()
        names = [f"team-{number}" for number in range(QUOTAS)]
        cpu = CPU_PER_QUOTA
        create_quotas(client, [quota(name, "", minimum=cpu, maximum=cpu) for name in names])
        scheduler = world.start(SCHEDULER)
        controllers = world.start(CONTROLLERS, "--enabled-extensions=job")
        await_queues(client, QUOTAS)
        time.sleep(SETTLE_SECONDS)
        audited = world.audit_lines()
        meter = Meter.start(
            {**world.plane.pids, "scheduler": scheduler.pid, "controllers": controllers.pid}
        )
        wall = play(client, jobs)
        used = meter.read()
        writes = count_by_agent(world.audit_lines()[len(audited) :])
        controllers_usage = usage(controllers.pid)
        wide = Meter.start({KCM: world.plane.pids[KCM], "controllers": controllers.pid})
        play(client, jobs // WIDE_PODS, "wide", WIDE_PODS)
        used_wide = wide.read()
        errors = [*scheduler.errors(), *controllers.errors()]
    print(*(f"  log: {line[:300]}" for line in errors[:5]), sep="\n", end="\n" * bool(errors))
    for agent, counts in writes.items():
        kinds = ", ".join(f"{name} {count / jobs:.2f}" for name, count in counts.most_common(12))
        print(f"  writes per job, {agent}: {sum(counts.values()) / jobs:.2f} ({kinds})")
    return [
        *_figures(jobs, wall, used, writes),
        beside_kcm(
            f"controllers_cpu_ms_per_job_of_{WIDE_PODS}",
            *(1000 * used_wide[each] / (jobs // WIDE_PODS) for each in ("controllers", KCM)),
        ),
        Figure(name="controllers_rss_mb", value=controllers_usage.peak_rss_mb, unit="MB"),
    ]


def _figures(
    jobs: int, wall: float, cpu: dict[str, float], writes: dict[str, Counter[str]]
) -> list[Figure]:
    def per_job(name: str, process: str) -> Figure:
        return beside_kcm(name, 1000 * cpu[process] / jobs, 1000 * cpu[KCM] / jobs)

    ours = sum(sum(counts.values()) for agent, counts in writes.items() if agent in OURS)
    everybody = sum(sum(counts.values()) for counts in writes.values())
    return [
        per_job("controllers_cpu_ms_per_unit", "controllers"),
        per_job("job_lives_scheduler_cpu_ms_per_job", "scheduler"),
        per_job("job_lives_api_cpu_ms_per_job", "kube-apiserver"),
        Figure(
            name="writes_per_job",
            value=ours / jobs,
            unit="writes",
            control=(everybody - ours) / jobs,
            note="by our two programs; control: by all others (Job controller, kwok, ...)",
        ),
        Figure(
            name="job_lives_jobs_per_second", value=jobs / wall, unit="1/s", note=f"{jobs} jobs"
        ),
    ]


def beside_kcm(name: str, milliseconds: float, of_kcm: float) -> Figure:
    """Return what a job cost beside what it cost kube-controller-manager."""
    note = "control: kube-controller-manager for the same jobs"
    return Figure(name=name, value=milliseconds, unit="ms/job", control=of_kcm, note=note)


def play(client: ResourceClient, jobs: int, prefix: str = "job", pods: int = 1) -> float:
    """Create the jobs, each of so many pods; return the seconds until all are complete."""
    informer: SharedInformer[Job] = SharedInformer(
        client, JOBS, clock=SystemClock(), rng=random.Random()
    )
    informer.start()
    began = time.monotonic()
    try:
        for number in range(jobs):
            client.create(JOBS, "default", job_body(number, prefix, pods))
        while (done := _count_complete(informer.store.list(), prefix)) < jobs:
            if time.monotonic() - began > PATIENCE_SECONDS:
                message = f"only {done} of {jobs} jobs are complete"
                raise RuntimeError(message)
            time.sleep(0.1)
        wall = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        return wall
    finally:
        informer.stop()


def _count_complete(jobs: Iterable[Job], prefix: str) -> int:
    ours = (job for job in jobs if job.metadata.name.startswith(prefix))
    return sum(is_condition_true(job.status.conditions, "Complete") for job in ours)


def job_body(number: int, prefix: str = "job", pods: int = 1) -> dict[str, Any]:
    """Return a job as a user submits it: suspended, and charged to one of the quotas."""
    container = {
        "name": "main",
        "image": "registry.test/training:1",
        "resources": {"requests": {"cpu": "1"}},
    }
    template = {
        "metadata": {"annotations": {"koord-queue.test/run-seconds": "0.5"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{prefix}-{number}",
            "labels": {QUOTA_NAME: f"team-{number % QUOTAS}"},
        },
        "spec": {
            "suspend": True,
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": template,
        },
    }


def count_by_agent(lines: Iterable[str]) -> dict[str, Counter[str]]:
    """Return the writes of each program by verb and resource; refused writes have their code."""
    counted: dict[str, Counter[str]] = {}
    for line in lines:
        event = json.loads(line)
        where = event.get("objectRef", {})
        if where.get("resource") == "leases":
            continue
        agent = Path(event.get("userAgent", "?").partition("/")[0]).name
        code = event.get("responseStatus", {}).get("code", 0)
        subresource = f"/{where['subresource']}" if "subresource" in where else ""
        refused = "" if 200 <= code < 300 else f" {code}"
        name = f"{event['verb']} {where.get('resource')}{subresource}{refused}"
        counted.setdefault(agent, Counter())[name] += 1
    return counted
