"""Which quota a pod or a namespace belongs to.

Source: elasticquota.md 2.3; the order is that of koord-scheduler and its webhook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from queue_scheduler.quota.quota_spec import QuotaSpec
from shared_api.well_known_labels import DEFAULT_QUOTA, QUOTA_NAME, SPECIAL_QUOTAS


class QuotaLookup:
    """The names of quotas, and the quota of each namespace that has one."""

    __slots__ = ("_listed", "_named", "known")

    def __init__(self, specs: Iterable[QuotaSpec]) -> None:
        self.known: set[str] = set(SPECIAL_QUOTAS)
        self._named: dict[str, str] = {}
        self._listed: dict[str, str] = {}
        # A namespace may be listed in one quota only; where it is in two, the oldest counts.
        for spec in sorted(specs, key=lambda spec: spec.age):
            self.known.add(spec.name)
            if spec.name in SPECIAL_QUOTAS:
                continue
            if spec.name == spec.namespace:
                self._named[spec.namespace] = spec.name
            for namespace in spec.namespaces:
                self._listed.setdefault(namespace, spec.name)

    def quota_of_pod(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the quota that koord-scheduler charges a pod to.

        A label that names no known quota leads to the default quota, whatever the namespace.
        """
        name = labels.get(QUOTA_NAME) or self.quota_of_namespace(namespace) or DEFAULT_QUOTA
        return name if name in self.known else DEFAULT_QUOTA

    def quota_of_namespace(self, namespace: str) -> str:
        """Return the quota of a namespace, or "": the default quota never counts for jobs."""
        return self._named.get(namespace) or self._listed.get(namespace, "")
