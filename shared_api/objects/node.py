"""Node (core/v1): the source of the cluster's capacity."""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class NodeStatus(WireStruct, frozen=True):
    """`status` of a node, as far as it is read."""

    allocatable: ResourceQuantities = {}


class Node(WireStruct, frozen=True):
    """A node (core/v1).

    Cordoned and not-ready nodes count towards capacity, as they do for koord-scheduler.
    """

    metadata: ObjectMeta = ObjectMeta()
    status: NodeStatus = NodeStatus()
