"""The example commands of the pages are accepted by a real cluster with objects of their names.

What they print is of a larger cluster, so that only their success is checked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.command_line_kit import ALWAYS
from tests.cluster.page_session import Session, playable, session
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import OWN_TIMES_SECONDS, Cluster, QueueWorld
from tests.cluster.visibility_world import aggregated
from tests.docs.page_steps import Command
from tests.docs.typed_commands import examples, read_commands, typed
from tests.tidy.source_tree import ROOT
from tests.waiting import until

NAMESPACES: Final = ("research", "web", "team-a", "team-b")
PAGES: Final = read_commands()
SKILL: Final = ROOT / "examples/agent-skill/SKILL.md"
JOBS: Final = (
    ("research", "train-6", "research"),
    ("research", "train-7", "research"),
    ("research", "train-8", "research"),
    ("research", "eval-2", "research"),
    ("web", "report", "research"),
    ("team-a", "train-2", "team-a"),
    ("team-a", "train", "team-a"),
    ("default", "train", "team-a"),
    ("research", "sweep-3", "team-a"),
)
"""Namespace, name and quota. Each requests most of its quota: the first of a quota runs."""

RUNS: Final = "train-6"
"""The job of quota `research` that runs on all pages."""

UNDONE: Final = {"drain": "resume", "hold": "release"}
"""Acts that would keep later examples from what they ask for."""

ADMITTED: Final = ("Dequeued", "Running")

GPUS: Final = '{"spec": {"max": {"nvidia.com/gpu": 8}}}'

JOB: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: train-9, labels: {quota.scheduling.koordinator.sh/name: research}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: [sleep, "1"], resources: {requests: {cpu: 1}}}]
"""


POLICIES: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/koord-queue/quotapolicies"
POLICY: Final = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "QuotaPolicy",
    "metadata": {"name": "vision"},
    "spec": {
        "quotas": ["vision"],
        "budgets": [{"resource": "nvidia.com/gpu", "hours": 20_000, "period": "Month"}],
    },
}


@pytest.fixture(scope="module")
def cluster(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    flags = ("--forecast-interval=1s", ALWAYS, f"--record-dir={tmp_path_factory.mktemp('record')}")
    with aggregated(controlplane_binaries, *flags) as found:
        world = found.world
        controllers = world.start_controllers("--leader-elect=false")
        arrange(world)
        until(found.available, OWN_TIMES_SECONDS)
        until(partial(has_forecast, found.scheduler), OWN_TIMES_SECONDS)
        yield Cluster(world, found.scheduler, controllers)


def has_forecast(scheduler: ProgramProcess) -> bool:
    """Return whether the last forecast is of all jobs."""
    path = "/debug/queueunits/research/sweep-3/forecast"
    return scheduler.ask(path).status_code == HTTPStatus.OK


def arrange(world: QueueWorld) -> None:
    for namespace in NAMESPACES:
        world.plane.kubectl("create", "namespace", namespace)
    for quota in ("research", "team-a"):
        world.create_quota(quota, cpu_max=6)
        until(partial(world.has_queue, quota))
    world.plane.kubectl("patch", "elasticquota", "research", "--type=merge", "--patch", GPUS)
    world.api.request("POST", POLICIES, POLICY)
    world.create_queue("night", "FIFO", {"koord-queue/available-quota-in-queue": "*"})
    world.create_queue("team", "Fair")
    for namespace, name, quota in JOBS:
        more: dict[str, Any] = {"namespace": namespace, "run_seconds": "3600"}
        world.create_job(name, quota, cpu="4", **more)
        until(partial(world.unit_of, name, namespace), OWN_TIMES_SECONDS)
        if name == RUNS:
            # Creation times have whole seconds, and jobs of one second are ordered by name: after a
            # drain another one would run.
            time.sleep(1.1)


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Session]:
    server = f"http://127.0.0.1:{cluster.scheduler.port_of('--debug-address')}"
    (tmp_path / "job.yaml").write_text(playable(JOB), encoding="utf-8")
    with session(cluster.world.plane, tmp_path, server=server) as opened:
        opened.type(Command("kubectl config set-context --current --namespace research", ()))
        yield opened


def first_phase(cluster: Cluster) -> str:
    """Return the phase of the job that runs."""
    phase: str = cluster.world.unit_of(RUNS, "research")["status"]["phase"]
    return phase


@pytest.mark.parametrize("page", examples(PAGES))
def test_the_examples_are_accepted(cluster: Cluster, reader: Session, page: str) -> None:
    ports = {
        "19876": cluster.scheduler.port_of("--debug-address"),
        "19877": cluster.controllers.port_of("--debug-address"),
        "10259": cluster.scheduler.port_of("--metrics-address"),
        "8081": cluster.scheduler.port_of("--health-address"),
    }
    for each in typed(PAGES[page]):
        text = re.sub(r"(?<=:)(?:19876|19877|10259|8081)\b", lambda m: str(ports[m[0]]), each.text)
        reader.type(Command(re.sub(r"^curl ", "curl --fail ", text), ()))
        for act in UNDONE:
            if text.startswith(f"koord-queue {act}"):
                take_back(cluster, reader, act, text)


def take_back(cluster: Cluster, reader: Session, act: str, text: str) -> None:
    """Undo an act, and wait until the same job runs as before."""
    if act == "drain":
        # If the queue were resumed while the first job still ends, another one would run.
        until(lambda: first_phase(cluster) == "Enqueued", OWN_TIMES_SECONDS)
    reader.type(Command(text.replace(act, UNDONE[act]), ()))
    until(lambda: first_phase(cluster) in ADMITTED, OWN_TIMES_SECONDS)


def test_the_commands_of_the_agent_skill_are_answered(reader: Session) -> None:
    """All but `check`, which a page types where everything is installed."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", SKILL.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 12
    for line in lines:
        if line != "koord-queue check":
            reader.type(Command(line, ()))
