"""Which nodes are unreachable, and since when. Pure.

The node controller says that nothing is heard of a node any more: the condition Ready is Unknown,
and there is the taint `node.kubernetes.io/unreachable`. Both are needed here. A node that reports
that it is not ready is reachable, and so its kubelet ends pods that are deleted.

A deleted node is not judged here: nothing of it is left.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, WireStruct, find_condition
from shared_api.timestamps import read_time

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
"""Key of the taints of a node of which nothing is heard."""

READY: Final = "Ready"
"""Type of the condition that says whether the kubelet is heard, and well."""


class Taint(WireStruct, frozen=True):
    """A taint of a node, as far as it is read."""

    key: str = ""
    time_added: Timestamp | None = None


class TaintedSpec(WireStruct, frozen=True):
    """`spec` of a node, as far as it is read."""

    taints: tuple[Taint, ...] = ()


class Conditions(WireStruct, frozen=True):
    """`status` of a node, as far as it is read."""

    conditions: tuple[Condition, ...] = ()


class WatchedNode(WireStruct, frozen=True):
    """A node, with what says whether it is reachable."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TaintedSpec = TaintedSpec()
    status: Conditions = Conditions()


def slim_node(node: WatchedNode, _before: WatchedNode | None = None) -> WatchedNode:
    """Return a node with nothing but what is judged."""
    ready = find_condition(node.status.conditions, READY)
    return WatchedNode(
        metadata=node.metadata.identity(),
        spec=TaintedSpec(taints=tuple(each for each in node.spec.taints if _is_judged(each))),
        status=Conditions(conditions=() if ready is None else (ready,)),
    )


def unreachable_since(node: WatchedNode) -> datetime | None:
    """Return since when a node is unreachable; None if it is not, or if that cannot be told.

    Of the times in its object the latest counts.
    """
    ready = find_condition(node.status.conditions, READY)
    taints = [each for each in node.spec.taints if _is_judged(each)]
    if ready is None or ready.status != "Unknown" or not taints:
        return None
    texts = (ready.last_transition_time, *(each.time_added for each in taints))
    times = (read_time(text) for text in texts)
    return max((time for time in times if time is not None), default=None)


def _is_judged(taint: Taint) -> bool:
    return taint.key == UNREACHABLE
