"""What the edits of a question cost, judged before any of them is tried. Pure.

An engine that is told of an edit goes through objects: a setting of all queues takes all units out
of their queues and places them again, a quota has the trees of all quotas built anew. A hundred
such edits would take minutes and hundreds of MB. So they are counted first: an object takes about a
tenth of a millisecond, and the counts follow from the edits and from how many objects there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from queue_insight.what_if.edit import Edit, EditError, FieldError
from queue_insight.what_if.settings_edits import SETTINGS
from queue_scheduler.engine.engine import Engine
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree, ElasticQuotaTreeNode
from shared_api.objects.node import Node
from shared_api.objects.resource_quota import ResourceQuota

MAX_COST: Final = 100_000
"""Objects that the edits of a question may go through: some ten seconds on one core. A setting of
all queues goes through 30,000 units three times."""
MAX_COPIES: Final = 5_000
"""Nodes that the edits of a question may add: as many as Kubernetes supports in a cluster, and some
4 MB."""
NODES_OF_ONE: Final = 100
"""Nodes that are looked at in the time that another object takes."""


def check_cost(engine: Engine, edits: Sequence[Edit]) -> None:
    """Check that edits go through few enough objects; those that are wrong count as one object.

    Args:
        engine: The engine that they would be made in.
        edits: The edits of a question.

    Raises:
        EditError: They go through too many, or add too many nodes; it names the first edit with
            which they do.
    """
    cost_of = _Costs(engine)
    cost = copies = 0
    for number, edit in enumerate(edits):
        cost += cost_of(edit)
        copies += max(edit.copies, 0)  # a negative number is refused where it is read
        if copies > MAX_COPIES:
            text = f"all edits together may add at most {MAX_COPIES} nodes"
            raise EditError(number, FieldError("copies", text))
        if cost > MAX_COST:
            text = f"up to here the edits go through {cost} objects, at most {MAX_COST} are allowed"
            raise EditError(number, FieldError("kind", f"{text}: ask with fewer edits"))


class _Costs:
    """Counts the objects that an edit goes through."""

    def __init__(self, engine: Engine) -> None:
        units = Counter(record.queue_name for record in engine.units)
        queues = sum(1 for _ in engine.queues)
        quotas = _count_quotas(engine)
        nodes = sum(1 for _ in engine.objects.of_kind(Node)) // NODES_OF_ONE
        of_quota = quotas + queues
        self._of_kind: Mapping[str, Callable[[Edit], int]] = {
            "Queue": lambda edit: units[edit.name],
            "ElasticQuota": lambda edit: of_quota + units[edit.name],
            "ElasticQuotaTree": lambda _: of_quota,
            "ResourceQuota": lambda _: of_quota,
            "QuotaPolicy": lambda _: units.total(),
            "QueueReservation": lambda _: units.total(),
            "Node": lambda edit: nodes + edit.copies,
            SETTINGS: lambda _: queues + units.total(),
        }

    def __call__(self, edit: Edit) -> int:
        counts = self._of_kind.get(edit.kind)
        return 1 if counts is None else 1 + counts(edit)


def _count_quotas(engine: Engine) -> int:
    objects = engine.objects
    flat = sum(1 for kind in (ElasticQuota, ResourceQuota) for _ in objects.of_kind(kind))
    trees = (_count_below(tree.spec.root) for tree in objects.of_kind(ElasticQuotaTree))
    return flat + sum(trees)


def _count_below(node: ElasticQuotaTreeNode) -> int:
    return 1 + sum(_count_below(child) for child in node.children)
