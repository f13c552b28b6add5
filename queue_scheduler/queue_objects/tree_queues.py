"""Queues for the nodes of the ElasticQuotaTree, and the queue `default` (`QueueSource`).

An annotation, `koord-queue/quota-fullname`, links queues to nodes. It is kept in step, and says
which node a queue belongs to if two nodes give one name (`quota.tree_queue_names`). The policy is
kept in step if the environment sets one, as in upstream. The rest of the queue is left to its
users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from queue_scheduler.queue_objects.queue_reconciler import (
    DEFAULT_POLICY,
    CreateQueue,
    PatchQueue,
    QueueAction,
    build_queue,
    decide_deletion,
)
from queue_scheduler.queueing.managed_queues import is_managed, is_of_node
from queue_scheduler.quota.quota_tree_spec import parse_tree
from queue_scheduler.quota.tree_queue_names import TreeQueueNames, named_node
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    DEFAULT_QUEUE,
    PARENT_QUOTA_FULLNAME,
    QUOTA_FULLNAME,
    ROOT_QUOTA,
)


class _Nodes:
    """The nodes of a tree; None: of no tree."""

    def __init__(self, tree: ElasticQuotaTree | None) -> None:
        specs = () if tree is None else parse_tree(tree)
        self.tree = tree
        self.parents = {spec.name: spec.parent for spec in specs}
        self.queues = TreeQueueNames(self.parents)

    def annotations(self, path: str) -> dict[str, str]:
        """Return what links a queue to a node."""
        parent = self.parents[path]
        return {QUOTA_FULLNAME: path} | (
            {} if parent == ROOT_QUOTA else {PARENT_QUOTA_FULLNAME: parent}
        )


class TreeQueues:
    """The source of the queues of nodes.

    Args:
        trees: The cache of trees; if there are several, the oldest counts.
        are_trees_known: Whether it is complete.
        find_queue: Returns the queue of a name from the cache, or None.
        policy: The policy of all these queues; "": `Priority` at creation, then what users set.
    """

    def __init__(
        self,
        trees: IndexedStore[ElasticQuotaTree],
        are_trees_known: Callable[[], bool],
        find_queue: Callable[[str], Queue | None],
        policy: str,
    ) -> None:
        self._trees = trees
        self._are_trees_known = are_trees_known
        self._find_queue = find_queue
        self._policy = policy
        # Replaced, never changed in place: handlers and the reconciler read it on their own
        # threads.
        self._known = _Nodes(None)

    def on_tree(
        self, reconcile: Callable[[str], None]
    ) -> Callable[[ElasticQuotaTree | None, ElasticQuotaTree | None], None]:
        """Return a handler that passes on the names of queues which may have to change."""

        def on_tree(old: ElasticQuotaTree | None, new: ElasticQuotaTree | None) -> None:
            # Of all trees: another tree may count now.
            for tree in (old, new, *self._trees.list()):
                for name in _Nodes(tree).queues.name_all(self._named_node).values():
                    reconcile(name)

        return on_tree

    def on_queue(
        self, reconcile: Callable[[str], None]
    ) -> Callable[[Queue | None, Queue | None], None]:
        """Return a handler that passes on the names of queues that depend on a changed queue."""

        def on_queue(old: Queue | None, new: Queue | None) -> None:
            some = new or old
            if some is None or (old and new and named_node(old) == named_node(new)):
                return
            for name in (
                self._nodes().queues.name_rivals(some.metadata.name, self._named_node).values()
            ):
                reconcile(name)

        return on_queue

    def wants(self, name: str) -> bool:
        """Return whether a node's queue has that name."""
        return self._path_of(name, self._nodes()) is not None

    def has_made(self, queue: Queue) -> bool:
        """Return whether a queue was made for a node."""
        return is_of_node(queue)

    def is_complete(self) -> bool:
        """Return whether all trees are known."""
        return self._are_trees_known()

    def decide(self, name: str, namespace: str, queue: Queue | None) -> QueueAction:
        """Return the creation, the patch or the deletion by which the queue follows its node."""
        nodes = self._nodes()
        path = self._path_of(name, nodes)
        if path is None:
            return None if queue is None else decide_deletion(queue)
        annotations = nodes.annotations(path)
        if queue is None:
            plain = nodes.queues.plain_beside(name)
            if plain and self._find_queue(plain) is None:
                # The node of that queue must be known first, which it is not while it cannot be
                # read.
                return None
            spec = {"queuePolicy": self._policy or DEFAULT_POLICY}
            return CreateQueue(build_queue(name, namespace, spec=spec, annotations=annotations))
        return self._decide_patch(annotations, queue) if is_managed(queue) else None

    def quota_of(self, name: str) -> str:
        """Return the path of the node whose queue has that name; "": none has."""
        return self._path_of(name, self._nodes()) or ""

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

    def _path_of(self, name: str, nodes: _Nodes) -> str | None:
        """Return the node whose queue has that name."""
        rivals = nodes.queues.name_rivals(name, self._named_node)
        return next((path for path, queue in rivals.items() if queue == name), None)

    def _named_node(self, name: str) -> str | None:
        queue = self._find_queue(name)
        return None if queue is None else named_node(queue)

    def _nodes(self) -> _Nodes:
        tree = min(self._trees.list(), key=_age, default=None)
        known = self._known
        if tree is not known.tree:
            known = self._known = _Nodes(tree)
        return known


class DefaultQueue:
    """The queue `default`: created if it is missing, and otherwise left alone."""

    def wants(self, name: str) -> bool:
        """Return whether it is that one."""
        return name == DEFAULT_QUEUE

    def has_made(self, queue: Queue) -> bool:
        """Return False: it is always wanted."""
        return False

    def is_complete(self) -> bool:
        """Return True: there is nothing to know."""
        return True

    def decide(self, name: str, namespace: str, queue: Queue | None) -> QueueAction:
        """Return its creation if it is missing."""
        if queue is not None:
            return None
        return CreateQueue(build_queue(name, namespace, spec={"queuePolicy": DEFAULT_POLICY}))

    def quota_of(self, name: str) -> str:
        """Return "": it is of no single quota."""
        return ""


def _age(tree: ElasticQuotaTree) -> tuple[str, str]:
    return (tree.metadata.creation_timestamp, tree.metadata.key)
