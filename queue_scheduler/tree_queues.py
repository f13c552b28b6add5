"""A Queue for every node of the ElasticQuotaTree, and the queue `default` (`QueueSource`).

Nodes are linked to queues by an annotation, `koord-queue/quota-fullname`, which is kept in step; so
is the policy where the environment says one, as upstream's does. The rest is the queue's users'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from queue_scheduler.queue_reconciler import (
    DEFAULT_POLICY,
    CreateQueue,
    PatchQueue,
    QueueAction,
    build_queue,
    decide_deletion,
    is_of_node,
    is_ours,
)
from queue_scheduler.quota.node_queues import name_queues
from queue_scheduler.quota.tree_specs import parse_tree
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    DEFAULT_QUEUE,
    PARENT_QUOTA_FULLNAME,
    QUOTA_FULLNAME,
    ROOT_QUOTA,
)


def annotations_of(tree: ElasticQuotaTree) -> dict[str, dict[str, str]]:
    """Return the queues of a tree by name, each with the annotations that link it."""
    parents = {spec.name: spec.parent for spec in parse_tree(tree)}
    found: dict[str, dict[str, str]] = {}
    for path, name in name_queues(parents).items():
        found[name] = {QUOTA_FULLNAME: path}
        if parents[path] != ROOT_QUOTA:
            found[name][PARENT_QUOTA_FULLNAME] = parents[path]
    return found


class TreeQueues:
    """What the queues of nodes have to be.

    Args:
        trees: The cache; of several the oldest counts.
        are_trees_known: Whether it is complete.
        policy: What all these queues have to have; "": `Priority` at first, then what people want.
    """

    def __init__(
        self,
        trees: IndexedStore[ElasticQuotaTree],
        are_trees_known: Callable[[], bool],
        policy: str,
    ) -> None:
        self._trees = trees
        self._are_trees_known = are_trees_known
        self._policy = policy
        # Only the reconciler's thread looks: (tree, what follows from it).
        self._wanted: tuple[ElasticQuotaTree | None, Mapping[str, Mapping[str, str]]] = (None, {})

    def on_tree(
        self, look_at: Callable[[str], None]
    ) -> Callable[[ElasticQuotaTree | None, ElasticQuotaTree | None], None]:
        """Return a handler that tells the names of queues which may have to change."""

        def on_tree(old: ElasticQuotaTree | None, new: ElasticQuotaTree | None) -> None:
            # Of all trees: another one may count now.
            for tree in (old, new, *self._trees.list()):
                for name in () if tree is None else annotations_of(tree):
                    look_at(name)

        return on_tree

    def wants(self, name: str) -> bool:
        """Say whether a node's queue has that name."""
        return name in self._queues()

    def has_made(self, queue: Queue) -> bool:
        """Say whether a queue was made for a node."""
        return is_of_node(queue)

    def is_complete(self) -> bool:
        """Say whether all trees are known."""
        return self._are_trees_known()

    def decide(self, name: str, namespace: str, queue: Queue | None) -> QueueAction:
        """Make it, keep its annotations in step, delete it with its node."""
        annotations = self._queues().get(name)
        if annotations is None:
            return None if queue is None else decide_deletion(queue)
        if queue is None:
            spec = {"queuePolicy": self._policy or DEFAULT_POLICY}
            return CreateQueue(build_queue(name, namespace, spec=spec, annotations=annotations))
        return self._decide_patch(annotations, queue) if is_ours(queue) else None

    def _decide_patch(self, annotations: Mapping[str, str], queue: Queue) -> PatchQueue | None:
        has = queue.metadata.annotations
        differing = {
            key: annotations.get(key)
            for key in (QUOTA_FULLNAME, PARENT_QUOTA_FULLNAME)
            if annotations.get(key) != has.get(key)
        }
        body: dict[str, Any] = {}
        if self._policy and self._policy != queue.spec.queue_policy:
            body["spec"] = {"queuePolicy": self._policy}
        if not (body or differing):
            return None
        metadata: dict[str, Any] = {"uid": queue.metadata.uid}
        if differing:
            metadata["annotations"] = differing
        return PatchQueue({**body, "metadata": metadata})

    def _queues(self) -> Mapping[str, Mapping[str, str]]:
        tree = min(self._trees.list(), key=_age, default=None)
        if tree is not self._wanted[0]:
            self._wanted = (tree, {} if tree is None else annotations_of(tree))
        return self._wanted[1]


class DefaultQueue:
    """The queue `default`: made where it is missing, and left alone."""

    def wants(self, name: str) -> bool:
        """Say whether it is that one."""
        return name == DEFAULT_QUEUE

    def has_made(self, queue: Queue) -> bool:
        """Return False: it is always wanted."""
        return False

    def is_complete(self) -> bool:
        """Return True: there is nothing to know."""
        return True

    def decide(self, name: str, namespace: str, queue: Queue | None) -> QueueAction:
        """Make it where it is missing."""
        if queue is not None:
            return None
        return CreateQueue(build_queue(name, namespace, spec={"queuePolicy": DEFAULT_POLICY}))


def _age(tree: ElasticQuotaTree) -> tuple[str, str]:
    return (tree.metadata.creation_timestamp, tree.metadata.key)
