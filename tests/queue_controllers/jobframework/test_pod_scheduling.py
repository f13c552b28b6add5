"""The part that is kept of a scheduler's message about a pod without a node."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.jobframework.pod_scheduling import (
    MAX_MESSAGE_CHARS,
    KeptPodStatus,
    NoNode,
    ReadPod,
    Unschedulable,
    classify,
    kept_status,
)
from shared_api.objects.meta import Timestamp

SINCE = Timestamp("2026-11-01T10:00:00Z")
LATER = Timestamp("2026-11-01T10:05:00.000000Z")


def pod(phase: str = "Pending", released: str = "", **condition: str) -> ReadPod:
    said = {"type": "PodScheduled", "status": "False", "lastTransitionTime": SINCE, **condition}
    annotations = {"koord-queue/released-at": released} if released else {}
    body = {
        "metadata": {"name": "p", "annotations": annotations},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}, said]},
    }
    return msgspec.convert(body, ReadPod)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "0/3 nodes are available: Insufficient quotas, quotaName: a, runtime: {cpu: 1}.",
            (NoNode.QUOTA, "Insufficient quotas, quotaName: a, runtime: {cpu: 1}."),
            id="koord-scheduler refuses by the quota",
        ),
        pytest.param(
            "0/3 nodes are available: Insufficient non-preemptible quotas, quotaName: a.",
            (NoNode.QUOTA, "Insufficient non-preemptible quotas, quotaName: a."),
            id="by its min",
        ),
        pytest.param(
            "Scheduling refused due to insufficient quotas, quotaNameTopo: [a b]",
            (NoNode.QUOTA, "Insufficient quotas, quotaNameTopo: [a b]"),
            id="an older message",
        ),
        pytest.param(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint.",
            (
                NoNode.NODES,
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint.",
            ),
            id="it fits no node",
        ),
        pytest.param(
            "no nodes available to schedule pods",
            (NoNode.NODES, "No nodes available to schedule pods"),
            id="there is no node",
        ),
        pytest.param(
            "GangGroup a gets rejected\n due to member Pod b",
            (NoNode.OTHER, "GangGroup a gets rejected due to member Pod b"),
            id="another pod of its gang",
        ),
    ],
)
def test_refusals_by_quota_and_by_nodes_differ(text: str, want: tuple[NoNode, str]) -> None:
    assert classify(text) == want


def test_a_long_message_is_cut() -> None:
    status = kept_status(pod(reason="Unschedulable", message="0/9 nodes are available: " * 50))
    assert isinstance(status, KeptPodStatus)
    assert status.unschedulable is not None
    assert len(status.unschedulable.message) == MAX_MESSAGE_CHARS


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(
            pod(reason="Unschedulable", message="x"),
            Unschedulable(SINCE, NoNode.OTHER, "X"),
            id="refused",
        ),
        pytest.param(
            pod(reason="SchedulerError"),
            Unschedulable(SINCE, NoNode.OTHER, "SchedulerError"),
            id="without words",
        ),
        pytest.param(
            pod(reason="Unschedulable", message="x", released=LATER),
            Unschedulable(LATER, NoNode.OTHER, "X"),
            id="held by a gate before: since its release",
        ),
        pytest.param(pod(reason="SchedulingGated"), None, id="held by a gate"),
        pytest.param(pod(status="True"), None, id="it has a node"),
        pytest.param(pod("Running", reason="Unschedulable"), None, id="it runs"),
    ],
)
def test_when_it_counts(of: ReadPod, want: Unschedulable | None) -> None:
    status = kept_status(of)
    assert isinstance(status, KeptPodStatus)
    assert status.unschedulable == want


def test_pods_without_a_message_share_their_status() -> None:
    assert kept_status(pod(status="True")) is kept_status(pod(status="True"))


def test_a_trimmed_status_stays_the_same() -> None:
    once = kept_status(pod(reason="Unschedulable", message="x"))
    again = msgspec.structs.replace(pod(), status=once)
    assert kept_status(again) is once
