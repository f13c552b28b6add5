"""LocalQueues, flavors and priority classes."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.importing.kueue_bindings import plan_bindings, plan_flavors, plan_priorities
from koord_queue.importing.kueue_objects import read_objects
from tests.koord_queue.importing.kueue_bodies import (
    cluster_queue,
    flavor,
    local_queue,
    priority_class,
)

Json = dict[str, Any]


def test_a_namespace_lists_the_quotas_of_its_local_queues() -> None:
    objects = read_objects(
        [
            cluster_queue("team"),
            cluster_queue("other"),
            local_queue("a", "one", "team"),
            local_queue("a", "two", "other"),
            local_queue("b", "one", "team"),
            local_queue("b", "none", "gone"),
        ]
    )
    plan = plan_bindings(objects)
    key = "koord-queue/available-quota-in-namespace"
    listed = {
        each["metadata"]["name"]: each["metadata"]["annotations"][key] for each in plan.objects
    }
    assert listed == {"a": "other,team", "b": "team"}
    assert [each.target for each in plan.became] == [
        "Namespace a",
        "Namespace a",
        "",
        "Namespace b",
    ]
    assert [(each.source, each.field) for each in plan.lost] == [
        ("LocalQueue b/none", "spec.clusterQueue")
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"stopPolicy": "Hold"}, "spec.stopPolicy", id="it is stopped"),
        pytest.param({"fairSharing": {"weight": "2"}}, "spec.fairSharing", id="it has a weight"),
    ],
)
def test_a_local_queue_has_no_settings_of_its_own(spec: Json, field: str) -> None:
    objects = read_objects([cluster_queue("team"), local_queue("a", "one", "team", **spec)])
    assert [each.field for each in plan_bindings(objects).lost] == [field]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, [], id="an empty one loses nothing"),
        pytest.param(
            {"nodeLabels": {"type": "spot"}, "nodeTaints": [{"key": "spot"}]},
            ["spec.nodeLabels", "spec.nodeTaints"],
            id="nodes by label",
        ),
        pytest.param(
            {"nodeLabels": {"type": "spot"}, "tolerations": [{}], "topologyName": "racks"},
            ["spec.nodeLabels", "spec.tolerations", "spec.topologyName"],
            id="tolerations and a topology",
        ),
    ],
)
def test_what_a_flavor_adds_to_jobs_is_named(spec: Json, fields: list[str]) -> None:
    plan = plan_flavors(read_objects([flavor("spot", **spec)]))
    assert ([each.field for each in plan.lost], plan.objects) == (fields, ())


def test_a_priority_class_orders_and_evicts_no_pods() -> None:
    (body,) = plan_priorities(read_objects([priority_class("urgent", 100)])).objects
    got = (body["kind"], body["value"], body["preemptionPolicy"], body["description"])
    assert got == ("PriorityClass", 100, "Never", "of tests")


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        pytest.param("urgent", 1_000_000_001, "value", id="a value of the system's"),
        pytest.param("system-urgent", 1, "metadata.name", id="a name of the system's"),
    ],
)
def test_priorities_that_the_server_refuses(name: str, value: int, field: str) -> None:
    plan = plan_priorities(read_objects([priority_class(name, value)]))
    assert ([each.field for each in plan.lost], plan.objects) == ([field], ())
