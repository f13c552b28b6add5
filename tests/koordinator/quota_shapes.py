"""Random clusters for rounds: a node, quotas of every shape, and demands that fit into them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, Final

from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.quota_spec import parse_quota
from queue_scheduler.quota.quota_tree import build_forest, tree_totals
from queue_scheduler.quota.runtime_division import DivisionRules
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import to_struct
from tests.cautious_runtimes import cautious_runtimes
from tests.koordinator.koordinator_world import quota_body

Json = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
GI: Final = 2**30
PREFIX: Final = "quota.scheduling.koordinator.sh/"
CPU_MILLI: Final = (100, 250, 333, 500, 1000, 1500, 2000, 3000)
WEIGHTS: Final = (0, 1, 1, 2, 3, 7, 10)
TREE_MAX: Final = 2**62 // 1000
"""Of the root quota of a tree, in CPUs, bytes and devices. Source: the profile controller."""
RULES: Final = DivisionRules(Rounding.HALF_UP)
"""How koord-scheduler 1.8 divides."""

Amounts = dict[str, int]
"""Milli-CPUs, bytes, devices."""


@dataclass
class QuotaShape:
    """One quota: amounts in base units, its parent ("": the root), its flags.

    `tree`: the id of the tree that it is in, "" the default one. `total`: what that tree has, of
    the tree's root quota alone.
    """

    name: str
    parent: str = ""
    tree: str = ""
    is_parent: bool = False
    ignores_default_tree: bool = False
    lends: bool = True
    max: Amounts = field(default_factory=dict)
    min: Amounts = field(default_factory=dict)
    weight: Amounts = field(default_factory=dict)
    total: Amounts | None = None

    def body(self) -> Json:
        """Return the ElasticQuota."""
        annotations = {}
        if self.weight:
            annotations[f"{PREFIX}shared-weight"] = json.dumps(texts_of(self.weight))
        if self.total is not None:
            annotations[f"{PREFIX}total-resource"] = json.dumps(texts_of(self.total))
        return quota_body(
            self.name,
            texts_of(self.max),
            texts_of(self.min),
            labels=self._labels(),
            annotations=annotations,
        )

    def _labels(self) -> dict[str, str]:
        said = {
            "parent": self.parent,
            "tree-id": self.tree,
            "is-parent": "true" if self.is_parent else "",
            "is-root": "true" if self.total is not None else "",
            "ignore-default-tree": "true" if self.ignores_default_tree else "",
            "allow-lent-resource": "" if self.lends else "false",
        }
        return {f"{PREFIX}{key}": value for key, value in said.items() if value}


@dataclass
class ClusterShape:
    """A node, and all quotas, parents first."""

    node: Amounts
    quotas: list[QuotaShape]

    @property
    def leaves(self) -> list[QuotaShape]:
        """The quotas that pods may name."""
        return [each for each in self.quotas if not each.is_parent]

    @property
    def has_trees(self) -> bool:
        """Whether there is another tree than the default one."""
        return any(each.tree for each in self.quotas)

    def most(self, leaf: QuotaShape) -> Amounts:
        """Return the largest demand that can ever run in a quota: its share if it alone asks."""
        runtime = self._runtime(leaf, leaf.max)
        found = {key: min(each, runtime.get(key, each)) for key, each in self.node.items()}
        return {key: max(each, 0) for key, each in found.items()}

    def runs_alone(self, leaf: QuotaShape, request: Amounts, pods: int) -> bool:
        """Return whether so many pods of a quota can run, and fewer, if no other quota asks.

        Without a weight, a quota gets a part of what its parent asks for: sometimes too little for
        any pod.
        """
        demands = [{key: n * each for key, each in request.items()} for n in range(1, pods + 1)]
        return all(self._is_covered(leaf, each) for each in demands)

    def _is_covered(self, leaf: QuotaShape, demand: Amounts) -> bool:
        asked = {key: each for key, each in demand.items() if key in leaf.max}
        runtime = self._runtime(leaf, asked)
        return all(each <= runtime[key] for key, each in asked.items())

    def _runtime(self, leaf: QuotaShape, asked: Amounts) -> Amounts:
        """Return what a quota gets if it alone asks."""
        specs = [parse_quota(to_struct(ElasticQuota, each.body())) for each in self.quotas]
        forest = build_forest(specs, multi_quota_tree=True)
        total = tree_totals(forest, self.node)[leaf.tree]
        tree = forest.trees[leaf.tree]
        return cautious_runtimes(tree, {leaf.name: asked}, total, RULES).runtime[leaf.name]


def random_cluster(rng: random.Random) -> ClusterShape:
    """Return a cluster with a flat set of quotas, some with children, in one tree or several."""
    node = {"cpu": 1000 * rng.randint(8, 20), "memory": GI * rng.randint(16, 48)}
    if rng.random() < 0.5:
        node[GPU] = rng.randint(2, 8)
    keys = [key for key in node if key == "cpu" or rng.random() < 0.8]
    whole, quotas = {key: node[key] for key in keys}, list[QuotaShape]()
    for number in range(rng.randint(0, 2)):
        parent = _quota(rng, f"p{number}", whole)
        quotas += _with_children(rng, parent, parent.max)
    for number in range(rng.randint(0 if quotas else 2, 3)):
        quotas.append(_quota(rng, f"q{number}", whole))
    for number in range(rng.choice((0, 0, 1, 2))):
        quotas += _tree(rng, f"t{number}", whole)
    return ClusterShape(node, quotas)


def _tree(rng: random.Random, name: str, node: Amounts) -> list[QuotaShape]:
    """Return another tree, with two fifths of a node at most, as the profile controller makes it.

    Its root guarantees all of it, and has no limit.
    """
    total = {key: _part(rng, key, each * 2 // 5, 0.5) for key, each in node.items()}
    root = QuotaShape(
        name, max={key: _base_units(key) * TREE_MAX for key in total}, min=dict(total)
    )
    root.total, root.tree, root.ignores_default_tree = total, f"tree-{name}", rng.random() < 0.2
    return _with_children(rng, root, total)


def _with_children(rng: random.Random, top: QuotaShape, most: Amounts) -> list[QuotaShape]:
    """Return a quota as a parent, and two or three children of which none has more than `most`."""
    top.is_parent = True
    found, left = [top], dict(top.min)
    for number in range(rng.randint(2, 3)):
        child = _quota(rng, f"{top.name}-{number}", most, left)
        child.parent, child.tree = top.name, top.tree
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
    weight = _weight(rng, maximum) if rng.random() < 0.5 else {}
    return QuotaShape(name, lends=rng.random() > 0.2, max=maximum, min=minimum, weight=weight)


def _weight(rng: random.Random, maximum: Amounts) -> Amounts:
    """Return one weight for all resources, or one for each; where all are 0, `max` counts."""
    drawn = dict.fromkeys(maximum, rng.choice(WEIGHTS))
    if rng.random() < 0.5:
        drawn = {key: rng.choice(WEIGHTS) for key in maximum}
    return {key: each * (1000 if key == "cpu" else 1) for key, each in drawn.items()}


def _part(rng: random.Random, key: str, amount: int, least: float) -> int:
    """Return a part of an amount, at least this share, in whole CPUs, GiB or devices."""
    one = _base_units(key) * (GI if key == "memory" else 1)
    units = amount // one
    low = min(max(int(units * least), 1 if least else 0), units)
    return rng.randint(low, units) * one


def _base_units(key: str) -> int:
    """Return the base units of one CPU, byte or device."""
    return 1000 if key == "cpu" else 1


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
