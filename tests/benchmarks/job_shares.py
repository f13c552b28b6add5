"""What a Job costs the controllers, part by part, beside kube-controller-manager.

The same Jobs as in `job_lives`, in turns, each with controllers that were just started; with
`--before` every second turn runs those of another checkout, so that two versions are compared in
one run. The counts do not depend on how busy the machine is. Medians of the turns.
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

from shared_api.client.errors import NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import JOBS
from tests.benchmarks import counted_controllers, job_lives
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure
from tests.benchmarks.process_usage import Meter
from tests.benchmarks.quota_tree_objects import await_queues, create_quotas, quota
from tests.benchmarks.turns import take_turns
from tests.cluster.program_process import ROOT, SCHEDULER

JOB_COUNT: Final = 200
PAIRS: Final = 5
SCRIPT: Final = str(Path(counted_controllers.__file__).resolve())

Counts = Mapping[str, float]


def run(before: Path | None = None, *, quick: bool = False) -> list[Figure]:
    """Measure in turns; `quick`: one turn of each, with a quarter of the jobs."""
    jobs, pairs = (JOB_COUNT // 4, 1) if quick else (JOB_COUNT, PAIRS)
    turns: dict[str, list[Counts]] = {"now": []} if before is None else {"before": [], "now": []}
    with ClusterWorld(nodes=job_lives.NODES) as world:
        client = world.client()
        names = [f"team-{number}" for number in range(job_lives.QUOTAS)]
        cpu = job_lives.CPU_PER_QUOTA
        create_quotas(client, [quota(name, "", minimum=cpu, maximum=cpu) for name in names])
        world.start(SCHEDULER)
        await_queues(client, job_lives.QUOTAS)
        for pair, root in take_turns(before, pairs):
            name = "now" if root == ROOT else "before"
            turn = _play(world, client, root, jobs, f"{name}-{pair}")
            turns[name].append(turn)
            got = ", ".join(f"{each} {turn[each]:.3f}" for each in ("controllers", job_lives.KCM))
            print(f"  {name}: {got} ms a job", flush=True)
    return _figures({name: _medians(each) for name, each in turns.items()})


def _play(
    world: ClusterWorld, client: ResourceClient, root: Path, jobs: int, prefix: str
) -> Counts:
    """Return what a job cost the controllers of a checkout: times in ms, and counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts"
        flags = (
            "--enabled-extensions=job",
            "--debug-address=127.0.0.1:0",
            f"{counted_controllers.FLAG}{path}",
        )
        controllers = world.start(SCRIPT, *flags, root=root)
        time.sleep(job_lives.SETTLE_SECONDS)
        meter = Meter.start({**world.plane.pids, "controllers": controllers.pid})
        counts = _counts(path)
        job_lives.play(client, jobs, prefix)
        used, since = meter.read(), _counts(path)
        _remove(client, jobs, prefix)
        controllers.stop()
    found = {name: since[name] - counts.get(name, 0) for name in since}
    in_ms = {name for name in found if name.startswith("cpu ")}
    per_job = {name: each / jobs * (1000 if name in in_ms else 1) for name, each in found.items()}
    switches = sum(each for name, each in per_job.items() if name.startswith("switches of "))
    return {
        **per_job,
        "context switches": switches,
        **{name: 1000 * each / jobs for name, each in used.items()},
    }


def _counts(path: Path) -> dict[str, float]:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        with peer.makefile("rb") as said:
            found: dict[str, float] = json.load(said)
    return found


def _remove(client: ResourceClient, jobs: int, prefix: str) -> None:
    """Delete the jobs, and wait until they are gone."""
    for number in range(jobs):
        client.delete(JOBS, "default", f"{prefix}-{number}", propagation="Foreground")
    with suppress(NotFound):
        while True:
            client.get(JOBS, "default", f"{prefix}-{jobs - 1}")
            time.sleep(0.5)
    time.sleep(job_lives.SETTLE_SECONDS)


def _medians(turns: list[Counts]) -> Counts:
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: median(turn.get(name, 0.0) for turn in turns) for name in names}


def _figures(medians: Mapping[str, Counts]) -> list[Figure]:
    now, before = medians["now"], medians.get("before")
    _print_parts(now, before)
    figures = [
        job_lives.beside_kcm(
            f"job_shares_controllers_cpu_ms_{name}", turn["controllers"], turn[job_lives.KCM]
        )
        for name, turn in medians.items()
    ]
    for name, unit in COUNTED.items():
        figures.append(
            Figure(
                name=f"job_shares_{name.replace(' ', '_')}",
                value=now[name],
                unit=unit,
                control=None if before is None else before[name],
                note="" if before is None else "per job; control: the version before",
            )
        )
    return figures


COUNTED: Final = {
    "context switches": "1/job",
    "events": "1/job",
    "event bytes": "B/job",
    "reconciles": "1/job",
    "looks": "1/job",
    "writes": "1/job",
}


def _print_parts(now: Counts, before: Counts | None) -> None:
    """Print the time and the context switches of each kind of thread, and what was counted."""
    print(f"  {'per job':<44}{'now':>10}{'before':>10}")
    for name in sorted(now, key=lambda each: (each.split()[0], -now[each])):
        was = None if before is None else before.get(name, 0.0)
        if max(now[name], was or 0.0) >= 0.005:
            print(f"  {name:<44}{now[name]:>10.3f}{'' if was is None else f'{was:>10.3f}'}")
