"""ElasticQuotaTree (`scheduling.sigs.k8s.io/v1beta1`): all quotas of a cluster in one object.

A node is known by its path from the root, whose name is `root` whatever the object says
(`root/team/research`); so two teams may each have a `research`.
"""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class ElasticQuotaTreeNode(WireStruct, frozen=True):
    """One quota and those below it.

    Attributes:
        name: Without those of its parents.
        namespaces: Whose units are its own where they name no quota; `*` is all.
        attributes: `shared_api.well_known_labels` has the keys.
        children: The quotas below it.
        min: Guaranteed.
        max: The ceiling; a resource that it does not name is not limited here.
    """

    name: str = ""
    namespaces: tuple[str, ...] = ()
    attributes: dict[str, str] = {}
    children: tuple[ElasticQuotaTreeNode, ...] = ()
    min: ResourceQuantities = {}
    max: ResourceQuantities = {}


class ElasticQuotaTreeSpec(WireStruct, frozen=True):
    """`spec`: one root."""

    root: ElasticQuotaTreeNode = ElasticQuotaTreeNode()


class ElasticQuotaTree(WireStruct, frozen=True):
    """An ElasticQuotaTree object; a cluster has one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaTreeSpec = ElasticQuotaTreeSpec()
