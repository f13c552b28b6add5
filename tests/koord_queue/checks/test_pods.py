"""Pods of no quota without a node."""

from __future__ import annotations

from typing import Any

from koord_queue.checks.facts import Answer, Json
from tests.koord_queue.checks.healthy import ago, finding_texts, listed, named

LABEL = "quota.scheduling.koordinator.sh/name"


def pod(name: str, cpu: Any = 1, *, namespace: str = "ns", age: int = 300, quota: str = "") -> Json:
    found = named(name, namespace, spec={"containers": [{"resources": {"requests": {"cpu": cpu}}}]})
    found["metadata"] |= {"creationTimestamp": ago(seconds=age), "labels": {LABEL: quota}}
    return found


def test_the_largest_are_named() -> None:
    pods = listed(*(pod(f"p{cpu}", cpu) for cpu in (1, 20, 3, 500)))
    (line,) = finding_texts("pods", unbound_pods=pods)
    assert line == (
        "warning: 4 pods of no quota without a node: ns/p500 (cpu 500), ns/p20 (cpu 20), "
        "ns/p3 (cpu 3), ...; jobs may wait for them"
    )


def test_amounts_are_told_in_units_that_people_read() -> None:
    requests = {"cpu": "51692m", "memory": "222016770993"}
    large = pod("large")
    large["spec"] = {"containers": [{"resources": {"requests": requests}}]}
    (line,) = finding_texts("pods", unbound_pods=listed(large))
    assert "ns/large (cpu 51.7, memory 206.8Gi)" in line


def test_only_those_count_that_have_no_quota_and_wait_for_long() -> None:
    pods = [
        pod("labeled", quota="team-a"),
        pod("in-a-namespace-with-a-quota", namespace="team-a"),
        pod("young", age=30),
        pod("asks-for-nothing", 0),
        pod("unreadable", "many"),
    ]
    quotas = listed(named("team-a", "team-a"))
    want = ["ok: no pod of no quota is without a node for long"]
    assert finding_texts("pods", unbound_pods=listed(*pods), quotas=quotas) == want
    (line,) = finding_texts(
        "pods", unbound_pods=listed(pod("unknown", quota="gone")), quotas=quotas
    )
    assert "1 pod of no quota without a node: ns/unknown (cpu 1)" in line


def test_a_list_that_is_cut_says_so() -> None:
    cut = Answer({"items": [pod("p")], "metadata": {"continue": "more"}})
    (line,) = finding_texts("pods", unbound_pods=cut)
    assert line.startswith("warning: 1 pod or more of no quota")


def test_it_is_unknown_without_the_right_and_needless_without_elastic_quotas() -> None:
    (line,) = finding_texts("pods", unbound_pods=Answer(right="list pods"))
    assert line == "unknown: pods without a node: you may not list pods"
    assert finding_texts("pods", served={}) == ["ok: no ElasticQuota counts pods of no quota"]
