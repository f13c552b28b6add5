"""The chart in shadow mode: a program that reads, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from queue_controllers.extension_list import EXTENSIONS
from tests.charts.render import HelmFailed, of_kind, render
from tests.charts.values_table import VALUES

Json = dict[str, Any]

KINDS = [each.kind.key for each in EXTENSIONS if not each.kind.held_by_gates]
PODS = ["pod", "podgroup"]
EVERYTHING: Json = {
    **VALUES["a shadow"],
    "shadow": {"enabled": True, "kinds": [*KINDS, *PODS]},
    "metrics": {"secure": True},
}
READS = {"get", "list", "watch"}
LEASE = ["koord-queue-shadow"]


def test_it_may_only_read_but_for_its_own_lease() -> None:
    writes = []
    for one in render(EVERYTHING):
        for rule in one.get("rules", ()) if one["kind"] in {"Role", "ClusterRole"} else ():
            if not set(rule["verbs"]) <= READS:
                names = rule.get("resourceNames")
                writes.append((one["kind"], rule["resources"], names, rule["verbs"]))
    assert writes == [
        ("Role", ["leases"], None, ["create"]),
        ("Role", ["leases"], LEASE, ["get", "patch"]),
    ]


def test_it_may_read_each_kind_that_it_follows() -> None:
    role = of_kind(render(EVERYTHING), "ClusterRole")["koord-queue-shadow"]
    got = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if set(rule["verbs"]) >= READS
    }
    want = {(each.kind.group, each.kind.plural) for each in EXTENSIONS if each.kind.key in KINDS}
    assert want <= got
    groups = {
        group: rule["verbs"]
        for rule in role["rules"]
        if rule["resources"] == ["podgroups"]
        for group in rule["apiGroups"]
    }
    assert groups == {"scheduling.sigs.k8s.io": ["get"], "scheduling.x-k8s.io": ["get"]}


def test_pods_take_no_more_rights() -> None:
    def rules(*kinds: str) -> Json:
        shadow = {"enabled": True, "kinds": list(kinds)}
        found = of_kind(render({**EVERYTHING, "shadow": shadow}), "ClusterRole")
        rules: Json = found["koord-queue-shadow"]["rules"]
        return rules

    assert rules("job", "pod") == rules("job")


def test_nothing_is_installed_that_others_would_notice() -> None:
    kinds = {(one["kind"], one["metadata"]["name"]) for one in render(EVERYTHING)}
    assert kinds == {
        ("ClusterRole", "koord-queue-shadow"),
        ("ClusterRoleBinding", "koord-queue-shadow"),
        ("ConfigMap", "koord-queue"),
        ("Deployment", "koord-queue"),
        ("Role", "koord-queue-shadow"),
        ("RoleBinding", "koord-queue-shadow"),
        ("Service", "koord-queue-metrics"),
        ("ServiceAccount", "koord-queue"),
    }


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({"insight": {"enabled": True}}, "without insight.enabled", id="insight"),
        pytest.param(
            {"strictDequeue": {"enabled": True}}, "without strictDequeue.enabled", id="strict"
        ),
        pytest.param(
            {"shadow": {"enabled": True, "kinds": ["pod", "statefulset"]}},
            "statefulset is no kind",
            id="pods of a set",
        ),
        pytest.param(
            {
                "shadow": {"enabled": True, "record": {"existingClaim": "disk"}},
                "scheduler": {"replicas": 2},
            },
            "scheduler.replicas of 1",
            id="two pods with one record",
        ),
    ],
)
def test_what_a_shadow_cannot_do_is_refused(values: Json, want: str) -> None:
    with pytest.raises(HelmFailed, match=want):
        render({"shadow": {"enabled": True}, **values})
