"""Facts about the pods of a StatefulSet."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.stateful_set import StatefulSetAdapter, StatefulSetObject
from queue_controllers.job_families.gated_pods import PodGroup
from queue_controllers.jobframework.pod_template import ScheduledPod
from tests.queue_controllers.pod_kit import build_pod

SETS = StatefulSetAdapter()
OWNER = ("apps/v1", "StatefulSet", "db")


def of_set(number: int, **changes: Any) -> ScheduledPod:
    return build_pod(f"db-{number}", owner=changes.pop("owner", OWNER), **changes)


def known(group: PodGroup, **spec: Any) -> PodGroup:
    return SETS.with_other(group, msgspec.convert({"spec": spec}, StatefulSetObject))


def test_whose_pods() -> None:
    assert SETS.group_of(of_set(0)) == "db"
    assert SETS.group_of(build_pod("p")) == ""
    assert SETS.group_of(of_set(0, owner=("apps.kruise.io/v1beta1", "StatefulSet", "db"))) == ""
    assert SETS.group_of(of_set(0, labels={"leaderworkerset.sigs.k8s.io/name": "l"})) == ""
    assert SETS.group_of(of_set(0, labels={"kueue.x-k8s.io/pod-group-name": "g"})) == ""


def test_its_uid_is_the_sets_and_pods_of_an_earlier_set_do_not_count() -> None:
    old = build_pod("db-1", owner=("apps/v1", "StatefulSet", "db-before"), second=1)
    group = SETS.gather("db", [old, of_set(0, second=2)])
    assert group.metadata.uid == "uid-db"
    assert [each.metadata.name for each in group.pods] == ["db-0"]


def test_the_set_has_the_number() -> None:
    group = SETS.gather("db", [of_set(0)])
    assert SETS.why_unknown(group) == "StatefulSet db cannot be read"
    assert SETS.pod_sets(group) == ()
    wanted = SETS.other_of(group)
    assert wanted is not None
    assert (wanted.group, wanted.plural, wanted.name, wanted.is_child) == (
        "apps",
        "statefulsets",
        "db",
        False,
    )
    whole = known(group, replicas=3)
    assert SETS.why_unknown(whole) == ""
    assert [(each.name, each.count) for each in SETS.pod_sets(whole)] == [("main", 3)]
    assert [each.count for each in SETS.pod_sets(known(group))] == [1], "the API's default"


def test_it_never_ends() -> None:
    group = SETS.gather("db", [of_set(0, gated=False, phase="Failed")])
    assert SETS.status_of(group).outcome is None


def test_a_hundred_sets_request_the_sum_of_their_pods() -> None:
    rng = random.Random(5)
    for _ in range(100):
        cpu, replicas = rng.randrange(1, 9), rng.randrange(0, 40)
        group = known(SETS.gather("db", [of_set(0, cpu=str(cpu))]), replicas=replicas)
        assert demand_of(SETS.pod_sets(group)).get("cpu", 0) == 1000 * cpu * replicas
