"""The total capacity of the nodes, as koord-scheduler counts it.

It is the sum of `status.allocatable` over all nodes, including cordoned and not-ready ones, without
those that were being deleted when they were first seen. The annotation
`node.koordinator.sh/reservation` is subtracted: its `resources`, with cpu replaced by the number of
`reservedCPUs` if there are any, floored at 0, and only for the apply policies "" and "Default".
Then deprecated names are replaced (`shared_api.resource_names`).

Source: koordinator, pkg/util/transformer/node_transformer.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from shared_api.objects.node import Node
from shared_api.objects.pod import ResourceQuantities
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, add, parse_amounts, subtract
from shared_api.resource_names import rename_deprecated
from shared_api.text_decoding import TextError, decode_json
from shared_api.well_known_labels import NODE_RESERVATION

MAX_RESERVED_CPUS: Final = 8192
"""Linux's own limit (CONFIG_NR_CPUS); a longer range is invalid."""


Shape: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts as sorted pairs."""


class _Reservation(msgspec.Struct, frozen=True, rename="camel"):
    resources: ResourceQuantities = {}
    reserved_cpus: str = msgspec.field(name="reservedCPUs", default="")
    apply_policy: str = ""


class NodeCapacity:
    """The sum over the nodes, kept up to date."""

    __slots__ = ("_nodes", "_shapes", "_total")

    def __init__(self) -> None:
        self._nodes: dict[str, Amounts] = {}
        self._total: Amounts = {}
        # How many nodes have equal amounts: of thousands, mostly few differ.
        self._shapes: Counter[Shape] = Counter()

    @property
    def total(self) -> Amounts | None:
        """The sum in base units; None if there is no node at all."""
        return self._total if self._nodes else None

    def on_node(self, node: Node) -> None:
        """Take a new or changed node."""
        name = node.metadata.name
        if name not in self._nodes and node.metadata.deletion_timestamp is not None:
            return
        amounts = allocatable(node)
        if self._nodes.get(name) == amounts:
            return
        self.on_node_gone(name)
        self._nodes[name] = amounts
        self._shapes[_shape_of(amounts)] += 1
        self._total = add(self._total, amounts)

    def on_node_gone(self, name: str) -> None:
        """Forget a node; it may be unknown."""
        known = self._nodes.pop(name, None)
        if known is not None:
            rest = subtract(self._total, known)
            self._total = {resource: amount for resource, amount in rest.items() if amount}
            shape = _shape_of(known)
            self._shapes[shape] -= 1
            if not self._shapes[shape]:
                del self._shapes[shape]

    def shapes(self) -> frozenset[Shape]:
        """Return the different amounts that nodes have."""
        return frozenset(self._shapes)

    def fits_a_node(self, request: Mapping[str, int]) -> bool:
        """Return whether an empty node has these amounts; True if there is no node at all."""
        requested = [(key, amount) for key, amount in request.items() if amount > 0]
        return not self._shapes or any(_has(dict(shape), requested) for shape in self._shapes)

    def fork(self) -> NodeCapacity:
        """Return an independent copy."""
        twin = NodeCapacity()
        twin._nodes = dict(self._nodes)
        twin._total = dict(self._total)
        twin._shapes = self._shapes.copy()
        return twin


def allocatable(node: Node) -> Amounts:
    """Return a node's allocatable amounts; one that cannot be read counts as absent."""
    try:
        amounts = parse_amounts(node.status.allocatable)
    except QuantityError:
        return {}
    reserved = _reserved(node.metadata.annotations.get(NODE_RESERVATION, ""))
    rest = {key: amounts[key] - reserved.get(key, 0) for key in amounts}
    return rename_deprecated({resource: max(0, amount) for resource, amount in rest.items()})


def _shape_of(amounts: Amounts) -> Shape:
    return tuple(sorted(amounts.items()))


def _has(amounts: Amounts, requested: Iterable[tuple[str, int]]) -> bool:
    return all(amount <= amounts.get(key, 0) for key, amount in requested)


def _reserved(text: str) -> Amounts:
    if not text:
        return {}
    try:
        reservation = decode_json(text, _Reservation)
        amounts = parse_amounts(reservation.resources)
        cpus = _count_cpus(reservation.reserved_cpus)
    except (TextError, QuantityError, ValueError):
        return {}
    if reservation.apply_policy not in {"", "Default"}:
        return {}
    return {**amounts, "cpu": cpus * 1000} if cpus else amounts


def _count_cpus(text: str) -> int:
    """Count the members of a cpuset list such as "0-3,8"."""
    count = 0
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, _, last = part.partition("-")
        size = int(last or first) - int(first) + 1
        if not 0 < size <= MAX_RESERVED_CPUS:
            raise ValueError(f"{part!r} is no range of CPUs")
        count += size
    return count
