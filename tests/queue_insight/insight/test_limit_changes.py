"""By how much a limit must be raised, so that a unit starts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.insight import raise_search
from queue_scheduler.quota.quota_settings import QuotaMode
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.queue_insight.insight.changes_kit import SmallCluster, build_node, names, the


def test_the_max_is_raised_by_what_is_missing() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2)
    change = the(cluster.changes("new"), "quotaMax")
    assert change.description == "Raise the max of quota a by 1 of cpu, to 5 of cpu."
    (patch,) = change.patches
    assert (patch.api_version, patch.kind) == ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota")
    assert (patch.namespace, patch.name) == ("kq", "a")
    assert patch.patch == {"spec": {"max": {"cpu": "5"}}}
    assert change.minimal


def test_units_ahead_take_their_share_first() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=4)
    for number in range(6):
        cluster.wait(f"ahead-{number}", cpu=2, created=number)
    cluster.wait("new", cpu=3, created=9)
    change = the(cluster.changes("new"), "quotaMax")
    assert change.description == "Raise the max of quota a by 15 of cpu, to 19 of cpu."
    assert names(change.also_starts) == [f"ahead-{number}" for number in range(6)]
    assert change.minimal


def test_a_unit_behind_a_refused_one_needs_room_for_both() -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, created=1)
    cluster.wait("new", cpu=1, created=2)
    change = the(cluster.changes("new"), "quotaMax")
    assert change.description == "Raise the max of quota a by 4 of cpu, to 8 of cpu."
    assert names(change.also_starts) == ["head"]


def test_a_limit_that_is_not_the_only_one_does_not_suffice_alone() -> None:
    # No node has a GPU, so none can be added that is like it.
    cluster = SmallCluster(build_node("node", cpu=9), mode=QuotaMode.RUNTIME)
    unit = build_unit("new", "a")
    asked: dict[str, Any] = {"cpu": 5, "nvidia.com/gpu": 1}
    limits: dict[str, Any] = {"cpu": 4, "nvidia.com/gpu": 1}
    quota = build_quota("a")
    cluster.apply(replace(quota, spec=replace(quota.spec, max=limits)))
    assert cluster.apply(replace(unit, spec=replace(unit.spec, request=asked))) == []
    change = the(cluster.changes("new"), "quotaMax")
    want = "Raising the max of quota a alone does not start it."
    assert (change.description, change.sufficient, change.verified) == (want, False, True)
    assert change.patches == ()


def test_it_is_not_said_that_a_raise_does_not_help_where_too_many_are_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raise_search, "MAX_STEPS", 1)
    cluster = SmallCluster()
    cluster.run("old", cpu=4)
    for number in range(6):
        cluster.wait(f"ahead-{number}", cpu=2, created=number)
    cluster.wait("new", cpu=3, created=9)
    change = the(cluster.changes("new"), "quotaMax")
    assert change.description.startswith("It is not known whether raising the max of quota a alone")
    assert (change.sufficient, change.verified) == (False, False)


def test_a_min_is_raised_where_mins_are_the_limits() -> None:
    cluster = SmallCluster(build_quota("a", cpu=9, guaranteed=2), mode=QuotaMode.MIN)
    cluster.run("old", cpu=2)
    cluster.wait("new", cpu=3)
    change = the(cluster.changes("new"), "quotaMin")
    assert change.description == "Raise the min of quota a by 3 of cpu, to 5 of cpu."
    assert change.patches[0].patch == {"spec": {"min": {"cpu": "5"}}}


@pytest.mark.parametrize(
    ("asked", "want"),
    [(3, "Add 1 node like large."), (9, "Add 3 nodes like large.")],
    ids=["one", "several"],
)
def test_nodes_are_added_where_the_total_is_the_limit(asked: int, want: str) -> None:
    nodes = (build_node("small", cpu=1), build_node("large", cpu=3))
    cluster = SmallCluster(build_quota("a", cpu=40), *nodes, mode=QuotaMode.RUNTIME)
    cluster.run("old", cpu=4)
    cluster.wait("new", cpu=asked)
    change = the(cluster.changes("new"), "nodes")
    assert (change.description, change.sufficient, change.minimal) == (want, True, True)
    assert change.patches == ()
