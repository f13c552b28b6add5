"""The load of the demo as files that `koord-queue replay` plays."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from shared_api.quantity import format_amount
from tests.demo.clusters import ROOT
from tests.demo.load_plan import (
    PRIORITY,
    RUN_SECONDS,
    URGENT_CLASS_VALUE,
    LoadPlan,
    PlannedJob,
    build_policies,
    build_quotas,
)

FOLDER: Final = Path("build/demo")
"""Within the repository: what `make clean` removes."""
COLUMNS: Final = ("submit_seconds", "run_seconds", "quota", "user", "name", "priority", "pods")


class ReplayFiles(NamedTuple):
    """Where the files are, as a command in the repository names them."""

    trace: Path
    quotas: Path

    @property
    def command(self) -> str:
        """The command that plays them."""
        program = ".venv/bin/koord-queue replay"
        return f"{program} {self.trace} --quotas {self.quotas} --compare FIFO"


def write_replay_files(plan: LoadPlan, queue_namespace: str) -> ReplayFiles:
    """Write the jobs and quotas of a plan; another demo may do so at the same time."""
    files = ReplayFiles(FOLDER / "jobs.csv", FOLDER / "quotas.yaml")
    objects = [*build_quotas(plan, queue_namespace), *build_policies(plan, queue_namespace)]
    quotas = yaml.safe_dump_all(objects, sort_keys=False)
    for path, text in ((files.trace, trace_of(plan)), (files.quotas, quotas)):
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = target.with_suffix(f".{os.getpid()}")
        whole.write_text(text, encoding="utf-8")
        whole.replace(target)
    return files


def trace_of(plan: LoadPlan) -> str:
    """Return the jobs of a plan as a trace in the project's own form (docs/replay.md)."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow((*COLUMNS, *plan.shape.amounts))
    rows.writerows([*_facts(job), *_amounts(plan, job)] for job in plan.jobs)
    return text.getvalue()


def _facts(job: PlannedJob) -> tuple[object, ...]:
    annotations = job.body["metadata"].get("annotations", {})
    template = job.body["spec"]["template"]
    by_class = URGENT_CLASS_VALUE if "priorityClassName" in template["spec"] else 0
    priority = annotations.get(PRIORITY, by_class)
    seconds = template["metadata"]["annotations"][RUN_SECONDS]
    whose = (job.namespace, job.user, job.name)
    return f"{job.at_seconds:.3f}", seconds, *whose, priority, job.workers


def _amounts(plan: LoadPlan, job: PlannedJob) -> Iterator[str]:
    """Return what one pod requests, in the order of the columns."""
    gpus = job.gpus // job.workers
    return (format_amount(name, each * gpus) for name, each in plan.shape.amounts.items())
