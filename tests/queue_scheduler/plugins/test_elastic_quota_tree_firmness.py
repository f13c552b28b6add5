"""ElasticQuota (trees): what may not be preempted, by which label."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.framework.extension_points import Supposed
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.testing.object_builders import tree_node
from shared_api.well_known_labels import QUOTA_NAME, TREE_PREEMPTIBLE
from tests.properties.engine_kit import build_pod, build_quota
from tests.queue_scheduler.quota_source_kit import (
    TREE_LABEL,
    SourceEngine,
    cpus,
    tree,
)

PREEMPTIBLE_JOBS = "koord-queue/max-preempible-jobs"
LENDLIMIT = "alibabacloud.com/lendlimit"
NON_PREEMPTIBLE = {"quota.scheduling.koordinator.sh/preemptible": "false"}


def new_plugin(**arguments: Any) -> ElasticQuotaTreePlugin:
    return ElasticQuotaTreePlugin(arguments.pop("rate", Fraction(1)), **arguments)


def world(of: ElasticQuotaTree, *queues: str, **arguments: Any) -> SourceEngine:
    room = SourceEngine(new_plugin(**arguments))
    room.tell(of)
    room.add_queues(*queues)
    return room


def test_what_is_not_preemptible_fits_min_at_every_level() -> None:
    of = tree(tree_node("g", tree_node("a", **cpus(9, minimum=4)), **cpus(9, minimum=3)), **cpus(9))
    room = world(of, "root-g-a")
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
def test_both_labels_say_that_pods_may_not_be_preempted(key: str) -> None:
    of = tree(tree_node("a", **cpus(9, minimum=3)))
    room = world(of, "root-a")
    labels = {f"quota.scheduling.{key}/preemptible": "false"}
    room.add("soft", "a", cpu=2)
    room.add("firm", "a", cpu=2, labels=labels)
    assert room.start("root-a") == ["firm", "soft"]
    room.write("firm")
    room.add("late", "a", cpu=2, labels=labels)
    assert room.start("root-a") == []
    again = room.restarted(new_plugin())
    again.tell(of)
    for each in (room, again):
        each.start("root-a")
        refusal = each.refusal("late")
        assert (refusal.reason, refusal.used) == (Reason.NON_PREEMPTIBLE_OVER_MIN, 2000)


@pytest.mark.parametrize("edited", ["false", "true"])
def test_the_label_of_a_booked_unit_may_be_edited(edited: str) -> None:
    of = tree(tree_node("a", **cpus(9, minimum=4)))
    room = world(of, "root-a")
    before = {"true": "false", "false": "true"}[edited]
    room.add("runs", "a", cpu=3, labels={TREE_PREEMPTIBLE: before})
    assert room.start("root-a") == ["runs"]
    room.write("runs")
    room.relabel("runs", preemptible=edited)
    again = room.restarted(new_plugin())
    again.tell(of)
    for each in (room, again):
        each.add("firm", "a", cpu=2, labels={TREE_PREEMPTIBLE: "false"})
        assert each.start("root-a") == (["firm"] if edited == "true" else [])


def test_pods_of_an_ended_unit_may_not_be_preempted_by_its_label_or_their_own() -> None:
    of = tree(tree_node("a", **cpus(9, minimum=4)))
    firm = {TREE_PREEMPTIBLE: "false"}
    room = world(of, "root-a")
    room.add("ends", "a", cpu=2, labels=firm)
    assert room.start("root-a") == ["ends"]
    room.write("ends")
    pod = build_pod("of-it", cpu=2, unit="ns/ends")
    pod.metadata.labels.update({TREE_LABEL: "a", **firm})
    room.engine.on_pod(pod)
    room.finish("ends")
    again = room.restarted(new_plugin())
    again.tell(of)
    again.engine.on_pod(pod)
    strays = world(of, "root-a")
    strays.engine.on_pod(pod)
    for each in (room, again, strays):
        each.add("late", "a", cpu=3, labels=firm)
        assert each.start("root-a") == []
        refusal = each.refusal("late")
        assert (refusal.reason, refusal.used) == (Reason.NON_PREEMPTIBLE_OVER_MIN, 2000)


def test_what_would_be_with_others_that_may_not_be_preempted() -> None:
    room = world(tree(tree_node("a", **cpus(9, minimum=4))), "root-a")
    room.add("u", "a", cpu=3, labels={TREE_PREEMPTIBLE: "false"})
    record = room.engine.record("ns/u")
    assert record is not None
    assert record.info is not None
    ask = room.engine.plugins.check_without
    assert ask(record.info, [], [Supposed("root/a", {"cpu": 2000})]) is None
    refusal = ask(record.info, [], [Supposed("root/a", {"cpu": 2000}, non_preemptible=True)])
    assert refusal is not None
    assert refusal.reason is Reason.NON_PREEMPTIBLE_OVER_MIN


def test_the_label_of_trees_says_nothing_in_other_quotas() -> None:
    settings = QuotaSettings(mode=QuotaMode.MAX)
    room = SourceEngine(new_plugin(), ElasticQuotaPlugin(settings))
    room.tell(tree(tree_node("a")))
    room.engine.on_quota(build_quota("flat", cpu=9, guaranteed=1))
    room.add_queues("flat")
    labels = {QUOTA_NAME: "flat", TREE_PREEMPTIBLE: "false"}
    room.add("u", cpu=3, labels=labels)
    assert room.start("flat") == ["u"]
