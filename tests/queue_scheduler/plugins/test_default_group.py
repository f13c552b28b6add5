"""defaultgroup: one queue for all units, alone and before plugins that have quotas."""

from __future__ import annotations

from fractions import Fraction

from queue_scheduler.decision import Reason
from queue_scheduler.plugins.default_group import DefaultGroupPlugin
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from shared_api.testing.object_builders import elastic_quota_tree, resource_quota, tree_node
from tests.queue_scheduler.quota_source_kit import SourceEngine


def test_alone_it_lets_every_unit_start_in_one_queue() -> None:
    room = SourceEngine(DefaultGroupPlugin())
    room.add("u", queue="another")
    assert (room.reason("u"), room.refusal("u").other) == (Reason.NO_QUEUE, "default")
    room.add_queues("default")
    assert room.place("u") == ("", "default")
    assert room.start("default") == ["u"]


def test_before_another_it_chooses_the_queue_and_the_other_the_quota() -> None:
    room = SourceEngine(DefaultGroupPlugin(), ResourceQuotaPlugin())
    room.add_queues("default", "ns")
    room.add("u")
    assert room.reason("u") is Reason.NO_QUOTA
    room.apply(resource_quota("rq", namespace="ns", hard={"cpu": 1}))
    assert room.place("u") == ("ns/rq", "default")


def test_after_another_it_is_not_asked() -> None:
    room = SourceEngine(ResourceQuotaPlugin(), DefaultGroupPlugin())
    room.add_queues("default", "ns")
    room.apply(resource_quota("rq", namespace="ns", hard={"cpu": 1}))
    room.add("u")
    assert room.place("u") == ("ns/rq", "ns")


def test_units_of_two_quota_plugins_are_limited_each_by_its_own() -> None:
    room = SourceEngine(ElasticQuotaTreePlugin(Fraction(1)), ResourceQuotaPlugin())
    room.add_queues("default", "root-a")
    room.apply(resource_quota("rq", namespace="ns", hard={"cpu": 1}))
    room.apply(elastic_quota_tree(tree_node("r", tree_node("a", max={"cpu": 1}))))
    for name in ("first", "second"):
        room.add(f"{name}-of-node", "a")
        room.add(f"{name}-of-space")
    assert room.start("default", "root-a") == ["first-of-space", "first-of-node"]
    assert room.refusal("second-of-node").quota == "root/a"
    assert room.refusal("second-of-space").quota == "ns/rq"
    room.finish("first-of-node")
    assert room.start("default", "root-a") == ["second-of-node"]
