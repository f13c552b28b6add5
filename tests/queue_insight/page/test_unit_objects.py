"""Which objects belong to a unit, read without a long hold of the engine's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from queue_insight.page.unit_objects import BATCH, KnownPod, find_objects, locate_pods
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.engine.engine import Engine
from shared_api.client.resource_types import PODS
from shared_api.testing.object_builders import pod_body
from tests.queue_scheduler.shell_kit import ShellKit


def test_pods_are_those_that_name_the_unit_in_order(kit: ShellKit) -> None:
    kit.add_unit("a")
    for name, node in (("b", "n2"), ("a", "n1")):
        named = {"annotations": {"koord-queue/related-queueunit": "default/a"}}
        kit.direct.create(pod_body(name, metadata=named, quota="team", nodeName=node))
        kit.shared.apply(Engine.on_pod, kit.client.get(PODS, "default", name))
    found = find_objects(kit.shared, "default", "a")
    assert found is not None
    assert found.pods == (KnownPod("a", "n1"), KnownPod("b", "n2"))
    assert find_objects(kit.shared, "default", "none") is None


def test_the_nodes_of_many_pods_are_read_in_batches() -> None:
    batches: list[int] = []

    class Reader:
        def ask(self, question: Callable[..., Any], keys: list[str]) -> list[tuple[str, str]]:
            del question
            batches.append(len(keys))
            return [(key, "n1") for key in keys]

    keys = [f"default/p{n}" for n in range(2 * BATCH + 1)]
    pods = locate_pods(cast("EngineReader", Reader()), keys)
    assert [each.name for each in pods] == [f"p{n}" for n in range(2 * BATCH + 1)]
    assert batches == [BATCH, BATCH, 1]
