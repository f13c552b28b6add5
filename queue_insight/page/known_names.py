"""The names that the form of what-if questions offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from queue_insight.page.known_state import KnownState
from queue_insight.page.sources import EngineAtTime
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api.views import QuotaNodeView
from queue_scheduler.engine.engine import Engine
from shared_api.debug_api.views import View
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node

MAX_NAMES: Final = 2000
"""Names of each kind: a browser shows that many under a field while one types. Some 300 kB."""


class QueueName(View):
    """A queue, and the namespace of its object."""

    name: str
    namespace: str


class QuotaName(View):
    """A quota, its parent ("": none), and the limits that an edit would change.

    `editable`: it is an ElasticQuota. Others come from an ElasticQuotaTree, a ResourceQuota or a
    plugin, so an edit of an ElasticQuota would create a second quota of this name.
    """

    name: str
    namespace: str
    parent: str
    editable: bool
    min: dict[str, str]
    max: dict[str, str]


class KnownNames(View):
    """The first queues, quotas and nodes by name; `complete`: there are no others.

    Nodes are named to visitors who may read everything: no other answer of the page names one.
    """

    queues: list[QueueName]
    quotas: list[QuotaName]
    nodes: list[str]
    complete: bool


class _Objects(NamedTuple):
    """Objects by namespace and name, nodes by name."""

    queues: list[tuple[str, str]]
    elastic_quotas: set[tuple[str, str]]
    nodes: list[str]


def show_names(asked: EngineAtTime, state: KnownState, visitor: Visitor) -> KnownNames:
    """Return the names that a visitor may see.

    Args:
        asked: The engine of now.
        state: What is known of it.
        visitor: Who is shown them.
    """
    found = asked.shared.ask(_read)
    nodes = sorted(found.nodes) if visitor.reads_all else []
    queues = sorted(found.queues, key=lambda key: key[::-1])
    quotas = sorted(_all(state.trees), key=lambda quota: quota.name)
    return KnownNames(
        queues=[
            QueueName(name=name, namespace=namespace) for namespace, name in queues[:MAX_NAMES]
        ],
        quotas=[_show(quota, found.elastic_quotas) for quota in quotas[:MAX_NAMES]],
        nodes=nodes[:MAX_NAMES],
        complete=max(len(queues), len(quotas), len(nodes)) <= MAX_NAMES,
    )


def _read(engine: Engine) -> _Objects:
    found = _Objects([], set(), [])
    for queue in engine.queues:
        meta = queue.rules.api_object.metadata
        found.queues.append((meta.namespace, meta.name))
    for quota in engine.objects.of_kind(ElasticQuota):
        found.elastic_quotas.add((quota.metadata.namespace, quota.metadata.name))
    for node in engine.objects.of_kind(Node):
        found.nodes.append(node.metadata.name)
    return found


def _show(quota: QuotaNodeView, elastic: set[tuple[str, str]]) -> QuotaName:
    return QuotaName(
        name=quota.name,
        namespace=quota.namespace,
        parent=quota.parent,
        editable=(quota.namespace, quota.name) in elastic,
        min=quota.min,
        max=quota.max,
    )


def _all(trees: Iterable[QuotaNodeView]) -> Iterator[QuotaNodeView]:
    for tree in trees:
        yield tree
        yield from _all(tree.children)
