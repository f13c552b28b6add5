"""ElasticQuota (trees): what may not be preempted, by which label."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason
from queue_scheduler.framework.extension_points import Supposed
from queue_scheduler.framework.queue_unit_info import UnitDemand
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.testing.object_builders import tree_node
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    ENABLE_PREEMPTION,
    QUEUE_NAME,
    QUOTA_NAME,
    TREE_PREEMPTIBLE,
)
from tests.properties.engine_kit import WALL, build_pod, build_queue, build_quota, wall_time
from tests.queue_scheduler.quota_source_kit import (
    TREE_LABEL,
    SourceEngine,
    cpus,
    info,
    tree,
    tree_plugin,
    tree_world,
)

NON_PREEMPTIBLE = {"quota.scheduling.koordinator.sh/preemptible": "false"}


def test_non_preemptible_units_fit_min_at_every_level() -> None:
    of = tree(tree_node("g", tree_node("a", **cpus(9, minimum=4)), **cpus(9, minimum=3)), **cpus(9))
    room = tree_world(of, "root-g-a")
    room.add("firm", "a", cpu=4, labels=NON_PREEMPTIBLE)
    assert room.start("root-g-a") == []
    refusal = room.refusal("firm")
    assert (refusal.reason, refusal.quota, refusal.limit) == (
        Reason.NON_PREEMPTIBLE_OVER_MIN,
        "root/g",
        3000,
    )
    room.add("soft", "a", cpu=4)
    room.add("small", "a", cpu=3, labels=NON_PREEMPTIBLE)
    assert room.start("root-g-a") == ["small", "soft"]


@pytest.mark.parametrize("key", ["koordinator.sh", "alibabacloud.com"])
def test_both_labels_protect_pods_from_preemption(key: str) -> None:
    of = tree(tree_node("a", **cpus(9, minimum=3)))
    room = tree_world(of, "root-a")
    labels = {f"quota.scheduling.{key}/preemptible": "false"}
    room.add("soft", "a", cpu=2)
    room.add("firm", "a", cpu=2, labels=labels)
    assert room.start("root-a") == ["firm", "soft"]
    room.write("firm")
    room.add("late", "a", cpu=2, labels=labels)
    assert room.start("root-a") == []
    again = room.restarted(tree_plugin())
    again.apply(of)
    for each in (room, again):
        each.start("root-a")
        refusal = each.refusal("late")
        assert (refusal.reason, refusal.used) == (Reason.NON_PREEMPTIBLE_OVER_MIN, 2000)


@pytest.mark.parametrize("edited", ["false", "true"])
def test_the_label_of_an_admitted_unit_may_be_edited(edited: str) -> None:
    of = tree(tree_node("a", **cpus(9, minimum=4)))
    room = tree_world(of, "root-a")
    before = {"true": "false", "false": "true"}[edited]
    room.add("runs", "a", cpu=3, labels={TREE_PREEMPTIBLE: before})
    assert room.start("root-a") == ["runs"]
    room.write("runs")
    room.relabel("runs", preemptible=edited)
    again = room.restarted(tree_plugin())
    again.apply(of)
    for each in (room, again):
        each.add("firm", "a", cpu=2, labels={TREE_PREEMPTIBLE: "false"})
        assert each.start("root-a") == (["firm"] if edited == "true" else [])


def test_pods_of_an_ended_unit_are_non_preemptible_by_its_label_or_their_own() -> None:
    of = tree(tree_node("a", **cpus(9, minimum=4)))
    firm = {TREE_PREEMPTIBLE: "false"}
    room = tree_world(of, "root-a")
    room.add("ends", "a", cpu=2, labels=firm)
    assert room.start("root-a") == ["ends"]
    room.write("ends")
    pod = build_pod("of-it", cpu=2, unit="ns/ends")
    pod.metadata.labels.update({TREE_LABEL: "a", **firm})
    room.engine.on_pod(pod)
    room.finish("ends")
    again = room.restarted(tree_plugin())
    again.apply(of)
    again.engine.on_pod(pod)
    strays = tree_world(of, "root-a")
    strays.engine.on_pod(pod)
    for each in (room, again, strays):
        each.add("late", "a", cpu=3, labels=firm)
        assert each.start("root-a") == []
        refusal = each.refusal("late")
        assert (refusal.reason, refusal.used) == (Reason.NON_PREEMPTIBLE_OVER_MIN, 2000)


def test_suppositions_about_other_non_preemptible_units() -> None:
    room = tree_world(tree(tree_node("a", **cpus(9, minimum=4))), "root-a")
    room.add("u", "a", cpu=3, labels={TREE_PREEMPTIBLE: "false"})
    record = room.engine.record("ns/u")
    assert record is not None
    assert record.info is not None
    ask = room.engine.plugins.check_without
    assert ask(record.info, [], [Supposed("root/a", {"cpu": 2000})]) is None
    refusal = ask(record.info, [], [Supposed("root/a", {"cpu": 2000}, non_preemptible=True)])
    assert refusal is not None
    assert refusal.reason is Reason.NON_PREEMPTIBLE_OVER_MIN


def whom_it_would_evict(room: SourceEngine, name: str, queue_name: str) -> list[str]:
    """Return the units that a unit of a queue would evict."""
    record, queue = room.engine.record(f"ns/{name}"), room.engine.queues.find(queue_name)
    assert record is not None
    assert record.info is not None
    assert queue is not None
    found = room.engine.admission.would_evict(queue, record.info, wall_time(WALL))
    return [] if found is None else [each.unit for each in found.victims]


@pytest.mark.parametrize("label", [TREE_PREEMPTIBLE, *NON_PREEMPTIBLE])
def test_either_label_protects_a_unit_from_eviction_for_another(label: str) -> None:
    room = tree_world(tree(tree_node("a", **cpus(4, minimum=4))), "root-a")
    room.engine.on_queue(build_queue("root-a", annotations={ENABLE_PREEMPTION: "true"}))
    room.add("firm", "a", cpu=2, labels={label: "false"})
    room.add("soft", "a", cpu=2)
    assert set(room.start("root-a")) == {"firm", "soft"}
    for name in ("firm", "soft"):
        room.write(name)
    for cpu, victims in ((2, ["ns/soft"]), (3, [])):
        name = f"urgent-{cpu}"
        room.add(name, "a", cpu=cpu, priority=9)
        assert whom_it_would_evict(room, name, "root-a") == victims


@pytest.mark.parametrize(
    ("checks_hungry", "victims"), [(True, []), (False, ["ns/owner"])], ids=["hungry", "no hunger"]
)
def test_a_unit_that_would_reclaim_the_room_is_no_victim(
    *, checks_hungry: bool, victims: list[str]
) -> None:
    of = tree(tree_node("a", **cpus(4, minimum=2)), tree_node("b", **cpus(4)), **cpus(4))
    room = tree_world(of, checks_hungry=checks_hungry)
    said = {ENABLE_PREEMPTION: "true", AVAILABLE_QUOTA[0]: "*"}
    room.engine.on_queue(build_queue("q", annotations=said))
    named = {"annotations": {QUEUE_NAME: "q"}}
    room.add("owner", "a", cpu=2, **named)
    room.add("keep", "b", cpu=2, priority=9, **named)
    room.start("q")
    for name in ("owner", "keep"):
        room.write(name)
    room.add("high", "b", cpu=2, priority=5, **named)
    assert whom_it_would_evict(room, "high", "q") == victims


def test_a_resource_that_no_node_limits_does_not_make_an_owner_a_borrower() -> None:
    plugin = tree_plugin(checks_hungry=True)
    plugin.on_quota_source(tree(tree_node("a", **cpus(4, minimum=2)), **cpus(4)))
    for amounts in ({"cpu": 2000}, {"cpu": 2000, "memory": 1}):
        owner = replace(info("root/a", 0), demand=UnitDemand((), amounts))
        assert plugin.lent_to(owner, (), outranks=True) is None


def test_the_label_of_trees_has_no_effect_in_other_quotas() -> None:
    settings = QuotaSettings(mode=QuotaMode.MAX)
    room = SourceEngine(tree_plugin(), ElasticQuotaPlugin(settings))
    room.apply(tree(tree_node("a")))
    room.engine.on_quota(build_quota("flat", cpu=9, guaranteed=1))
    room.add_queues("flat")
    labels = {QUOTA_NAME: "flat", TREE_PREEMPTIBLE: "false"}
    room.add("u", cpu=3, labels=labels)
    assert room.start("flat") == ["u"]
