"""The judge of rounds, on histories written by hand: node of 10 CPUs, quotas a and b of max 10."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.judgement import Seen
from tests.koordinator.koordinator_world import pod_body, quota_body
from tests.koordinator.quota_shapes import QuotaShape
from tests.koordinator.round_judge import (
    Cluster,
    RoundHistory,
    Verdict,
    describe,
    judge,
    passes,
    quota_of,
    refusal_message,
)

Json = dict[str, Any]

REFUSED = "0/1 nodes are available: Insufficient quotas, quotaName: a, exceedDimensions: [cpu]"
BY_MIN = "0/1 nodes are available: Insufficient non-preemptible quotas, quotaName: a"


class Tape:
    """A history in the making: each write is a resourceVersion, a minute after the last."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.write("nodes", node_of(10))
        for name in "ab":
            self.write("elasticquotas", quota_body(name, {"cpu": 10}))

    def write(self, plural: str, body: Json, *, gone: bool = False, after: float = 60.0) -> None:
        """Add a version of an object, this many seconds after the last write."""
        meta = {"uid": f"{plural}/{body['metadata']['name']}", "namespace": "default"}
        whole = {**body, "metadata": {**body["metadata"], **meta}}
        at = self.seen[-1].seen_at + after if self.seen else 0.0
        self.seen.append(Seen(len(self.seen) + 1, plural, gone, whole, seen_at=at))

    def pod(self, name: str, quota: str, cpu: int, state: str, **more: Any) -> None:
        """Add a version of a pod: bound, pending, held, or refused with a message."""
        body = pod_body(name, quota, {"cpu": cpu}, gated=state == "held")
        body["spec"] |= {"nodeName": "node-0"} if state == "bound" else {}
        conditions = []
        if state not in {"bound", "pending", "held"}:
            conditions = [{"type": "PodScheduled", "status": "False", "message": state}]
        body["status"] = {"phase": "Pending", "conditions": conditions}
        self.write("pods", body, **more)

    def unit(self, pod: str, phase: str, **more: Any) -> None:
        """Add a version of the unit of a pod."""
        spec = {"consumerRef": {"uid": f"pods/{pod}", "name": pod, "kind": "Pod"}}
        body = {"metadata": {"name": pod}, "spec": spec, "status": {"phase": phase}}
        self.write("queueunits", body, **more)

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on all refusals."""
        return [each.verdict for each in judge(RoundHistory(self.seen))]

    def now(self) -> Cluster:
        """Return the cluster after all writes."""
        return RoundHistory(self.seen).at(len(self.seen))


def node_of(cpu: int) -> Json:
    """Return a node."""
    return {"metadata": {"name": "node-0"}, "status": {"allocatable": {"cpu": str(cpu)}}}


def released(tape: Tape, name: str, quota: str, cpu: int, state: str) -> None:
    """Add a pod whose unit was admitted before."""
    tape.pod(name, quota, cpu, "pending")
    tape.unit(name, "Dequeued")
    tape.pod(name, quota, cpu, state)


def tape_with_tree() -> Tape:
    """Return a tape with another tree of 4 CPUs, and a quota in it."""
    tape = Tape()
    total = {"cpu": 4000}
    root = QuotaShape("t", tree="t", is_parent=True, max={"cpu": 10**9}, min=total, total=total)
    inside = QuotaShape("inside", parent="t", tree="t", max={"cpu": 9000})
    for each in (root, inside):
        tape.write("elasticquotas", each.body())
    return tape


def test_a_release_beside_a_held_pod_is_not_explained() -> None:
    """The pod at the gate was there before: 5 of 10 are a's, of which 2 are used."""
    tape = Tape()
    released(tape, "two", "a", 2, "bound")
    tape.pod("nine", "b", 9, "held")
    released(tape, "six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.UNEXPLAINED]


def test_a_held_pod_that_came_after_the_release_explains_a_refusal() -> None:
    tape = Tape()
    released(tape, "two", "a", 2, "bound")
    tape.pod("six", "a", 6, "pending")
    tape.unit("six", "Dequeued")
    tape.pod("nine", "b", 9, "held")
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.EXPLAINED]


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(0.2, Verdict.EXPLAINED, id="the decision may not have seen the pod"),
        pytest.param(5.0, Verdict.UNEXPLAINED, id="it must have seen it"),
    ],
)
def test_what_a_decision_saw_is_told_by_time(seconds: float, want: Verdict) -> None:
    tape = Tape()
    released(tape, "two", "a", 2, "bound")
    tape.pod("six", "a", 6, "pending")
    tape.pod("nine", "b", 9, "held")
    tape.unit("six", "Dequeued", after=seconds)
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [want]


