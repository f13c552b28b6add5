from __future__ import annotations

import json

import pytest
from msgspec import structs

from queue_scheduler.quota.capacity import NodeCapacity, allocatable
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.objects.node import Node, NodeStatus
from shared_api.well_known_labels import NODE_RESERVATION


def node(name: str = "n", reservation: object = None, **amounts: str) -> Node:
    annotations = {}
    if reservation is not None:
        text = reservation if isinstance(reservation, str) else json.dumps(reservation)
        annotations[NODE_RESERVATION] = text
    return Node(
        metadata=ObjectMeta(name=name, annotations=annotations),
        status=NodeStatus(allocatable=dict(amounts)),
    )


def test_without_nodes_there_is_no_total() -> None:
    capacity = NodeCapacity()
    capacity.on_node(node("a", cpu="4"))
    capacity.on_node_gone("a")
    assert (capacity.total, NodeCapacity().total) == (None, None)


def test_a_node_counts_until_it_is_deleted_but_not_if_first_seen_while_leaving() -> None:
    leaving = structs.replace(
        node("a", cpu="4"),
        metadata=ObjectMeta(name="a", deletion_timestamp=Timestamp("2026-11-01T10:00:00Z")),
    )
    capacity = NodeCapacity()
    capacity.on_node(leaving)
    assert capacity.total is None
    capacity.on_node(node("a", cpu="4"))
    capacity.on_node(leaving)
    assert capacity.total == {"cpu": 4000}


def test_deprecated_names_are_replaced_after_reservations_are_subtracted() -> None:
    amounts = {"kubernetes.io/gpu-core": "400", "koordinator.sh/batch-cpu": "9000"}
    reserved = {"resources": {"kubernetes.io/gpu-core": "100", "koordinator.sh/gpu-core": "7"}}
    want = {"koordinator.sh/gpu-core": 300, "kubernetes.io/batch-cpu": 9000}
    assert allocatable(node(reservation=reserved, **amounts)) == want


def test_the_total_follows_the_nodes() -> None:
    capacity = NodeCapacity()
    capacity.on_node(node("a", cpu="4", memory="1Gi"))
    capacity.on_node(node("b", cpu="500m"))
    assert capacity.total == {"cpu": 4500, "memory": 2**30}
    capacity.on_node(node("b", cpu="1"))
    capacity.on_node(node("b", cpu="1"))
    twin = capacity.fork()
    capacity.on_node_gone("a")
    capacity.on_node_gone("a")
    assert capacity.total == {"cpu": 1000}
    assert twin.total == {"cpu": 5000, "memory": 2**30}


@pytest.mark.parametrize(
    ("reservation", "want"),
    [
        pytest.param({"resources": {"cpu": "1"}}, 7000, id="amounts"),
        pytest.param({"reservedCPUs": "0-2,7"}, 4000, id="a set of CPUs"),
        pytest.param({"resources": {"cpu": "1"}, "reservedCPUs": "0,1"}, 6000, id="the set wins"),
        pytest.param({"resources": {"cpu": "9"}}, 0, id="never below zero"),
        pytest.param({"resources": {"cpu": "1"}, "applyPolicy": "Default"}, 7000, id="default"),
        pytest.param(
            {"resources": {"cpu": "1"}, "applyPolicy": "ReservedCPUsOnly"}, 8000, id="not applied"
        ),
        pytest.param({"reservedCPUs": "3-1"}, 8000, id="not a set of CPUs"),
        pytest.param("nonsense", 8000, id="unreadable"),
    ],
)
def test_reservations_are_subtracted(reservation: object, want: int) -> None:
    assert allocatable(node(reservation=reservation, cpu="8")) == {"cpu": want}


def test_an_unreadable_node_offers_nothing() -> None:
    assert allocatable(node(cpu="many")) == {}
