"""A command line in memory: files of a replay, and what a user sees."""

from __future__ import annotations

import io
import json
import random
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

import yaml

from koord_queue.cli.app import run
from queue_insight.replay.jobs import GPU_CORE, Job, Trace
from shared_api.testing.object_builders import elastic_quota_body

Json = dict[str, Any]

HEAD: Final = "submit_seconds,run_seconds,quota,cpu,priority"
JOBS: Final = (
    # Four cores, of which red may have two: the second job of red waits for the first.
    "0,100,red,2,0",
    "10,50,red,1,0",
    "20,30,red,1,5",
    "30,400,blue,3,0",
    "40,10,blue,1,0",
)


def quota(name: str, cpu: int, parent: str = "org") -> Json:
    """Return an ElasticQuota of this many cores."""
    return elastic_quota_body(
        name,
        namespace="kube-system",
        min={"cpu": cpu},
        max={"cpu": cpu},
        parent=parent,
        is_parent=not parent,
    )


QUOTAS: Final = (quota("org", 4, ""), quota("red", 2), quota("blue", 4))


class Desk:
    """A folder with a trace and quotas, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out, self.err = io.StringIO(), io.StringIO()
        self.write("trace.csv", "\n".join((HEAD, *JOBS)))
        self.write("quotas.yaml", yaml.safe_dump_all(QUOTAS))

    def write(self, name: str, text: str) -> str:
        """Write a file; return its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run(self, *more: str, trace: str = "trace.csv", quotas: str = "quotas.yaml") -> int:
        """Run `koord-queue replay` with these files; return the exit code."""
        files = [f"--trace={self.folder / trace}", f"--quotas={self.folder / quotas}"]
        return self.type(*files, *more)

    def type(self, *line: str) -> int:
        """Run `koord-queue replay`; return the exit code."""
        with redirect_stdout(self.out), redirect_stderr(self.err):
            return run(["replay", *line])

    def report(self, *more: str) -> Json:
        """Run it, and return the JSON report."""
        path = self.folder / "report.json"
        assert self.run(f"--json={path}", *more) == 0, self.err.getvalue()
        found: Json = json.loads(path.read_bytes())
        return found


HOUR: Final = 3600.0


def made_trace(count: int, seed: int = 7) -> Trace:
    """Return a trace of this many jobs, about twenty an hour at noon and few at night."""
    rng, now, jobs = random.Random(seed), 0.0, []
    for line in range(count):
        is_day = now % (24 * HOUR) < 12 * HOUR
        now += rng.expovariate(1 / (180.0 if is_day else 900.0))
        tenant = rng.choice(("blue", "blue", "green", "red"))
        run = min(rng.lognormvariate(7.0, 1.3), 20 * HOUR)
        gpus = rng.choice((1, 1, 1, 2, 4))
        jobs.append(
            Job(
                line=line,
                submit=float(int(now)),
                run=float(int(run) + 1),
                tenant=tenant,
                user=f"{tenant}-{rng.randrange(3)}",
                requests={GPU_CORE: str(gpus * 100)},
            )
        )
    return Trace(jobs=tuple(jobs), skipped={})
