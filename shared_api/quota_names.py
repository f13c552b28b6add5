"""Which quota a job, unit or pod belongs to, when only names count. Pure.

Source: koord-scheduler's rule for pods (elasticquota reference 2.3): the label, else a quota in
the object's namespace that is named like it, else the quota whose `namespaces` annotation lists
the namespace. Its last resort, the default quota, never counts here: nobody chose it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.well_known_labels import QUOTA_NAMESPACES, SPECIAL_QUOTAS, read_quota_name


class QuotaNames(msgspec.Struct, frozen=True):
    """The names of all quotas, and the quota of each namespace that has one."""

    known: frozenset[str] = frozenset()
    of_namespaces: dict[str, str] = {}

    def quota_of_namespace(self, namespace: str) -> str:
        """Return the namespace's own quota, or ""."""
        return self.of_namespaces.get(namespace, "")

    def quota_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the quota that the labels name, else the namespace's, or ""."""
        return read_quota_name(labels) or self.quota_of_namespace(namespace)


def build_quota_names(quotas: Iterable[ElasticQuota]) -> QuotaNames:
    """Return the names of these quotas; where two claim a namespace, the oldest has it."""
    named: dict[str, str] = {}
    listed: dict[str, str] = {}
    known: set[str] = set()
    for quota in sorted(quotas, key=_age):
        meta = quota.metadata
        known.add(meta.name)
        if meta.name in SPECIAL_QUOTAS:
            continue
        if meta.name == meta.namespace:
            named.setdefault(meta.namespace, meta.name)
        for namespace in read_namespaces(quota):
            listed.setdefault(namespace, meta.name)
    return QuotaNames(known=frozenset(known), of_namespaces={**listed, **named})


def read_namespaces(quota: ElasticQuota) -> tuple[str, ...]:
    """Return the namespaces that the quota's annotation lists.

    An annotation that is not a JSON list of strings lists nothing: koord-scheduler skips it too.
    """
    text = quota.metadata.annotations.get(QUOTA_NAMESPACES, "")
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()


def _age(quota: ElasticQuota) -> tuple[str, str, str]:
    meta = quota.metadata
    return (meta.creation_timestamp, meta.namespace, meta.name)
