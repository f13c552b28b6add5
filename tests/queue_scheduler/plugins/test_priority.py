"""Queues rank by their priority."""

from __future__ import annotations

from queue_scheduler.framework.extension_points import Forkable, MultiQueueSort, Plugin
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.priority import Priority
from shared_api.testing.object_builders import queue


def test_the_higher_priority_goes_first() -> None:
    runner = PluginRunner([Priority()])
    queues = [queue("none"), queue("low", priority=-5), queue("high", priority=7)]
    ordered = sorted(queues, key=runner.placing.rank)
    assert [each.metadata.name for each in ordered] == ["high", "none", "low"]


def test_it_implements_the_queue_order_and_can_be_copied() -> None:
    plugin: Plugin = Priority()
    assert isinstance(plugin, MultiQueueSort)
    assert isinstance(plugin, Forkable)
    assert plugin.fork() is plugin
