"""The rules of an ElasticQuotaTree, written again: slow, from scratch, to check by eye."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from shared_api.objects.elastic_quota_tree import (
    ElasticQuotaTree,
    ElasticQuotaTreeNode,
    ElasticQuotaTreeSpec,
)
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.well_known_labels import LEND_LIMIT, MAX_JOBS, MAX_PREEMPTIBLE_JOBS
from tests.properties.quota_cases import KEYS


class Booking(NamedTuple):
    """Amounts, including jobs, that are charged to a path."""

    path: str
    amounts: Mapping[str, int]
    non_preemptible: bool


class NaiveTree:
    """Decides whether a demand fits, given all bookings; a node is known by its path."""

    def __init__(self, tree: ElasticQuotaTree, rate: Fraction = Fraction(1)) -> None:
        self.rate = rate
        self.nodes: dict[str, ElasticQuotaTreeNode] = {}
        self._add("root", tree.spec.root)
        most = tree.metadata.labels.get(MAX_PREEMPTIBLE_JOBS)
        self.most_preemptible = None if most is None else int(most)

    def _add(self, path: str, node: ElasticQuotaTreeNode) -> None:
        self.nodes[path] = node
        for child in node.children:
            self._add(f"{path}/{child.name}", child)

    def fits(self, asked: Booking, booked: list[Booking]) -> bool:
        """Return whether no request is above a limit; deleted nodes hold nothing."""
        booked = [each for each in booked if each.path in self.nodes]
        for key, amount in asked.amounts.items():
            if amount and not self._fits_key(asked, key, amount, booked):
                return False
        return True

    def _fits_key(self, asked: Booking, key: str, amount: int, booked: list[Booking]) -> bool:
        for path in self.nodes:
            if not is_below(asked.path, path):
                continue
            limit = self._limit(path, key)
            if limit is not None and self.taken(path, asked.path, key, booked) + amount > limit:
                return False
            least = self._scaled(dict(self.nodes[path].min).get(key))
            np_used = sum(
                each.amounts.get(key, 0)
                for each in booked
                if each.non_preemptible and is_below(each.path, path)
            )
            if asked.non_preemptible and least is not None and np_used + amount > least:
                return False
        return True

    def _limit(self, path: str, key: str) -> int | None:
        if key == MAX_PREEMPTIBLE_JOBS:
            return self._scaled(self.most_preemptible) if path == "root" else None
        return self._scaled(dict(self.nodes[path].max).get(key))

    def _scaled(self, amount: object) -> int | None:
        return None if amount is None else int(Fraction(str(amount)) * self.rate)

    def taken(self, path: str, asking: str, key: str, booked: list[Booking]) -> int:
        """Return what counts at a node: unlent idle amounts count too, except for their owner."""
        taken = sum(each.amounts.get(key, 0) for each in booked if each.path == path)
        for child in self.nodes[path].children:
            below = f"{path}/{child.name}"
            used = self.taken(below, asking, key, booked)
            if not is_below(asking, below):
                used = max(used, self.kept(below, key))
            taken += used
        return taken

    def kept(self, path: str, key: str) -> int:
        """Return how much of its min a node never lends."""
        node = self.nodes[path]
        lent = json.loads(node.attributes.get(LEND_LIMIT, "{}"))
        return int(str(node.min.get(key, 0))) - lent[key] if key in lent else 0


def is_below(path: str, ancestor: str) -> bool:
    """Return whether a path is the ancestor's or below it."""
    return path == ancestor or path.startswith(f"{ancestor}/")


def random_tree(rng: random.Random) -> ElasticQuotaTree:
    """Return a tree of at most three levels, with every kind of limit."""

    def node(name: str, depth: int) -> ElasticQuotaTreeNode:
        maximum = {key: rng.randint(0, 30 // depth) for key in KEYS if rng.random() < 0.8}
        minimum = {key: rng.randint(0, 12 // depth) for key in KEYS if rng.random() < 0.7}
        if rng.random() < 0.4:
            maximum[MAX_JOBS] = rng.randint(0, 6)
        lent = {key: rng.randint(0, 6) for key in KEYS if rng.random() < 0.7}
        names = "abc"[: rng.randint(0 if depth > 1 else 1, 3)] if depth < 3 else ""
        return ElasticQuotaTreeNode(
            name=name,
            min=dict(minimum),
            max=dict(maximum),
            attributes={LEND_LIMIT: json.dumps(lent)} if rng.random() < 0.5 else {},
            children=tuple(node(child, depth + 1) for child in names),
        )

    labels = {MAX_PREEMPTIBLE_JOBS: str(rng.randint(0, 6))} if rng.random() < 0.3 else {}
    meta = ObjectMeta(name="tree", namespace="kube-system", uid=Uid("t"), labels=labels)
    return ElasticQuotaTree(metadata=meta, spec=ElasticQuotaTreeSpec(root=node("any", 1)))
