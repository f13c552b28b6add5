"""Which node of an ElasticQuotaTree a unit means: by the name in its label, or by its namespace.

A label value cannot hold a path (it may have no slash), so units name a node by its own name. The
result changes with the tree, for pending units and for admitted ones: so look-ups are recorded, and
after a change of the tree, the names with a different result are returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from queue_scheduler.quota.quota_tree_spec import SEPARATOR
from queue_scheduler.quota.tree_queue_names import TreeQueueNames
from shared_api.well_known_labels import ALL_QUOTAS, read_quotas_of_namespace

ALL_NAMESPACES: Final = "*"

MAX_LABELS: Final = 1000
"""Names that are recorded per namespace; users need few. With more names, every change of the tree
affects the namespace."""


class FoundNode(NamedTuple):
    """The result of a look-up.

    Attributes:
        paths: One path; none if there is no such node, several if the name is ambiguous.
        queue: The queue of a single path.
        is_available: Whether units of the namespace may use it.
    """

    paths: tuple[str, ...]
    queue: str = ""
    is_available: bool = True


NOTHING: Final = FoundNode(())


class TreeNodeLookup:
    """The nodes of one tree, by all their names.

    Args:
        checks_available: Whether a namespace must list the nodes that its units name.
    """

    def __init__(self, *, checks_available: bool) -> None:
        self._checks_available = checks_available
        self._names = TreeQueueNames(())
        self._queues: dict[str, str] = {}
        # The node that each existing queue says it belongs to.
        self._named_nodes: dict[str, str] = {}
        self._by_short: dict[str, tuple[str, ...]] = {}
        self._of_namespaces: dict[str, str] = {}
        self._available: dict[str, frozenset[str]] = {}
        self._asked: dict[str, dict[str, None]] = {}

    def paths(self) -> Iterable[str]:
        """Return the paths of all nodes, sorted."""
        return self._queues

    def look_up(self, label: str, namespace: str) -> FoundNode:
        """Return the node that a unit of the namespace means; label "" if it names none."""
        asked = self._asked.setdefault(namespace, {})
        if len(asked) <= MAX_LABELS:
            asked[label] = None
        return self._find(label, namespace)

    def put(self, nodes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """Take all nodes, each with the namespaces that it lists.

        Returns:
            Names of facts (`Unmapped.waits_for`): namespaces with a different look-up result, and
            nodes that came or went.
        """
        before = self._answers(self._asked)
        known = self._queues.keys()
        self._names = TreeQueueNames(nodes)
        self._queues = self._names.name_all(self._named_nodes.get)
        by_short: dict[str, list[str]] = {}
        for path in self._queues:
            by_short.setdefault(short_name(path), []).append(path)
        self._by_short = {short: tuple(paths) for short, paths in by_short.items()}
        self._of_namespaces = {
            namespace: path for path, namespaces in nodes.items() for namespace in namespaces
        }
        came_or_went = sorted(known ^ self._queues.keys())
        return (*self._differing(before), *(f"quota/{path}" for path in came_or_went))

    def put_queue(self, name: str, node: str | None) -> tuple[str, ...]:
        """Take the node that a queue says it belongs to; None if there is no such queue.

        Returns:
            Names of facts, as `put` does, including the nodes whose queue has changed.
        """
        if self._named_nodes.get(name) == node:
            return ()
        if node is None:
            del self._named_nodes[name]
        else:
            self._named_nodes[name] = node
        named = self._names.name_rivals(name, self._named_nodes.get)
        differing = [path for path, queue in named.items() if self._queues[path] != queue]
        if not differing:
            return ()
        before = self._answers(self._asked)
        self._queues = {**self._queues, **named}
        return (*self._differing(before), *(f"quota/{path}" for path in differing))

    def put_namespace(self, name: str, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """Take what a namespace lists; return names of facts, as `put` does."""
        concerned = [name] if name in self._asked else []
        before = self._answers(concerned)
        listed = read_quotas_of_namespace(annotations)
        if listed:
            self._available[name] = listed
        else:
            self._available.pop(name, None)
        return self._differing(before)

    def fork(self) -> TreeNodeLookup:
        """Return an independent copy."""
        twin = TreeNodeLookup(checks_available=self._checks_available)
        # Replaced, never changed, so the copy shares it.
        twin._names = self._names
        twin._queues = self._queues
        twin._by_short = self._by_short
        twin._of_namespaces = self._of_namespaces
        twin._named_nodes = dict(self._named_nodes)
        twin._available = dict(self._available)
        twin._asked = {namespace: dict(labels) for namespace, labels in self._asked.items()}
        return twin

    def _find(self, label: str, namespace: str) -> FoundNode:
        if label:
            paths = (label,) if label in self._queues else self._by_short.get(label, ())
        else:
            path = self._of_namespaces.get(namespace) or self._of_namespaces.get(ALL_NAMESPACES)
            paths = () if path is None else (path,)
        if not paths:
            return NOTHING
        if len(paths) > 1:
            return FoundNode(paths)
        return FoundNode(paths, self._queues[paths[0]], self._is_available(paths[0], namespace))

    def _is_available(self, path: str, namespace: str) -> bool:
        """Return whether a namespace's units may use a node; they may if the node lists it."""
        if not self._checks_available:
            return True
        if path in map(self._of_namespaces.get, (namespace, ALL_NAMESPACES)):
            return True
        listed = self._available.get(namespace, frozenset())
        return not listed.isdisjoint((ALL_QUOTAS, path, short_name(path)))

    def _answers(self, namespaces: Iterable[str]) -> dict[str, list[FoundNode] | None]:
        """Return the look-up results of these namespaces; None: too many names to record."""
        answers: dict[str, list[FoundNode] | None] = {}
        for namespace in namespaces:
            labels = self._asked[namespace]
            known = len(labels) <= MAX_LABELS
            answers[namespace] = (
                [self._find(label, namespace) for label in labels] if known else None
            )
        return answers

    def _differing(self, before: Mapping[str, list[FoundNode] | None]) -> tuple[str, ...]:
        after = self._answers(before)
        return tuple(
            f"namespace/{namespace}"
            for namespace in sorted(after)
            if after[namespace] is None or after[namespace] != before[namespace]
        )


def short_name(path: str) -> str:
    """Return a node's own name."""
    return path.rpartition(SEPARATOR)[2]
