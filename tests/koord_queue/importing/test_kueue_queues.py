"""ClusterQueues become Queues."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.importing.kueue_objects import read_objects
from koord_queue.importing.kueue_queues import plan_queues
from koord_queue.importing.plan import Plan
from tests.koord_queue.importing.kueue_bodies import check, cluster_queue

Json = dict[str, Any]
STOP = "koord-queue/stop-policy"
PREEMPTS = {
    "koord-queue/enable-queueunit-preemption": "true",
    "koord-queue/preempt-running-queueunits": "true",
}


def plan_of(*bodies: Json) -> Plan:
    return plan_queues(read_objects(bodies), "koord-queue")


@pytest.mark.parametrize(
    ("spec", "policy", "annotations"),
    [
        pytest.param({}, "Priority", {}, id="the defaults"),
        pytest.param({"queueingStrategy": "BestEffortFIFO"}, "Priority", {}, id="best effort"),
        pytest.param({"queueingStrategy": "StrictFIFO"}, "Block", {}, id="strict"),
        pytest.param({"stopPolicy": "None"}, "Priority", {}, id="open"),
        pytest.param({"stopPolicy": "Hold"}, "Priority", {STOP: "Hold"}, id="held"),
        pytest.param(
            {"preemption": {"withinClusterQueue": "LowerPriority"}},
            "Priority",
            PREEMPTS,
            id="preemption in the queue",
        ),
    ],
)
def test_a_queue_has_the_settings_of_its_cluster_queue(
    spec: Json, policy: str, annotations: dict[str, str]
) -> None:
    plan = plan_of(cluster_queue("team", **spec))
    (queue,) = plan.objects
    assert queue["spec"] == {"queuePolicy": policy, "priority": 1000}
    assert queue["metadata"].get("annotations", {}) == annotations
    assert plan.lost == ()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"namespaceSelector": None}, "spec.namespaceSelector", id="no namespaces"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "a"}}},
            "spec.namespaceSelector",
            id="namespaces by label",
        ),
        pytest.param(
            {"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority"}},
            "spec.preemption.withinClusterQueue",
            id="newer ones of the same priority",
        ),
        pytest.param(
            {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
            "spec.preemption.borrowWithinCohort",
            id="evictions for borrowing",
        ),
        pytest.param(
            {
                "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
                "queueingStrategy": "StrictFIFO",
            },
            "spec.queueingStrategy",
            id="a strict order with fair sharing between LocalQueues",
        ),
        pytest.param(
            {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}},
            "spec.concurrentAdmissionPolicy",
            id="moves between flavors",
        ),
    ],
)
def test_what_a_queue_does_not_have_is_named(spec: Json, field: str) -> None:
    assert [each.field for each in plan_of(cluster_queue("team", **spec)).lost] == [field]


CHECKS = {"admissionChecks": [{"name": "approval"}, {"name": "nodes", "onFlavors": ["spot"]}]}


@pytest.mark.parametrize(
    ("queue", "controllers", "names", "lost"),
    [
        pytest.param(
            cluster_queue("team", admissionChecksStrategy=CHECKS),
            ["example.com/a", "example.com/b"],
            ["approval", "nodes"],
            [".onFlavors"],
            id="checks for some flavors are for all units",
        ),
        pytest.param(
            cluster_queue("team", version="v1beta1", admissionChecks=["approval"]),
            ["example.com/a"],
            ["approval"],
            [],
            id="the list of v1beta1",
        ),
        pytest.param(
            cluster_queue("team", admissionChecksStrategy=CHECKS),
            ["kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"],
            ["nodes"],
            ["", ""],
            id="checks that Kueue itself answers",
        ),
        pytest.param(
            cluster_queue("team", admissionChecksStrategy=CHECKS),
            ["example.com/a"],
            ["approval", "nodes"],
            [""],
            id="a check that does not exist is kept, and named",
        ),
    ],
)
def test_checks(queue: Json, controllers: list[str], names: list[str], lost: list[str]) -> None:
    known = map(check, ("approval", "nodes"), controllers)
    plan = plan_of(queue, *known)
    got = [each["name"] for each in plan.objects[0]["spec"]["admissionChecks"]]
    assert got == names
    assert [each.field.partition("]")[2] for each in plan.lost] == lost
