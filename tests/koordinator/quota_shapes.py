"""Random clusters for rounds: a node, quotas of every shape, and demands that fit into them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.koordinator.koordinator_world import quota_body

Json = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
GI: Final = 2**30
PREFIX: Final = "quota.scheduling.koordinator.sh/"
CPU_MILLI: Final = (100, 250, 333, 500, 1000, 1500, 2000, 3000)
WEIGHTS: Final = (1, 1, 2, 3, 7, 10)

Amounts = dict[str, int]
"""Milli-CPUs, bytes, devices."""


@dataclass
class QuotaShape:
    """One quota: amounts in base units, its parent ("": the root), its flags."""

    name: str
    parent: str = ""
    is_parent: bool = False
    lends: bool = True
    max: Amounts = field(default_factory=dict)
    min: Amounts = field(default_factory=dict)
    weight: Amounts = field(default_factory=dict)

    def body(self) -> Json:
        """Return the ElasticQuota."""
        labels = {}
        if self.parent:
            labels[f"{PREFIX}parent"] = self.parent
        if self.is_parent:
            labels[f"{PREFIX}is-parent"] = "true"
        if not self.lends:
            labels[f"{PREFIX}allow-lent-resource"] = "false"
        weight = json.dumps(texts_of(self.weight))
        annotations = {f"{PREFIX}shared-weight": weight} if self.weight else {}
        return quota_body(
            self.name,
            texts_of(self.max),
            texts_of(self.min),
            labels=labels,
            annotations=annotations,
        )


@dataclass
class ClusterShape:
    """A node, and all quotas, parents first."""

    node: Amounts
    quotas: list[QuotaShape]

    @property
    def leaves(self) -> list[QuotaShape]:
        """The quotas that pods may name."""
        return [each for each in self.quotas if not each.is_parent]

    def most(self, leaf: QuotaShape) -> Amounts:
        """Return the largest demand that can ever run in a quota."""
        parents = {each.name: each for each in self.quotas}
        found = {key: min(each, leaf.max.get(key, each)) for key, each in self.node.items()}
        at = leaf
        while at.parent:
            at = parents[at.parent]
            found = {key: min(each, at.max.get(key, each)) for key, each in found.items()}
        return found


def random_cluster(rng: random.Random) -> ClusterShape:
    """Return a cluster with a flat set of quotas, trees, or both."""
    node = {"cpu": 1000 * rng.randint(8, 20), "memory": GI * rng.randint(16, 48)}
    if rng.random() < 0.5:
        node[GPU] = rng.randint(2, 8)
    keys = [key for key in node if key == "cpu" or rng.random() < 0.8]
    quotas = []
    for number in range(rng.randint(0, 2)):
        quotas += _tree(rng, node, keys, f"p{number}")
    for number in range(rng.randint(0 if quotas else 2, 3)):
        quotas.append(_quota(rng, f"q{number}", {key: node[key] for key in keys}))
    return ClusterShape(node, quotas)


def _tree(rng: random.Random, node: Amounts, keys: list[str], name: str) -> list[QuotaShape]:
    top = _quota(rng, name, {key: node[key] for key in keys})
    top.is_parent = True
    found, left = [top], dict(top.min)
    for number in range(rng.randint(2, 3)):
        child = _quota(rng, f"{name}-{number}", top.max, left)
        child.parent = name
        left = {key: each - child.min.get(key, 0) for key, each in left.items()}
        found.append(child)
    return found


def _quota(rng: random.Random, name: str, most: Amounts, mins: Amounts | None = None) -> QuotaShape:
    """Return a quota; `mins`: what its parent's min has left for it, as the webhook demands."""
    maximum = {key: _part(rng, key, each, 0.4) for key, each in most.items()}
    minimum: Amounts = {}
    if rng.random() < 0.6:
        free = {key: each // 2 for key, each in maximum.items()} if mins is None else mins
        minimum = {key: min(_part(rng, key, each, 0.0), maximum[key]) for key, each in free.items()}
    weight = {}
    if rng.random() < 0.5:
        one = rng.choice(WEIGHTS)
        weight = {key: one * (1000 if key == "cpu" else 1) for key in maximum}
    return QuotaShape(name, lends=rng.random() > 0.2, max=maximum, min=minimum, weight=weight)


def _part(rng: random.Random, key: str, amount: int, least: float) -> int:
    """Return a part of an amount, at least this share, in whole CPUs, GiB or devices."""
    one = {"cpu": 1000, "memory": GI}.get(key, 1)
    units = amount // one
    low = min(max(int(units * least), 1 if least else 0), units)
    return rng.randint(low, units) * one


def random_request(rng: random.Random, most: Amounts) -> Amounts:
    """Return what a pod asks for, at most this."""
    request = {"cpu": rng.choice(CPU_MILLI)} if rng.random() < 0.9 else {}
    if rng.random() < 0.4 or not request:
        request["memory"] = rng.randint(1, 8) * GI // 2
    if GPU in most and rng.random() < 0.4:
        request[GPU] = rng.randint(1, 2)
    return {key: each for key, each in request.items() if 0 < each <= most.get(key, 0)}


def texts_of(amounts: Amounts) -> dict[str, str]:
    """Return quantities."""
    return {key: f"{each}m" if key == "cpu" else str(each) for key, each in amounts.items()}
