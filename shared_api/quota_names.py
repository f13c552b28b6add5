"""Which quota a job, unit or pod belongs to, when only names count. Pure.

koord-scheduler's rule for pods: the label, else a quota in the object's namespace with the name of
the namespace, else the quota whose `namespaces` annotation lists the namespace, else the default
quota. For jobs and units the default quota does not count, since it was not chosen.

Source: koordinator, pkg/scheduler/plugins/elasticquota/plugin_helper.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.text_decoding import TextError, decode_json
from shared_api.well_known_labels import (
    ALL_QUOTAS,
    DEFAULT_QUOTA,
    PARKING_QUOTA,
    QUOTA_NAME,
    QUOTA_NAMESPACES,
    SPECIAL_QUOTAS,
    read_quota_name,
)


class QuotaNamespaces(StrEnum):
    """Which namespaces may name a quota (an ElasticQuota or a node of a tree)."""

    OPEN = "open"
    """Any namespace, as with koord-scheduler."""
    LISTED = "listed"
    """The namespace of the quota, those that it lists, and those whose annotation lists it."""


class NamedQuota(NamedTuple):
    """The fields of a quota that this module uses; the oldest sorts first."""

    created: str
    namespace: str
    name: str
    listed: tuple[str, ...]
    """Namespaces that its annotation lists."""


class QuotaNames(msgspec.Struct, frozen=True):
    """The names of all quotas, and the quota of each namespace that has one."""

    known: frozenset[str] = frozenset()
    of_namespaces: dict[str, str] = {}
    takers: dict[str, frozenset[str]] = {}
    """Quota -> its own namespace and those that it lists."""

    def quota_of_namespace(self, namespace: str) -> str:
        """Return the quota of a namespace, or ""."""
        return self.of_namespaces.get(namespace, "")

    def quota_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the quota that a job's or unit's labels name, else the namespace's, or ""."""
        return read_quota_name(labels) or self.quota_of_namespace(namespace)

    def may_name(self, quota: str, namespace: str, listed: Collection[str]) -> bool:
        """Return whether objects in a namespace may name a quota, under the rule `LISTED`.

        Args:
            quota: Name of the quota.
            namespace: Namespace of the job, unit or pod.
            listed: Quotas that the namespace's annotation lists (`read_quotas_of_namespace`).
        """
        if quota in listed or ALL_QUOTAS in listed:
            return True
        return namespace in self.takers.get(quota, ())

    def quota_of_pod(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the quota to which koord-scheduler charges a pod.

        If the label names an unknown quota, that is the default quota, whatever the namespace.
        """
        name = labels.get(QUOTA_NAME) or self.quota_of_namespace(namespace)
        return name if name in self.known or name in SPECIAL_QUOTAS else DEFAULT_QUOTA


def is_parking(quota: ElasticQuota) -> bool:
    """Return whether pods at the queue's gate name this quota while they wait.

    It is no quota of units: they are not charged to it, and it has no queue.
    """
    return quota.metadata.labels.get(PARKING_QUOTA) == "true"


def build_quota_names(quotas: Iterable[NamedQuota]) -> QuotaNames:
    """Return the names of these quotas; a namespace that several quotas list is the oldest's."""
    named: dict[str, str] = {}
    listed: dict[str, str] = {}
    known: set[str] = set()
    takers: dict[str, frozenset[str]] = {}
    for quota in sorted(quotas):
        known.add(quota.name)
        takers.setdefault(quota.name, frozenset((quota.namespace, *quota.listed)))
        if quota.name in SPECIAL_QUOTAS:
            continue
        if quota.name == quota.namespace:
            named[quota.namespace] = quota.name
        for namespace in quota.listed:
            listed.setdefault(namespace, quota.name)
    return QuotaNames(known=frozenset(known), of_namespaces={**listed, **named}, takers=takers)


def read_named_quota(quota: ElasticQuota) -> NamedQuota:
    """Return the fields of an ElasticQuota that this module uses."""
    meta = quota.metadata
    return NamedQuota(meta.creation_timestamp, meta.namespace, meta.name, read_namespaces(quota))


def read_namespaces(quota: ElasticQuota) -> tuple[str, ...]:
    """Return the namespaces that the quota's annotation lists.

    An annotation that is not a JSON list of strings lists nothing: koord-scheduler skips it too.
    """
    text = quota.metadata.annotations.get(QUOTA_NAMESPACES, "")
    if not text:
        return ()
    try:
        return decode_json(text, tuple[str, ...])
    except TextError:
        return ()
