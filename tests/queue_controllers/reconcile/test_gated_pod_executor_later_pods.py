"""Pods that come after their job was admitted, over the fake API server: what goes beyond waits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared_api.objects.pod import PodSpec
from shared_api.pod_requests import pod_requests
from shared_api.resource_list import format_amounts, scale
from tests.queue_controllers.controllers_world import World
from tests.queue_controllers.pod_kit import (
    GATE,
    KINDS,
    evict,
    gates,
    grouped,
    make_lws,
    make_pod,
    make_set,
    of_group,
    of_set,
    pod,
    pod_sets,
    run,
)
from tests.sample_jobs import crd

Json = dict[str, Any]

BEYOND = "PodsBeyondGrant"
TOLD_SECONDS = 4.0
RING = {"kueue.x-k8s.io/pod-group-name": "ring"}
OF_TWO = {"kueue.x-k8s.io/pod-group-total-count": "2"}


@pytest.fixture
def world() -> World:
    """A cluster with controllers for these kinds."""
    world = World()
    world.start(KINDS)
    return world


def admit(world: World, name: str) -> None:
    """Admit a unit with what it asks for, as the scheduler records it."""
    world.admit_unit(name)
    shares = []
    for each in world.get_unit(name)["spec"]["podSet"]:
        one = pod_requests(msgspec.convert(each["template"]["spec"], PodSpec))
        amounts = format_amounts(scale(one, each["count"]))
        shares.append(
            {"name": each["name"], "replicas": each["count"], "running": 0, "resources": amounts}
        )
    world.patch_unit_status({"admissions": shares}, name)
    world.settle()


def said(world: World, unit: str) -> tuple[str, str]:
    """Return status and message of the unit's condition."""
    conditions = world.get_unit(unit)["status"].get("conditions", [])
    found = [each for each in conditions if each["type"] == BEYOND]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def beyond_events(world: World) -> list[tuple[str, str]]:
    """Return the names of the objects that events about it are on, and the messages."""
    return [
        (each["involvedObject"]["name"], each["message"])
        for each in world.direct.list("events")
        if each["reason"] == "BeyondGrant"
    ]


def run_a_set(world: World, replicas: int = 2) -> Json:
    """Admit a StatefulSet of pods of one cpu, and have them run."""
    made = make_set(world, replicas)
    of_set(world, made, 0)
    world.settle()
    admit(world, "db-sts-qu")
    run(world, "db-0")
    for number in range(1, replicas):
        of_set(world, made, number)
        world.settle()
        run(world, f"db-{number}")
    world.settle()
    return made


def replace(world: World, made: Json, number: int, cpu: str) -> None:
    world.direct.delete("pods", f"db-{number}", "team")
    of_set(world, made, number, cpu=cpu)
    world.settle(TOLD_SECONDS)


# --- a set that is rolled -------------------------------------------------------------------------


def test_a_larger_pod_of_a_set_keeps_its_gate_and_it_is_told(world: World) -> None:
    made = run_a_set(world)
    replace(world, made, 1, "3")
    assert GATE in gates(world, "db-1")
    unit = world.get_unit("db-sts-qu")
    assert unit["spec"]["request"] == {"cpu": "6"}, "the demand follows"
    assert pod_sets(world, "db-sts-qu") == {"main": 2}
    assert unit["status"]["admissions"][0]["resources"] == {"cpu": "2"}, "what is charged does not"
    status, message = said(world, "db-sts-qu")
    assert status == "True"
    assert "Pod db-1 waits at its gate" in message
    assert "cpu 3 instead of 1 (2 more)" in message
    assert "koord-queue requeue db-sts-qu --namespace team" in message
    assert beyond_events(world) == [("db", message)]


def test_nothing_is_written_again_while_it_waits(world: World) -> None:
    made = run_a_set(world)
    replace(world, made, 1, "3")
    world.settle(40.0)
    written = world.server.resource_version
    world.settle(40.0)
    world.start(KINDS)
    world.settle(40.0)
    assert world.server.resource_version == written
    assert len(beyond_events(world)) == 1


def test_requeued_it_is_admitted_with_what_its_pods_ask_for(world: World) -> None:
    made = run_a_set(world)
    replace(world, made, 1, "3")
    evict(world, "db-sts-qu")
    world.settle()
    assert world.phase("db-sts-qu") == "Enqueued"
    assert said(world, "db-sts-qu")[0] == "False"
    of_set(world, made, 0, cpu="3")
    world.settle()
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "6"}
    admit(world, "db-sts-qu")
    world.settle(TOLD_SECONDS)
    assert [GATE in gates(world, f"db-{each}") for each in range(2)] == [False, False]
    assert said(world, "db-sts-qu")[0] == "False"


