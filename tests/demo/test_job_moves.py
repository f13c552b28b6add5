"""The player's Job controller writes what the real one writes."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.demo.job_moves import build_pod, choose_node, plan_moves

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "job-abcde.json.gz"
NOW = "2026-11-01T10:00:00Z"

Json = dict[str, Any]


def job(*, suspend: bool = False, workers: int = 2, status: Json | None = None) -> Json:
    spec = {"suspend": suspend, "parallelism": workers, "completions": workers, "backoffLimit": 0}
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": "u1"},
        "spec": {**spec, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}},
        "status": status or {},
    }


def pod(name: str, phase: str = "Running", *, deleted: bool = False) -> Json:
    metadata = {"name": name, **({"deletionTimestamp": NOW} if deleted else {})}
    return {"metadata": metadata, "status": {"phase": phase}}


def merged(status: Json, patch: Json) -> Json:
    return {key: value for key, value in {**status, **patch}.items() if value is not None}


def said(status: Json) -> Json:
    """Return a status without times and zeros, some of which the real controller omits."""
    conditions = [(c["type"], c["status"], c["reason"]) for c in status.get("conditions", ())]
    counts = ("active", "ready", "succeeded", "terminating")
    return {
        "conditions": conditions,
        "started": "startTime" in status,
        "completed": "completionTime" in status,
        **{name: status.get(name, 0) for name in counts},
    }


def test_a_life_equals_the_recorded_one() -> None:
    recording = json.loads(gzip.decompress(RECORDING.read_bytes()))
    want: list[Json] = []
    for entry in recording["entries"]:
        body = entry.get("object") or entry
        if body.get("kind") == "Job" and body.get("status"):
            want.append(said(body["status"]))
    want = [one for one, _ in itertools.groupby(want)]

    a, b = pod("a"), pod("b")
    moments: list[tuple[bool, list[Json]]] = [
        (True, []),
        (False, [pod("a", "Pending"), pod("b", "Pending")]),
        (False, [a, b]),
        (True, [a, b]),
        (True, []),
        (False, [pod("c", "Pending"), pod("d", "Pending")]),
        (False, [pod("c"), pod("d")]),
        (False, [pod("c", "Succeeded"), pod("d", "Succeeded")]),
        (False, [pod("c", "Succeeded"), pod("d", "Succeeded")]),
    ]
    got: list[Json] = []
    status: Json = {}
    for suspend, pods in moments:
        status = merged(status, plan_moves(job(suspend=suspend, status=status), pods, NOW).status)
        got.append(said(status))
    assert got == want


@pytest.mark.parametrize(
    ("body", "pods", "create", "delete"),
    [
        pytest.param(job(suspend=True), [], 0, (), id="suspended: no pods"),
        pytest.param(job(), [], 2, (), id="resumed: all pods"),
        pytest.param(job(), [pod("a")], 1, (), id="one is missing"),
        pytest.param(job(), [pod("a", "Succeeded"), pod("b")], 0, (), id="one is done"),
        pytest.param(job(), [pod("a", deleted=True), pod("b")], 1, (), id="one is replaced"),
        pytest.param(job(suspend=True), [pod("a"), pod("b")], 0, ("a", "b"), id="suspended"),
        pytest.param(
            job(suspend=True), [pod("a", deleted=True)], 0, (), id="suspended: still terminating"
        ),
        pytest.param(job(), [pod("a", "Failed"), pod("b")], 0, ("b",), id="one failed for good"),
    ],
)
def test_pods_are_created_and_deleted(
    body: Json, pods: list[Json], create: int, delete: tuple[str, ...]
) -> None:
    moves = plan_moves(body, pods, NOW)
    assert (moves.create, moves.delete) == (create, delete)


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_nothing_happens_after_the_end(end: str) -> None:
    ended = job(status={"conditions": [{"type": end, "status": "True"}]})
    assert plan_moves(ended, [], NOW) == plan_moves(ended, [pod("a")], NOW)
    assert not plan_moves(ended, [], NOW).status


@pytest.mark.parametrize(
    ("announced", "said"), [("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")]
)
def test_an_announced_end_follows_even_if_suspended_and_without_pods(
    announced: str, said: str
) -> None:
    status = {"conditions": [{"type": announced, "status": "True"}]}
    moves = plan_moves(job(suspend=True, status=status), [], NOW)
    assert [each["type"] for each in moves.status["conditions"]] == [announced, said]


def test_counted_pods_stay_counted_when_their_objects_are_gone() -> None:
    status = merged({}, plan_moves(job(), [pod("a", "Succeeded"), pod("b")], NOW).status)
    assert status["succeeded"] == 1
    moves = plan_moves(job(status=status), [pod("b")], NOW)
    assert (moves.create, moves.delete, moves.status) == (0, (), {})


def test_an_unchanged_status_is_not_written_again() -> None:
    pods = [pod("a"), pod("b")]
    status = merged({}, plan_moves(job(), pods, NOW).status)
    assert plan_moves(job(status=status), pods, "2026-11-01T10:00:09Z").status == {}


def test_a_pod_belongs_to_its_job() -> None:
    made = build_pod(job(), "train-x", "node-1")
    assert made["metadata"]["labels"] == {"a": "b"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert made["spec"] == {"x": 1, "nodeName": "node-1"}


@pytest.mark.parametrize(
    ("free", "want"),
    [
        pytest.param({"n1": {"gpu": 8}, "n2": {"gpu": 3}}, "n2", id="where the least is left"),
        pytest.param({"n1": {"gpu": 1}, "n2": {"gpu": 3}}, "n2", id="where it fits"),
        pytest.param({"n1": {"gpu": 1}}, None, id="nowhere"),
        pytest.param({"n1": {"cpu": 9}}, None, id="a missing resource"),
    ],
)
def test_nodes_are_chosen(free: dict[str, dict[str, int]], want: str | None) -> None:
    assert choose_node(free, {"gpu": 2}) == want
