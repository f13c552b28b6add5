"""ElasticQuotaTree (`scheduling.sigs.k8s.io/v1beta1`): all quotas of a cluster in one object.

A node is identified by its path from the root (`root/team/research`), so two teams may each have a
`research`. The root is always called `root`, whatever its name in the object is.
"""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class ElasticQuotaTreeNode(WireStruct, frozen=True):
    """One quota and its children.

    Attributes:
        name: Its name, without those of its parents.
        namespaces: Namespaces whose units belong to it unless they name a quota; `*` is all.
        attributes: Further settings; `shared_api.well_known_labels` has the keys.
        children: The quotas below it.
        min: The guaranteed amounts.
        max: The most that may be used; resources that it does not name are not limited here.
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
