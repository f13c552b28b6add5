"""The part that is kept of a scheduler's message about a pod without a node."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.jobframework.pod_scheduling import (
    MAX_MESSAGE_CHARS,
    KeptPodStatus,
    NoNodeReason,
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
            (NoNodeReason.QUOTA, "Insufficient quotas, quotaName: a, runtime: {cpu: 1}."),
            id="koord-scheduler refuses by the quota",
        ),
        pytest.param(
            "0/3 nodes are available: Insufficient non-preemptible quotas, quotaName: a.",
            (NoNodeReason.QUOTA, "Insufficient non-preemptible quotas, quotaName: a."),
            id="by its min",
        ),
        pytest.param(
            "Scheduling refused due to insufficient quotas, quotaNameTopo: [a b]",
            (NoNodeReason.QUOTA, "Insufficient quotas, quotaNameTopo: [a b]"),
            id="an older message",
        ),
        pytest.param(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint.",
            (
                NoNodeReason.NODES,
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint.",
            ),
            id="it fits no node",
        ),
        pytest.param(
            "no nodes available to schedule pods",
            (NoNodeReason.NODES, "No nodes available to schedule pods"),
            id="there is no node",
        ),
        pytest.param(
            "GangGroup a gets rejected\n due to member Pod b",
            (NoNodeReason.OTHER, "GangGroup a gets rejected due to member Pod b"),
            id="another pod of its gang",
        ),
    ],
)
def test_refusals_by_quota_and_by_nodes_differ(text: str, want: tuple[NoNodeReason, str]) -> None:
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
            Unschedulable(SINCE, NoNodeReason.OTHER, "X"),
            id="refused",
        ),
        pytest.param(
            pod(reason="SchedulerError"),
            Unschedulable(SINCE, NoNodeReason.OTHER, "SchedulerError"),
            id="without words",
        ),
        pytest.param(
            pod(reason="Unschedulable", message="x", released=LATER),
            Unschedulable(LATER, NoNodeReason.OTHER, "X"),
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


PREEMPTION = " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
LONG = "q" * 63
CHAIN = "[" + " ".join(f"level-{number}-{'q' * 30}" for number in range(4)) + "]"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "Insufficient quotas, quotaName: a, runtime: cpu:3,memory:20, used: cpu:1,memory:20,"
            f" pod's request: cpu:1,memory:20, exceedDimensions: [memory].{PREEMPTION}",
            "Insufficient quotas, quotaName: a, exceedDimensions: [memory], runtime: 20, used: 20,"
            " pod's request: 20",
            id="one resource: its amounts alone",
        ),
        pytest.param(
            "Insufficient quotas, quotaNameTopo: [tree-root q1], runtime: cpu:65,memory:98,gpu:1,"
            " used: cpu:57,memory:109,gpu:1, pod's request: cpu:20,memory:25,"
            " exceedDimensions: [cpu memory].",
            "Insufficient quotas, quotaNameTopo: [tree-root q1], exceedDimensions: [cpu memory],"
            " runtime: cpu:65,memory:98",
            id="two resources and a chain: as much as there is room for",
        ),
        pytest.param(
            "Insufficient non-preemptible quotas, quotaName: q0, min: cpu:1m,example.com/x:0,"
            " nonPreemptibleUsed: <empty>, pod's request: cpu:3m, exceedDimensions: [cpu].",
            "Insufficient non-preemptible quotas, quotaName: q0, exceedDimensions: [cpu], min: 1m,"
            " nonPreemptibleUsed: <empty>",
            id="by its min",
        ),
        pytest.param(
            f"Insufficient non-preemptible quotas, quotaName: {LONG}, min: nvidia.com/gpu:1,"
            " nonPreemptibleUsed: <empty>, pod's request: x, exceedDimensions: [nvidia.com/gpu].",
            f"Insufficient non-preemptible quotas, {LONG}: [nvidia.com/gpu]",
            id="the longest name of a quota that a label may have",
        ),
        pytest.param(
            f"Insufficient quotas, quotaNameTopo: {CHAIN}, runtime: cpu:1, used: cpu:1,"
            " pod's request: cpu:1, exceedDimensions: [cpu memory nvidia.com/gpu].",
            f"Insufficient quotas, {CHAIN[:67]}...: [cpu memory nvidia.com/gpu]",
            id="a long chain: the quota that is exceeded comes first in it",
        ),
    ],
)
def test_a_refusal_by_a_quota_keeps_the_quota_and_what_it_lacks(text: str, want: str) -> None:
    why, got = classify(f"0/7 nodes are available: {text}")
    assert (why, got) == (NoNodeReason.QUOTA, want)
    assert len(got) <= MAX_MESSAGE_CHARS


def test_a_refusal_that_lacks_nothing_is_cut_like_any_other() -> None:
    text = f"Insufficient quotas, quotaName: a, runtime: {'x' * 99}, exceedDimensions: []."
    assert classify(text)[1] == f"{text[:117]}..."


@pytest.mark.parametrize("of_quota", [1, 40, 63, 253, 2000])
@pytest.mark.parametrize("of_lacking", [1, 31, 120, 2000])
@pytest.mark.parametrize("what", ["quotas", "non-preemptible quotas"])
def test_no_names_exceed_the_limit(what: str, of_quota: int, of_lacking: int) -> None:
    quota, lacking = "q" * of_quota, "r" * of_lacking
    amounts = f"runtime: {lacking}:1, used: {lacking}:1, pod's request: {lacking}:1"
    text = f"Insufficient {what}, quotaName: {quota}, {amounts}, exceedDimensions: [{lacking}]."
    _, got = classify(text)
    assert len(got) <= MAX_MESSAGE_CHARS
    assert quota[:20] in got
    assert lacking[:20] in got


def test_pods_without_a_message_share_their_status() -> None:
    assert kept_status(pod(status="True")) is kept_status(pod(status="True"))


def test_a_trimmed_status_stays_the_same() -> None:
    once = kept_status(pod(reason="Unschedulable", message="x"))
    again = msgspec.structs.replace(pod(), status=once)
    assert kept_status(again) is once