def test_deleted_and_created_again_with_less_it_starts(world: World) -> None:
    made = run_a_set(world)
    replace(world, made, 1, "3")
    replace(world, made, 1, "1")
    assert GATE not in gates(world, "db-1")
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "2"}, "what was granted again"
    assert said(world, "db-sts-qu")[0] == "False"


@pytest.mark.parametrize("cpu", ["1", "1000m", "0.5"])
def test_a_replacement_that_asks_for_no_more_starts_at_once(world: World, cpu: str) -> None:
    made = run_a_set(world)
    world.direct.delete("pods", "db-1", "team")
    of_set(world, made, 1, cpu=cpu)
    world.settle()
    assert GATE not in gates(world, "db-1")
    world.settle(TOLD_SECONDS)
    assert said(world, "db-sts-qu") == ("", "")
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "2"}


def test_a_set_that_is_rolled_to_less_of_one_and_more_of_another(world: World) -> None:
    made = run_a_set(world)
    world.direct.delete("pods", "db-1", "team")
    of_set(world, made, 1, cpu="500m", memory="1Gi")
    world.settle(TOLD_SECONDS)
    assert "memory 1Gi instead of 0 (1Gi more)" in said(world, "db-sts-qu")[1]
    evict(world, "db-sts-qu")
    world.settle()
    of_set(world, made, 0, cpu="500m", memory="1Gi")
    world.settle()
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "1", "memory": "2Gi"}
    admit(world, "db-sts-qu")
    assert [GATE in gates(world, f"db-{each}") for each in range(2)] == [False, False]


def test_an_adopted_set_runs_with_what_it_was_adopted_with(world: World) -> None:
    made = make_set(world, 2)
    for number in range(2):
        of_set(world, made, number)
        world.settle()
        opened = {"spec": {"schedulingGates": None}}
        world.direct.patch("pods", f"db-{number}", opened, namespace="team")
        run(world, f"db-{number}")
        world.settle()
    assert world.phase("db-sts-qu") == "Running"
    replace(world, made, 1, "3")
    assert GATE in gates(world, "db-1")
    assert said(world, "db-sts-qu")[0] == "True"


def test_a_set_of_which_nothing_runs_is_requeued_by_itself(world: World) -> None:
    made = make_set(world, 2)
    of_set(world, made, 0)
    world.settle()
    admit(world, "db-sts-qu")
    run(world, "db-0")
    world.settle()
    replace(world, made, 0, "3")
    assert world.phase("db-sts-qu") == "Enqueued"
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "6"}


def test_a_set_that_is_rolled_and_scaled_up_is_granted_no_more_of_the_larger(world: World) -> None:
    made = run_a_set(world)
    world.direct.patch("statefulsets", "db", {"spec": {"replicas": 3}}, namespace="team")
    of_set(world, made, 2, cpu="3")
    world.settle(TOLD_SECONDS)
    assert pod_sets(world, "db-sts-qu") == {"main": 2}, "growth would be granted for nothing"
    assert GATE in gates(world, "db-2")
    evict(world, "db-sts-qu")
    world.settle()
    assert pod_sets(world, "db-sts-qu") == {"main": 3}


def test_an_admission_that_records_no_amounts_keeps_the_spec_as_its_record(world: World) -> None:
    made = make_set(world, 2)
    of_set(world, made, 0)
    world.settle()
    world.admit_unit("db-sts-qu")
    world.settle()
    run(world, "db-0")
    of_set(world, made, 1, cpu="3")
    world.settle(TOLD_SECONDS)
    assert GATE in gates(world, "db-1")
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "2"}
    assert said(world, "db-sts-qu")[0] == "True"


def test_scaled_down_and_up_again_it_waits_for_its_grant(world: World) -> None:
    made = run_a_set(world, 3)
    world.direct.patch("statefulsets", "db", {"spec": {"replicas": 2}}, namespace="team")
    world.direct.delete("pods", "db-2", "team")
    world.settle(3.0)
    given_back = world.get_unit("db-sts-qu")["status"]["reclaimablePods"]
    assert given_back == [{"name": "main", "count": 1}]
    world.direct.patch("statefulsets", "db", {"spec": {"replicas": 3}}, namespace="team")
    of_set(world, made, 2)
    world.settle()
    assert GATE in gates(world, "db-2"), "what was given back may be another's by now"
    assert pod_sets(world, "db-sts-qu") == {"main": 4}


# --- groups ---------------------------------------------------------------------------------------


def run_a_pair(world: World) -> None:
    for name in ("g0", "g1"):
        grouped(world, name, total="2")
    world.settle()
    admit(world, "ring-pg-qu")
    run(world, "g0", "g1")
    world.settle()