def test_a_pod_that_would_pass_has_lost_a_race() -> None:
    tape = Tape()
    released(tape, "six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.PASSING]


def test_a_max_lowered_after_the_release_explains_a_refusal() -> None:
    tape = Tape()
    tape.pod("six", "a", 6, "pending")
    tape.unit("six", "Dequeued")
    tape.write("elasticquotas", quota_body("a", {"cpu": 4}))
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.EXPLAINED]


def test_a_max_lowered_before_the_release_does_not() -> None:
    tape = Tape()
    tape.write("elasticquotas", quota_body("a", {"cpu": 4}))
    released(tape, "six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.UNEXPLAINED]


def test_a_label_moved_after_the_release_explains_a_refusal() -> None:
    tape = Tape()
    tape.write("elasticquotas", quota_body("a", {"cpu": 6}))
    released(tape, "four", "b", 4, "bound")
    tape.pod("six", "a", 6, "pending")
    tape.unit("six", "Dequeued")
    tape.pod("four", "a", 4, "bound")
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.EXPLAINED]


def test_a_label_moved_before_the_release_does_not() -> None:
    tape = Tape()
    tape.write("elasticquotas", quota_body("a", {"cpu": 6}))
    released(tape, "four", "b", 4, "bound")
    tape.pod("four", "a", 4, "bound")
    released(tape, "six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.UNEXPLAINED]


@pytest.mark.parametrize(
    ("resized_after", "want"),
    [
        pytest.param(True, Verdict.EXPLAINED, id="after the release"),
        pytest.param(False, Verdict.UNEXPLAINED, id="before it"),
    ],
)
def test_a_resize_after_the_release_explains_a_refusal(resized_after: bool, want: Verdict) -> None:
    tape = Tape()
    released(tape, "two", "a", 2, "bound")
    if not resized_after:
        tape.pod("two", "a", 5, "bound")
    tape.pod("six", "a", 6, "pending")
    tape.unit("six", "Dequeued")
    if resized_after:
        tape.pod("two", "a", 5, "bound")
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [want]


@pytest.mark.parametrize(
    ("cpu", "quota", "want"),
    [
        pytest.param(4, "inside", True, id="all that the tree has"),
        pytest.param(5, "inside", False, id="more than it has"),
        pytest.param(6, "a", True, id="what it leaves the default tree"),
        pytest.param(7, "a", False, id="more than it leaves"),
    ],
)
def test_each_tree_divides_its_own_total(cpu: int, quota: str, want: bool) -> None:
    tape = tape_with_tree()
    tape.pod("one", quota, cpu, "pending")
    now = tape.now()
    assert passes(now, now.pods["pods/one"]) is want
    lines = list(describe(now))
    assert "total of t {'cpu': 4000}" in lines
    assert any(line.startswith("t/inside: max {'cpu': 9000}") for line in lines)


def test_pods_of_one_tree_are_not_counted_in_another() -> None:
    tape = tape_with_tree()
    tape.pod("other", "a", 6, "bound")
    tape.pod("four", "inside", 4, "pending")
    now = tape.now()
    assert passes(now, now.pods["pods/four"])


def test_two_releases_that_do_not_fit_together_are_not_explained() -> None:
    tape = Tape()
    released(tape, "five", "a", 5, "bound")
    released(tape, "six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.UNEXPLAINED]


def test_a_release_that_restores_the_label_is_no_act_of_users() -> None:
    """A parked pod is charged to its own quota from its release on."""
    tape = Tape()
    tape.write("elasticquotas", quota_body("parked", {}))
    released(tape, "two", "a", 2, "bound")
    tape.pod("six", "parked", 6, "held")
    tape.unit("six", "Dequeued")
    tape.pod("nine", "b", 9, "held")
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.EXPLAINED]


def test_a_held_pod_that_was_admitted_later_is_no_act_of_users() -> None:
    tape = Tape()
    released(tape, "two", "a", 2, "bound")
    tape.pod("six", "a", 6, "pending")
    tape.unit("six", "Dequeued")
    tape.pod("nine", "b", 9, "held")
    tape.unit("nine", "Dequeued")
    tape.pod("six", "a", 6, REFUSED)
    assert tape.verdicts() == [Verdict.UNEXPLAINED]


def test_a_refusal_is_judged_once_and_only_for_released_pods() -> None:
    tape = Tape()
    tape.pod("foreign", "a", 2, REFUSED)
    released(tape, "five", "a", 5, "bound")
    released(tape, "six", "a", 6, REFUSED)
    tape.pod("six", "a", 6, REFUSED)
    tape.pod("six", "a", 6, "bound")
    assert tape.verdicts() == [Verdict.UNEXPLAINED]
    (refusal,) = judge(RoundHistory(tape.seen))
    assert (refusal.pod, refusal.quota, refusal.message) == ("six", "a", REFUSED)
    assert "foreign in a: {'cpu': '2'} pending, not released" in refusal.cluster


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(REFUSED, REFUSED, id="by the runtime of a quota"),
        pytest.param(BY_MIN, BY_MIN, id="by a quota's min"),
        pytest.param("0/1 nodes are available: 1 Insufficient cpu.", "", id="full nodes"),
    ],
)
def test_only_quotas_refuse(message: str, want: str) -> None:
    tape = Tape()
    tape.pod("six", "a", 6, message)
    assert refusal_message(tape.now().pods["pods/six"]) == want


