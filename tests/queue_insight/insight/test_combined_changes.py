"""Several changes together, where none starts a unit alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.insight.changes import find_changes
from queue_insight.insight.trials import MAX_TRIALS
from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import Edit
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import tree_node
from shared_api.well_known_labels import PREEMPTIBLE, STOP_POLICY
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.queue_insight.insight.changes_kit import (
    WALL,
    SmallCluster,
    build_node,
    names,
    of_kind,
    the,
)
from tests.queue_scheduler.quota_source_kit import SourceEngine, cpus, tree, tree_plugin


def child_and_parent() -> SmallCluster:
    """Return a quota `xa` of 6 cores below `xp` of 10, of which 3 and 7 are used."""
    cluster = SmallCluster(
        *(build_quota("xp", cpu=10), build_quota("xa", cpu=6, parent="xp"), build_queue("xa")),
        *(build_quota("xb", cpu=6, parent="xp"), build_queue("xb")),
    )
    cluster.run("old", "xa", cpu=3)
    cluster.run("other", "xb", cpu=4)
    return cluster


def starts_when_patched(cluster: SmallCluster, name: str) -> bool:
    """Return whether a unit starts when the patches of the combined change are applied."""
    (change,) = of_kind(cluster.changes(name), "several")
    engine = cluster.engine.fork()
    edits = [
        Edit(kind=each.kind, namespace=each.namespace, name=each.name, patch=each.patch)
        for each in change.patches
    ]
    apply_edits(engine, edits, WALL)
    found = find_changes(engine, f"ns/{name}", WALL)
    return found is not None and found.found[0].description.startswith("It starts by itself")


def test_the_maxes_of_child_and_parent_are_raised_together() -> None:
    cluster = child_and_parent()
    cluster.wait("new", "xa", cpu=5)
    change = the(cluster.changes("new"), "several")
    want = (
        "Raise the max of quota xa by 2 of cpu, to 8 of cpu, "
        "and the max of quota xp by 2 of cpu, to 12 of cpu."
    )
    assert (change.description, change.sufficient, change.minimal) == (want, True, True)
    assert [(each.name, each.patch) for each in change.patches] == [
        ("xa", {"spec": {"max": {"cpu": "8"}}}),
        ("xp", {"spec": {"max": {"cpu": "12"}}}),
    ]
    assert starts_when_patched(cluster, "new")


def test_what_is_not_enough_alone_is_left_out_where_the_combined_change_is_named() -> None:
    cluster = child_and_parent()
    cluster.wait("new", "xa", cpu=5)
    found = cluster.changes("new")
    assert found.found[0].kind == "several"
    assert of_kind(found, "quotaMax") == []
    assert not any(not each.sufficient for each in found.found)


def test_units_ahead_take_their_share_of_both() -> None:
    cluster = child_and_parent()
    cluster.wait("ahead", "xa", cpu=4, created=1)
    cluster.wait("new", "xa", cpu=5, created=2)
    change = the(cluster.changes("new"), "several")
    assert "xa by 6 of cpu, to 12 of cpu, and the max of quota xp by 6" in change.description
    assert (names(change.also_starts), change.minimal) == (["ahead"], True)


def test_a_limit_that_is_in_the_way_only_then_is_raised_as_well() -> None:
    cluster = SmallCluster(
        build_node("node", cpu=8), build_quota("a", cpu=4), mode=QuotaMode.RUNTIME
    )
    cluster.run("old", cpu=4)
    cluster.wait("new", cpu=4)
    cluster.apply(build_quota("a", cpu=4, guaranteed=4))
    assert the(cluster.changes("new"), "quotaMax").sufficient
    cluster.wait("more", cpu=4, created=9)
    change = the(cluster.changes("more"), "several")
    assert change.description == (
        "Raise the max of quota a by 8 of cpu, to 12 of cpu, and add 1 node like node."
    )
    assert change.sufficient


def test_min_and_max_are_raised_together() -> None:
    cluster = SmallCluster(
        *(build_quota("a", cpu=4, guaranteed=2), build_node("node", cpu=20)), mode=QuotaMode.RUNTIME
    )
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=3, labels={PREEMPTIBLE: "false"})
    change = the(cluster.changes("new"), "several")
    assert change.description == (
        "Raise the min of quota a by 1 of cpu, to 3 of cpu, "
        "and the max of quota a by 2 of cpu, to 6 of cpu."
    )
    (patch,) = change.patches
    assert patch.patch == {"spec": {"min": {"cpu": "3"}, "max": {"cpu": "6"}}}
    assert starts_when_patched(cluster, "new")


def test_a_min_is_not_raised_above_its_max() -> None:
    cluster = SmallCluster(build_quota("a", cpu=4, guaranteed=2), mode=QuotaMode.MIN)
    cluster.run("old", cpu=2)
    cluster.wait("new", cpu=3)
    change = the(cluster.changes("new"), "several")
    assert change.description == (
        "Raise the min of quota a by 3 of cpu, to 5 of cpu, "
        "and the max of quota a by 1 of cpu, to 5 of cpu."
    )
    assert (len(change.patches), change.minimal) == (1, True)


def test_several_resources_of_several_quotas() -> None:
    def limited(name: str, *, parent: str = "", **most: str) -> ElasticQuota:
        quota = build_quota(name, parent=parent)
        return replace(quota, spec=replace(quota.spec, max=dict(most)))

    gpu = {"nvidia.com/gpu": "2"}
    cluster = SmallCluster(
        *(limited("xp", cpu="4", memory="8Gi"), limited("xa", parent="xp", cpu="9", **gpu)),
        build_queue("xa"),
    )
    unit = build_unit("new", "xa")
    asked: dict[str, Any] = {"cpu": "6", "memory": "9Gi", "nvidia.com/gpu": "4"}
    assert cluster.apply(replace(unit, spec=replace(unit.spec, request=asked))) == []
    change = the(cluster.changes("new"), "several")
    assert change.minimal
    assert [each.patch for each in change.patches] == [
        {"spec": {"max": {"nvidia.com/gpu": "4"}}},
        {"spec": {"max": {"cpu": "6", "memory": "9Gi"}}},
    ]
    assert starts_when_patched(cluster, "new")


def test_a_stopped_queue_is_resumed_and_its_quota_raised() -> None:
    cluster = SmallCluster(build_queue("a", annotations={STOP_POLICY: "Hold"}))
    cluster.wait("new", cpu=5)
    change = the(cluster.changes("new"), "several")
    want = "Resume queue a, and raise the max of quota a by 1 of cpu, to 5 of cpu."
    assert (change.description, change.minimal) == (want, True)
    assert [each.kind for each in change.patches] == ["Queue", "ElasticQuota"]
    assert starts_when_patched(cluster, "new")


def test_nodes_of_one_tree_are_raised_in_one_object() -> None:
    room = SourceEngine(tree_plugin())
    room.apply(tree(tree_node("p", tree_node("x", **cpus(4)), **cpus(4)), **cpus(9)))
    room.add_queues("root-p-x")
    room.add("new", "x", cpu=6)
    found = find_changes(room.engine.fork(), "ns/new", WALL)
    assert found is not None
    change = the(found, "several")
    want = (
        "Raise the max of quota root/p/x by 2 of cpu, to 6 of cpu, "
        "and the max of quota root/p by 2 of cpu, to 6 of cpu."
    )
    assert (change.description, change.minimal, change.patches) == (want, True, ())


@pytest.mark.parametrize("cpu", [5, 9], ids=["both are short", "only the parent was"])
def test_a_limit_that_is_not_needed_is_not_raised(cpu: int) -> None:
    cluster = child_and_parent()
    cluster.apply(build_quota("xa", cpu=6 if cpu == 5 else 20, parent="xp"))
    cluster.wait("new", "xa", cpu=cpu)
    kinds = {each.kind.value for each in cluster.changes("new").found}
    assert ("several" in kinds, "quotaMax" in kinds) == (cpu == 5, cpu == 9)


def test_the_trials_of_an_answer_bound_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = child_and_parent()
    cluster.wait("new", "xa", cpu=5)
    monkeypatch.setattr("queue_insight.insight.trials.MAX_TRIALS", MAX_TRIALS // 20)
    found = cluster.changes("new")
    assert not found.are_complete
    assert of_kind(found, "several") == []
    assert [each.sufficient for each in of_kind(found, "quotaMax")] == [False, False]