def test_a_larger_replacement_in_a_group_keeps_its_gate(world: World) -> None:
    run_a_pair(world)
    run(world, "g1", phase="Failed")
    grouped(world, "g1-again", total="2", cpu="9")
    world.settle(TOLD_SECONDS)
    assert GATE in gates(world, "g1-again")
    asked = [each["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
             for each in world.get_unit("ring-pg-qu")["spec"]["podSet"]]  # fmt: skip
    assert "9" in asked, "the demand follows"
    ((about, message),) = beyond_events(world)
    assert about == "g1-again", "where its user looks"
    assert "pods of its shape: cpu 9 instead of 0 (9 more)" in message


def test_a_third_pod_in_a_group_of_two_waits_for_its_grant(world: World) -> None:
    run_a_pair(world)
    grouped(world, "g2", total="2", cpu="2")
    world.settle(TOLD_SECONDS)
    assert GATE in gates(world, "g2")
    assert said(world, "ring-pg-qu")[0] == "True"


def test_a_pod_that_names_a_set_which_is_not_its_own_gains_nothing(world: World) -> None:
    """A manifest that was made of a running pod has that pod's annotations, too."""
    run_a_pair(world)
    run(world, "g1", phase="Failed")
    (granted,) = world.get_unit("ring-pg-qu")["status"]["admissions"]
    marks = {
        "koord-queue/related-podset-name": granted["name"],
        "koord-queue/related-queueunit": "team/ring-pg-qu",
        "koord-queue/released-at": "2026-01-01T00:00:00.000000Z",
        **OF_TWO,
    }
    make_pod(world, "liar", cpu="9", labels=RING, annotations=marks)
    world.settle(TOLD_SECONDS)
    assert GATE in gates(world, "liar")
    make_pod(world, "g1-again", labels=RING, annotations=marks)
    world.settle()
    assert GATE not in gates(world, "g1-again"), "it asks for what was granted"


def test_a_set_that_a_pod_names_by_a_copied_mark_goes_with_its_gate(world: World) -> None:
    """The scheduler would not know it as a pod of its unit's set."""
    run_a_pair(world)
    run(world, "g1", phase="Failed")
    marks = {"koord-queue/related-podset-name": "of-another", **OF_TWO}
    make_pod(world, "g1-again", labels=RING, annotations=marks)
    world.settle()
    assert GATE not in gates(world, "g1-again")
    assert (
        "koord-queue/related-podset-name" not in pod(world, "g1-again")["metadata"]["annotations"]
    )


def test_of_two_pods_that_come_together_the_one_that_fits_starts(world: World) -> None:
    run_a_pair(world)
    run(world, "g1", phase="Failed")
    grouped(world, "a-large", total="2", cpu="9")
    grouped(world, "b-same", total="2")
    world.settle()
    assert GATE in gates(world, "a-large")
    assert GATE not in gates(world, "b-same")


def test_workers_to_come_are_admitted_with_what_a_limit_range_adds_to_them(world: World) -> None:
    """Their set is read before the API server has seen them: they are not to wait for good."""
    world.direct.create(crd("leaderworkersets"))
    limit = {"type": "Container", "defaultRequest": {"memory": "1Gi"}}
    meta = {"name": "defaults", "namespace": "team"}
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta}
    world.direct.create({**ranges, "spec": {"limits": [limit]}})
    world.settle(8.0)
    make_lws(world)
    of_group(world, 0)
    world.settle()
    assert world.get_unit("llm-1-lws-qu")["spec"]["request"] == {"cpu": "5", "memory": "2Gi"}
    admit(world, "llm-1-lws-qu")
    run(world, "llm-1")
    for number in (1, 2):
        of_group(world, number, memory="1Gi")
    world.settle()
    assert [GATE in gates(world, f"llm-1-{each}") for each in (1, 2)] == [False, False]


def test_a_larger_worker_of_a_leader_worker_set_keeps_its_gate(world: World) -> None:
    for number in range(3):
        of_group(world, number)
    world.settle()
    admit(world, "llm-1-lws-qu")
    run(world, "llm-1", "llm-1-1", "llm-1-2")
    world.settle()
    world.direct.delete("pods", "llm-1-2", "team")
    labels = pod(world, "llm-1-1")["metadata"]["labels"]
    labels = {**labels, "leaderworkerset.sigs.k8s.io/worker-index": "2"}
    size = {"leaderworkerset.sigs.k8s.io/size": "3"}
    make_pod(world, "llm-1-2", cpu="9", labels=labels, annotations=size)
    world.settle(TOLD_SECONDS)
    assert GATE in gates(world, "llm-1-2")
    assert world.get_unit("llm-1-lws-qu")["spec"]["request"] == {"cpu": "19"}
    assert "cpu 9 instead of 2 (7 more)" in said(world, "llm-1-lws-qu")[1]
