"""Facts about groups of a LeaderWorkerSet."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.leader_worker_set import (
    LeaderWorkerSetAdapter,
    LeaderWorkerSetObject,
)
from queue_controllers.job_families.gated_pods import PodGroup
from queue_controllers.jobframework.pod_template import ScheduledPod
from tests.queue_controllers.pod_kit import build_pod

SETS = LeaderWorkerSetAdapter()
PREFIX = "leaderworkerset.sigs.k8s.io"


def member(worker: int, *, size: str = "3", group: str = "1", **changes: Any) -> ScheduledPod:
    labels = {
        f"{PREFIX}/name": "llm",
        f"{PREFIX}/group-index": group,
        f"{PREFIX}/worker-index": str(worker),
    }
    annotations = {f"{PREFIX}/size": size}
    return build_pod(f"llm-{group}-{worker}", labels=labels, annotations=annotations, **changes)


def gather(*pods: ScheduledPod) -> PodGroup:
    return SETS.gather("llm-1", pods)


def with_set(group: PodGroup, size: int = 3, cpu: str = "4") -> PodGroup:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    template = {"size": size, "workerTemplate": {"spec": {"containers": [container]}}}
    body = {"spec": {"leaderWorkerTemplate": template}}
    return SETS.with_other(group, msgspec.convert(body, LeaderWorkerSetObject))


def counts(group: PodGroup) -> dict[str, int]:
    return {each.name: each.count for each in SETS.pod_sets(group)}


def test_each_group_is_a_job() -> None:
    assert SETS.group_of(member(0)) == SETS.group_of(member(2)) == "llm-1"
    assert SETS.group_of(member(0, group="2")) == "llm-2"
    assert SETS.group_of(build_pod("p")) == ""


def test_leader_and_workers() -> None:
    group = gather(member(0), member(1), member(2))
    assert SETS.why_unknown(group) == ""
    assert counts(group) == {"leader": 1, "workers": 2}
    assert [SETS.pod_set_of(each) for each in group.pods] == ["leader", "workers", "workers"]


def test_a_group_of_one_has_no_workers() -> None:
    assert counts(gather(member(0, size="1"))) == {"leader": 1}


def test_workers_that_follow_the_leader_are_read_from_the_set() -> None:
    group = gather(member(0))
    assert "no worker yet" in SETS.why_unknown(group)
    assert counts(group) == {}
    wanted = SETS.other_of(group)
    assert wanted is not None
    assert (wanted.plural, wanted.name, wanted.is_child) == ("leaderworkersets", "llm", False)
    whole = with_set(group)
    assert counts(whole) == {"leader": 1, "workers": 2}
    assert demand_of(SETS.pod_sets(whole)) == {"cpu": 9000}


def test_the_size_may_be_missing() -> None:
    group = gather(member(0, size=""), member(1, size=""))
    assert SETS.why_unknown(group) == "LeaderWorkerSet llm cannot be read"
    assert counts(with_set(group, size=5)) == {"leader": 1, "workers": 4}


def test_without_its_leader() -> None:
    assert SETS.why_unknown(gather(member(1), member(2))) == "its leader is not there"
    again = gather(member(1, gated=False, phase="Running"), member(2))
    assert counts(again) == {"leader": 1, "workers": 2}, "it is created again while the others run"


def test_a_hundred_groups_request_the_sum_of_their_pods() -> None:
    rng = random.Random(3)
    for _ in range(100):
        leader, worker, size = rng.randrange(1, 9), rng.randrange(1, 9), rng.randrange(1, 20)
        pods = [member(0, size=str(size), cpu=str(leader))]
        pods += [member(i, size=str(size), cpu=str(worker)) for i in range(1, size)]
        demand = demand_of(SETS.pod_sets(gather(*pods)))
        assert demand == {"cpu": 1000 * (leader + worker * (size - 1))}
