"""ElasticQuota (`scheduling.sigs.k8s.io/v1alpha1`): guaranteed and maximal amounts.

Parent, lending and tree are labels, weight and namespaces are annotations
(`shared_api.well_known_labels` has the keys). Names are global: the namespace of the object is not
part of its identity.
"""

from __future__ import annotations

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import ResourceQuantities


class ElasticQuotaSpec(WireStruct, frozen=True):
    """`spec`; only resources in `max` are limited at all."""

    min: ResourceQuantities = {}
    max: ResourceQuantities = {}


class ElasticQuotaStatus(WireStruct, frozen=True):
    """`status`, written by koord-scheduler; there is no status subresource."""

    used: ResourceQuantities = {}


class ElasticQuota(WireStruct, frozen=True):
    """An ElasticQuota object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()