def test_all_keys_of_min_are_compared_for_what_may_not_be_preempted() -> None:
    """3 CPUs run, min is 2: a pod that asks for memory alone is refused."""
    tape = Tape()
    maximum, minimum = {"cpu": "10", "memory": "4Gi"}, {"cpu": "2", "memory": "4Gi"}
    tape.write("elasticquotas", quota_body("a", maximum, minimum))
    never = {"quota.scheduling.koordinator.sh/preemptible": "false"}
    three = pod_body("three", "a", {"cpu": 3}, labels=never)
    three["spec"]["nodeName"] = "node-0"
    tape.write("pods", three)
    memory = pod_body("memory", "a", {"memory": "1Gi"}, labels=never)
    tape.write("pods", memory)
    now = tape.now()
    assert not passes(now, now.pods["pods/memory"])
    tape.write("elasticquotas", quota_body("a", maximum, {**minimum, "cpu": "3"}))
    now = tape.now()
    assert passes(now, now.pods["pods/memory"])


def test_a_pod_of_an_unknown_quota_is_the_default_quotas() -> None:
    tape = Tape()
    tape.pod("lost", "nowhere", 1, "pending")
    now = tape.now()
    assert quota_of(now, now.pods["pods/lost"]) == "koordinator-default-quota"


def test_what_has_gone_or_ended_is_not_counted() -> None:
    tape = Tape()
    released(tape, "five", "a", 5, "bound")
    tape.pod("six", "a", 6, "bound")
    tape.pod("six", "a", 6, "bound", gone=True)
    now = tape.now()
    ended = {**now.pods["pods/five"], "status": {"phase": "Succeeded"}}
    assert any(line.startswith("five in a") for line in describe(now))
    assert not any(line.startswith("six in a") for line in describe(now))
    after = now._replace(pods={"pods/five": ended})
    assert not any(line.startswith("five in a") for line in describe(after))
