"""Strict queues on a real API server with Koordinator's CRD: the test plays koord-scheduler.

Both programs have no more rights than the chart gives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import Program, as_manifest, rights
from tests.cluster.queue_world import (
    MERGE,
    QueueWorld,
    condition,
    until,
)
from tests.controlplane.api_client import ApiError
from tests.tidy.source_tree import ROOT

pytestmark = pytest.mark.cluster

Json = dict[str, Any]

RESERVATION_CRD = ROOT / "tests" / "data" / "crds" / "reservations.yaml"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
STRICT = {"strictDequeue": {"enabled": True}}
ACCOUNTS: Final[dict[str, Program]] = {"queue-account": "scheduler", "jobs-account": "controllers"}


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """A cluster with both programs in strict mode, and quota team of four cores."""
    users: dict[str, Sequence[str]] = dict.fromkeys(ACCOUNTS, ())
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as world:
        world.plane.apply(RESERVATION_CRD)
        granted = [
            each
            for account, program in ACCOUNTS.items()
            for each in rights(program, user=account, values=STRICT)
        ]
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(granted))
        world.create_quota("team", cpu_max=4)
        world.start_scheduler("--strictDequeueMode", "--queue-list=team", user="queue-account")
        world.start_controllers("--enable-reservation", user="jobs-account")
        yield world


def reservations(world: QueueWorld) -> list[Json]:
    """Return all of them."""
    found: list[Json] = world.api.request("GET", RESERVATIONS)["items"]
    return found


def answer(world: QueueWorld, status: str, reason: str, phase: str) -> None:
    """Say this of all reservations, as koord-scheduler does.

    The others may be gone when it has been said of one.
    """
    said = {"type": "Scheduled", "status": status, "reason": reason, "message": "0/4 nodes"}
    body = {"status": {"phase": phase, "conditions": [said]}}
    for each in reservations(world):
        path = f"{RESERVATIONS}/{each['metadata']['name']}/status"
        try:
            world.api.request("PATCH", path, body, content_type=MERGE)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


def test_a_job_is_refused_nodes_asks_again_and_runs_on_them(world: QueueWorld) -> None:
    """[ctl-63] There the first attempt is put back by hand, and the job is a PyTorchJob."""
    world.create_job("train", "team", parallelism=2, completions=2, suspend=True, run_seconds="600")
    until(lambda: world.phase_of_job("train") == "SchedReady")
    until(lambda: len(reservations(world)) == 2)
    first = {each["metadata"]["uid"] for each in reservations(world)}
    assert world.is_suspended("train")
    answer(world, "False", "Unschedulable/1", "Pending")
    until(lambda: world.phase_of_job("train") == "TimeoutBackoff")
    unit = world.unit_of("train")
    assert "0/4 nodes" in unit["status"]["message"]
    assert condition(unit, "Evicted")["reason"] == "SchedulingFailed"
    assert unit["status"]["requeueState"]["count"] == 1
    until(lambda: reservations(world) == [])
    assert "NoNodes" in until(lambda: world.event_notes("train"))

    until(lambda: world.phase_of_job("train") == "SchedReady")
    assert world.unit_of("train")["status"]["attempts"] == 2
    until(lambda: len(reservations(world)) == 2)
    assert not first & {each["metadata"]["uid"] for each in reservations(world)}
    answer(world, "True", "Scheduled/2", "Available")
    until(lambda: not world.is_suspended("train"))
    until(lambda: world.phase_of_job("train") == "Running")
    until(lambda: reservations(world) == [])
    for pod in until(lambda: two_of(world.running_pods("train"))):
        world.end_pod(pod["metadata"]["name"])
    until(lambda: world.phase_of_job("train") == "Succeed")


def two_of(pods: list[Json]) -> list[Json]:
    """Return the pods when there are two."""
    return pods if len(pods) == 2 else []


def test_a_job_that_is_deleted_meanwhile_leaves_no_reservation(world: QueueWorld) -> None:
    world.create_job("gone", "team", suspend=True)
    until(lambda: len(reservations(world)) == 1)
    (made,) = reservations(world)
    assert made["spec"]["ttl"] == "1800s"
    assert made["spec"]["template"]["metadata"]["namespace"] == "default"
    world.delete_job("gone")
    until(lambda: reservations(world) == [])
