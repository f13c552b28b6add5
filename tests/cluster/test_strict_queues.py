"""Strict queues on a real API server with Koordinator's CRD: the test plays koord-scheduler.

Both programs have exactly the chart's rights.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.timestamps import rfc3339
from tests.charts.render import Program, as_manifest, rights
from tests.cluster.played_nodes import (
    answer,
    count_reservations,
    reservations,
)
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QueueWorld, reason_of
from tests.cluster.served_kinds import install_crds
from tests.object_states import condition_of
from tests.sample_jobs import crd
from tests.waiting import until

Json = dict[str, Any]

STRICT = {"strictDequeue": {"enabled": True}}
ACCOUNTS: Final[dict[str, Program]] = {"queue-account": "scheduler", "jobs-account": "controllers"}


class StrictWorld(QueueWorld):
    """A cluster whose scheduler can be replaced by one with other settings."""

    _scheduler: ProgramProcess | None = None

    def replace_scheduler(self, *flags: str) -> None:
        """Start a strict scheduler; the one before it ends first."""
        if self._scheduler is not None:
            assert self._scheduler.stop() == 0
        strict = ("--strictDequeueMode", "--queue-list=team,shared")
        self._scheduler = self.start_scheduler(*strict, *flags, user="queue-account")


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[StrictWorld]:
    """A cluster with both programs in strict mode, quota team of four cores, and a bad node."""
    users: dict[str, Sequence[str]] = dict.fromkeys(ACCOUNTS, ())
    with StrictWorld(controlplane_binaries, jobs=True, users=users) as world:
        install_crds(world.plane, crd("reservations"))
        granted = [
            each
            for account, program in ACCOUNTS.items()
            for each in rights(program, user=account, values=STRICT)
        ]
        world.plane.kubectl("apply", "--filename", "-", input=as_manifest(granted))
        world.create_quota("team", cpu_max=4)
        world.plane.kubectl("apply", "--filename", "-", input=json.dumps(blacklist()))
        world.replace_scheduler()
        world.start_controllers("--enable-reservation", user="jobs-account")
        yield world


def blacklist() -> Json:
    """Return the ConfigMap that names nodes: two as bad, and one in text that cannot be parsed.

    One of the reports is years old.
    """
    said, long_ago = rfc3339(datetime.now(UTC)), "2023-04-14T07:00:00Z"
    entries = {
        "bad": [{"lastUpdateTimestamp": said}],
        "was-bad": [{"lastUpdateTimestamp": long_ago}],
        "broken": "yes",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "kube-system", "name": "kubedl-blacklist-data"},
        "data": {"global_anomalousNodesGlobal_xingyun-aiph": json.dumps(entries)},
    }


def test_a_job_is_refused_nodes_reserves_again_and_runs_on_them(world: StrictWorld) -> None:
    """[ctl-63] With a Job; upstream requeues the first attempt by hand."""
    world.create_job("train", "team", parallelism=2, completions=2, run_seconds="600")
    until(lambda: world.phase_of_job("train") == "SchedReady")
    until(lambda: len(reservations(world)) == 2)
    first = {each["metadata"]["uid"] for each in reservations(world)}
    assert world.is_suspended("train")
    answer(world, "False", "Unschedulable/1", "Pending")
    until(lambda: world.phase_of_job("train") == "TimeoutBackoff")
    unit = world.unit_of("train")
    assert "0/4 nodes" in unit["status"]["message"]
    assert condition_of(unit, "Evicted")["reason"] == "SchedulingFailed"
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
    for pod in world.await_running("train", 2):
        world.end_pod(pod["metadata"]["name"])
    until(lambda: world.phase_of_job("train") == "Succeed")


def test_a_job_that_is_deleted_meanwhile_leaves_no_reservation(world: StrictWorld) -> None:
    world.create_job("gone", "team")
    until(lambda: len(reservations(world)) == 1)
    (made,) = reservations(world)
    assert made["spec"]["ttl"] == "1800s"
    assert made["spec"]["template"]["metadata"]["namespace"] == "default"
    world.delete_job("gone")
    until(lambda: reservations(world) == [])


def test_ctl_64_blacklisted_nodes_are_excluded_for_a_while(
    world: StrictWorld,
) -> None:
    """There a report never expires; here that of 2023 excludes no node."""
    world.create_job("careful", "team")
    (made,) = until(lambda: reservations(world))
    affinity = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    keeps_off = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["bad"]}
    assert affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [keeps_off]}]
        }
    }
    note = until(lambda: world.event_notes("careful").get("BlacklistUnreadable", ""))
    assert "kube-system/kubedl-blacklist-data" in note
    assert "broken: " in note
    world.delete_job("careful")
    until(lambda: reservations(world) == [])


def test_a_job_without_an_answer_releases_its_quota_and_reserves_again(world: StrictWorld) -> None:
    world.replace_scheduler("--verdict-timeout=5s")
    world.create_job("silent", "team", run_seconds="600")
    name = until(lambda: world.unit_of("silent"))["metadata"]["name"]
    said = "no answer for 5 s"
    until(lambda: said in " ".join(world.event_notes(name).values()))
    assert world.unit_of("silent")["status"]["requeueState"]["count"] >= 1
    assert world.is_suspended("silent")

    world.replace_scheduler()
    until(lambda: asks_again(world, "silent"))
    answer(world, "True", "Scheduled", "Available")
    until(lambda: world.phase_of_job("silent") == "Running")
    world.delete_job("silent")
    until(lambda: reservations(world) == [])


def asks_again(world: StrictWorld, job: str) -> bool:
    """Return whether a job reserves nodes in a later attempt, and none in an earlier one."""
    status = world.unit_of(job)["status"]
    labels = [each["metadata"]["labels"] for each in reservations(world)]
    attempts = [each["koord-queue/attempt"] for each in labels]
    return (
        status["phase"] == "SchedReady"
        and status["attempts"] > 1
        and (attempts == [str(status["attempts"])])
    )


def grant(world: StrictWorld, attempt: int = 1) -> None:
    """Grant all reservations of this attempt."""
    answer(world, "True", f"Scheduled/{attempt}", "Available")


def test_a_stopped_queue_requeues_a_job_that_reserves_nodes(world: StrictWorld) -> None:
    world.create_job("held", "team")
    until(lambda: count_reservations(world, "held") == 1)
    world.stop_queue("team", "Hold")
    until(lambda: world.phase_of_job("held") == "Enqueued")
    until(lambda: count_reservations(world, "held") == 0)
    unit = world.unit_of("held")
    assert not unit["status"].get("admissions")
    assert unit["status"]["message"] == "Enqueued: queue team is stopped"
    assert world.is_suspended("held")

    world.stop_queue("team", None)
    until(lambda: count_reservations(world, "held") == 1)
    assert world.unit_of("held")["status"]["attempts"] == 2
    grant(world, attempt=2)
    until(lambda: world.phase_of_job("held") == "Succeed")
    until(lambda: reservations(world) == [])


def test_a_unit_that_waits_for_others_nodes_holds_up_no_other_quota(
    world: StrictWorld,
) -> None:
    """In a queue of policy FIFO the first unit may have less priority than one that reserves."""
    for quota in ("left", "right"):
        world.create_quota(quota, cpu_max=4)
    takes = {"koord-queue/available-quota-in-queue": "left,right"}
    world.create_queue("shared", "FIFO", annotations=takes)

    def create(name: str, quota: str, priority: int) -> None:
        joins = {"koord-queue/queue-name": "shared"}
        written = {"scheduling.x-k8s.io/priority": str(priority)}
        world.create_job(name, quota, labels=joins, annotations=written)

    create("first-asks", "left", 5)
    until(lambda: count_reservations(world, "first-asks") == 1)
    create("then-low", "left", 0)
    until(lambda: reason_of(world.unit_of("then-low")) == "WaitingForNodesOfOthers")
    create("then-more", "right", 9)  # of the same second or a later one: behind, by its name
    until(lambda: count_reservations(world, "then-more") == 1)
    names = ("first-asks", "then-low", "then-more")
    assert [world.phase_of_job(name) for name in names] == ["SchedReady", "Enqueued", "SchedReady"]
    grant(world)
    until(lambda: count_reservations(world, "then-low") == 1)
    grant(world)
    until(lambda: [world.phase_of_job(name) for name in names] == ["Succeed"] * 3)
    until(lambda: reservations(world) == [])
