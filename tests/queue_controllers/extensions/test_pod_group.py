"""Facts about groups of pods that start together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.pod_group import (
    PodGroupAdapter,
    PodGroupObject,
    PodGroupSpec,
)
from queue_controllers.jobframework.generic_job import Outcome
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.objects.meta import ObjectMeta
from tests.queue_controllers.pod_kit import build_pod

GROUPS = PodGroupAdapter()
NAME = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"


def member(name: str, total: int = 3, **changes: Any) -> ScheduledPod:
    return build_pod(name, labels={NAME: "g"}, annotations={COUNT: str(total)}, **changes)


def counts(*pods: ScheduledPod) -> list[int]:
    return [each.count for each in GROUPS.pod_sets(GROUPS.gather("g", pods))]


def outcome(*pods: ScheduledPod) -> Outcome | None:
    return GROUPS.status_of(GROUPS.gather("g", pods)).outcome


def test_its_name() -> None:
    assert GROUPS.group_of(member("a")) == "g"
    assert GROUPS.group_of(build_pod("a")) == ""
    quota = {NAME: "g", "koord-queue/queue-name": ""}
    assert GROUPS.group_of(build_pod("a", gated=False, labels=quota)) == ""


class TestHowMany:
    def test_until_all_exist_it_is_unknown(self) -> None:
        group = GROUPS.gather("g", [member("a"), member("b")])
        assert GROUPS.why_unknown(group) == "2 of its 3 pods are there"
        assert GROUPS.pod_sets(group) == ()
        assert GROUPS.other_of(group) is None

    def test_one_that_ran_is_known(self) -> None:
        group = GROUPS.gather("g", [member("a"), member("b", gated=False, phase="Running")])
        assert GROUPS.why_unknown(group) == ""
        assert counts(*group.pods) == [3]

    def test_without_a_number(self) -> None:
        group = GROUPS.gather("g", [build_pod("a", labels={NAME: "g"})])
        assert GROUPS.why_unknown(group).startswith("its pods do not say how many")

    @pytest.mark.parametrize(
        ("label", "api"),
        [
            ("pod-group.scheduling.sigs.k8s.io", "scheduling.sigs.k8s.io"),
            ("scheduling.x-k8s.io/pod-group", "scheduling.x-k8s.io"),
        ],
    )
    def test_the_number_of_a_pod_group(self, label: str, api: str) -> None:
        group = GROUPS.gather("g", [build_pod("a", labels={label: "g"})])
        assert GROUPS.why_unknown(group) == f"there is no PodGroup g ({api})"
        wanted = GROUPS.other_of(group)
        assert wanted is not None
        assert (wanted.group, wanted.plural, wanted.name) == (api, "podgroups", "g")
        assert not wanted.is_child
        found = PodGroupObject(metadata=ObjectMeta(name="g"), spec=PodGroupSpec(min_member=2))
        assert GROUPS.why_unknown(GROUPS.with_other(group, found)) == "1 of its 2 pods are there"


class TestPodSets:
    def test_one_per_shape(self) -> None:
        pods = [member("a"), member("b", cpu="2"), member("c", cpu="2")]
        assert sorted(counts(*pods)) == [1, 2]
        names = [each.name for each in GROUPS.pod_sets(GROUPS.gather("g", pods))]
        assert names == sorted(names)
        assert GROUPS.pod_set_of(pods[1]) in names

    def test_succeeded_pods_are_not_needed(self) -> None:
        done = member("a", gated=False, phase="Succeeded")
        assert counts(done, member("b"), member("c")) == [2]

    def test_failed_pods_are_missing_until_they_are_replaced(self) -> None:
        failed = member("a", gated=False, phase="Failed")
        others = [member("b", gated=False, phase="Running"), member("c", gated=False)]
        assert counts(failed, *others) == [3]
        assert counts(failed, *others, member("d")) == [3]

    def test_more_than_the_number_count(self) -> None:
        assert counts(*(member(name) for name in "abcd")) == [4]


class TestHowItEnds:
    def test_all_have_succeeded(self) -> None:
        done = [member(name, gated=False, phase="Succeeded") for name in "abc"]
        assert outcome(*done) == Outcome(succeeded=True)
        assert outcome(*done[:2]) is None

    def test_one_lives(self) -> None:
        done = [member(name, gated=False, phase="Succeeded") for name in "abc"]
        assert outcome(*done, member("d")) is None

    def test_some_have_failed(self) -> None:
        pods = [member(name, gated=False, phase="Succeeded") for name in "ab"]
        failed = member("c", gated=False, phase="Failed")
        assert outcome(*pods, failed) == Outcome(succeeded=False, message="1 of its pods failed")
        again = member("d", gated=False, phase="Succeeded")
        assert outcome(*pods, failed, again) == Outcome(succeeded=True)


def test_a_hundred_groups_request_the_sum_of_their_pods() -> None:
    rng = random.Random(11)
    for _ in range(100):
        cpus = [rng.choice([1, 2, 3]) for _ in range(rng.randrange(1, 12))]
        pods = [member(f"p{i}", len(cpus), cpu=str(cpu)) for i, cpu in enumerate(cpus)]
        demand = demand_of(GROUPS.pod_sets(GROUPS.gather("g", pods)))
        assert demand == {"cpu": 1000 * sum(cpus)}
