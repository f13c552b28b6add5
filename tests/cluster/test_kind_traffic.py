"""The checks on many jobs of all kinds: planted faults are found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from shared_api.well_known_labels import ADMISSION_GATE
from tests.cluster.judgement import Seen
from tests.cluster.kind_table import BY_KEY
from tests.cluster.kind_traffic import Cache, OneJob, Traffic, find_excess
from tests.cluster.kind_world import JobLife, KindWorld
from tests.cluster.played_pods import OF

Json = dict[str, Any]


def unit(
    version: int,
    phase: str,
    *,
    uid: str = "a",
    cpu: str | int = "1",
    back: int = 0,
    gone: bool = False,
    consumer: str = "",
) -> Seen:
    """Return a unit of two pods of a job, some of which may be released."""
    container = {"resources": {"requests": {"cpu": cpu}}}
    pod_set = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}
    spec = {"consumerRef": {"name": consumer or uid}, "podSet": [pod_set]}
    status = {"phase": phase, "reclaimablePods": [{"name": "main", "count": back}]}
    body = {"metadata": {"uid": f"unit-{uid}"}, "spec": spec, "status": status}
    return Seen(version, "queueunits", gone, body)


def pod(version: int, phase: str, *, uid: str = "a", gone: bool = False, gate: str = "") -> Seen:
    container = {"resources": {"requests": {"cpu": "1500m"}}}
    meta = {"uid": f"pod-{uid}", "name": uid, "labels": {OF: uid[0]}}
    spec = {"containers": [container], "schedulingGates": [{"name": gate}] if gate else []}
    return Seen(version, "pods", gone, {"metadata": meta, "spec": spec, "status": {"phase": phase}})


def traffic() -> Traffic:
    """Return the traffic of two TFJobs in a quota of three CPUs."""
    made = Traffic(cast(KindWorld, SimpleNamespace()), {"tight": 3})
    row = BY_KEY["tfjob"]
    lives = [cast(JobLife, SimpleNamespace(name=name, uid=name, row=row)) for name in "ab"]
    made.jobs = [OneJob(life, "tight", is_evicted=False) for life in lives]
    return made


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        pytest.param(
            [unit(1, "Dequeued", cpu=1), unit(2, "Dequeued", uid="b")], [2], id="two units"
        ),
        pytest.param(
            [unit(1, "Running"), unit(2, "Succeed"), unit(3, "Running", uid="b")],
            [],
            id="one after the other",
        ),
        pytest.param(
            [unit(1, "Running"), unit(2, "Running", back=1), unit(3, "Dequeued", uid="b")],
            [],
            id="one has released a pod",
        ),
        pytest.param(
            [unit(3, "Running", uid="b"), unit(1, "Running"), unit(2, "Running", gone=True)],
            [],
            id="in the order of versions",
        ),
        pytest.param(
            [unit(1, "Enqueued", cpu="9"), unit(2, "TimeoutBackoff", cpu="9")],
            [],
            id="in the queue",
        ),
        pytest.param(
            [pod(1, "Pending", uid="a1"), pod(2, "Running", uid="a2"), pod(3, "Pending", uid="b1")],
            [3],
            id="three pods, the units unseen",
        ),
        pytest.param(
            [
                *(pod(1, "Running", uid="a1"), pod(2, "Running", uid="a2")),
                *(pod(3, "Failed", uid="a1"), pod(4, "Running", uid="a2", gone=True)),
                pod(5, "Running", uid="b1"),
            ],
            [],
            id="pods that end or are deleted",
        ),
        pytest.param(
            [
                *(pod(1, "Running", uid="a1"), pod(2, "Pending", uid="a2", gate=ADMISSION_GATE)),
                *(pod(3, "Running", uid="b1"), pod(4, "Pending", uid="b2", gate="example.com/x")),
            ],
            [4],
            id="pods that the queue holds, and others that wait",
        ),
        pytest.param(
            [
                unit(1, "Running", uid="a1", consumer="a-5d4-x"),
                unit(2, "Running", uid="a2", consumer="a-5d4-y"),
                unit(3, "Running", uid="c", consumer="c-0", cpu="1m"),
            ],
            [2, 3],
            id="units of parts of a job, and one of no job",
        ),
    ],
)
def test_an_exceeded_quota_is_found(seen: list[Seen], want: list[int]) -> None:
    found = [int(each.partition(":")[0]) for each in find_excess(seen, traffic())]
    assert found == want


def test_each_release_is_counted() -> None:
    made = traffic()
    switches = [("a", True), ("a", True), ("a", False), ("a", True), ("a", False), ("b", False)]
    seen = [
        Seen(version, "tfjob", is_gone=False, body=body_of(uid, suspend=suspend))
        for version, (uid, suspend) in enumerate(switches)
    ]
    seen.append(Seen(9, "job", is_gone=False, body=body_of("a", suspend=False)))
    made.place = cast(KindWorld, SimpleNamespace(observer=SimpleNamespace(seen=seen)))
    assert made.releases() == {"a": 2, "b": 0}


def test_each_released_pod_counts_once() -> None:
    pods = [
        *(pod(1, "Pending", uid="a1", gate=ADMISSION_GATE), pod(2, "Pending", uid="a1")),
        *(pod(3, "Running", uid="a1"), pod(4, "Running", uid="a2")),
        *(pod(5, "Pending", uid="b1", gate=ADMISSION_GATE), pod(6, "Running", uid="a1", gone=True)),
    ]
    cache = Cache(pods, "")
    cache.read()
    assert (cache.let_go["a"], cache.let_go["b"]) == (2, 0)
    assert [each["metadata"]["name"] for each in cache.pods_of("a")] == ["a2"]
    assert cache.running_pods["a"] == 1


def test_units_that_are_created_again_are_counted() -> None:
    made = traffic()
    seen = [
        *(unit(1, "Running", uid="1", consumer="a"), unit(2, "Running", uid="1", consumer="a")),
        *(unit(3, "Running", uid="2", consumer="b"), unit(4, "", uid="3", consumer="b")),
    ]
    made.place = cast(KindWorld, SimpleNamespace(observer=SimpleNamespace(seen=seen)))
    assert made.surplus_units() == {"b": ["None of None b"] * 2}


def body_of(uid: str, *, suspend: bool) -> Json:
    return {"metadata": {"uid": uid}, "spec": {"runPolicy": {"suspend": suspend}}}
