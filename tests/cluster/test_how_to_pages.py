"""What people do with jobs and queues, and how they find a cause, typed on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.command_line_kit import ALWAYS
from tests.cluster.page_session import Session, session
from tests.cluster.queue_world import OWN_TIMES_SECONDS, Cluster, QueueWorld
from tests.cluster.visibility_world import aggregated
from tests.docs.page_steps import Command
from tests.waiting import until

TEAM = "research"
"""The quota, its queue, and the namespace of the jobs."""


def message(world: QueueWorld, job: str) -> str:
    """Return why a job waits, as its unit says it; "" before that."""
    status = world.unit_of(job, TEAM).get("status", {})
    return str(status.get("message", "")).removeprefix("Waiting")


def phase(world: QueueWorld, job: str) -> str:
    """Return the phase of a job's unit."""
    return str(world.unit_of(job, TEAM).get("status", {}).get("phase", ""))


def create(world: QueueWorld, name: str, quota: str = TEAM, **more: Any) -> None:
    """Create a Job of the team that runs for an hour."""
    world.create_job(name, quota, namespace=TEAM, run_seconds="3600", **more)


@pytest.fixture(scope="module")
def cluster(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """All programs, and the jobs of a team: one runs, two wait."""
    flags = ("--forecast-interval=1s", ALWAYS, f"--record-dir={tmp_path_factory.mktemp('record')}")
    with aggregated(controlplane_binaries, *flags) as found:
        world = found.world
        controllers = world.start_controllers("--leader-elect=false")
        world.plane.kubectl("create", "namespace", TEAM)
        world.create_quota(TEAM, cpu_max=4)
        until(lambda: world.has_queue(TEAM))
        create(world, "train-6", cpu="3")
        until(lambda: phase(world, "train-6") == "Running", OWN_TIMES_SECONDS)
        for name in ("train-7", "train-8"):
            create(world, name, cpu="2")
            until(partial(message, world, name), OWN_TIMES_SECONDS)
        until(found.available, OWN_TIMES_SECONDS)
        yield Cluster(world, found.scheduler, controllers)


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path) -> Iterator[Session]:
    server = f"http://127.0.0.1:{cluster.scheduler.port_of('--debug-address')}"
    with session(cluster.world.plane, tmp_path, server=server) as opened:
        opened.type(Command(f"kubectl config set-context --current --namespace {TEAM}", ()))
        yield opened


def test_who_submits_jobs(reader: Session) -> None:
    reader.read("how-to/submit-jobs.md")


def test_who_leads_a_team(reader: Session) -> None:
    reader.read("how-to/lead-a-team.md")
    # For the next reader: a job that declares no time must be able to start.
    options = "koord-queue/backfill- koord-queue/max-priority-"
    reader.type(Command(f"kubectl -n koord-queue annotate queue {TEAM} {options}", ()))


def test_who_looks_for_a_cause(cluster: Cluster, reader: Session) -> None:
    world = cluster.world
    world.create_quota("teaching", cpu_max=2)
    until(lambda: world.has_queue("teaching"))
    create(world, "large", cpu="9")
    create(world, "lost", "nobody")
    create(world, "greedy", cpu="0")
    create(world, "typo", "", labels={"quota.scheduling.koordinator.sh/nmae": TEAM})
    until(lambda: message(world, "large"))
    reader.read("troubleshooting.md")
