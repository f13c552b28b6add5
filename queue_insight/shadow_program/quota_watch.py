"""Quotas, their policies, queues and nodes of the cluster, as lines of the record."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_insight.shadow.story import key_of
from queue_insight.shadow_program.job_watch import JobWatch
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.plugins.elastic_quota_tree import NAME as ELASTIC_QUOTA_TREE
from queue_scheduler.plugins.resource_quota import NAME as RESOURCE_QUOTA
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import (
    ELASTIC_QUOTA_TREES,
    ELASTIC_QUOTAS,
    NODES,
    QUEUES,
    QUOTA_POLICIES,
    RESOURCE_QUOTAS,
)
from shared_api.well_known_labels import NODE_RESERVATION, QUOTA_PREFIX

Json = dict[str, Any]

_CALCULATED: Final = frozenset(
    QUOTA_PREFIX + name
    for name in (
        *("runtime", "request", "child-request", "guaranteed", "allocated", "admission"),
        *("non-preemptible-request", "non-preemptible-used", "unschedulable-resource"),
    )
)
"""Annotations that koord-scheduler writes about once a second; nothing here reads them."""

_OF_QUEUES: Final = (QUEUES, QUOTA_POLICIES)
"""The kinds that count in the namespace of the queues alone."""

_KEPT: Final = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp")


def kinds_of(plugins: tuple[str, ...]) -> tuple[ResourceType[Any], ...]:
    """Return the kinds to watch: quotas that the plugins need, policies, queues and nodes."""
    of_plugins: dict[str, ResourceType[Any]] = {
        ELASTIC_QUOTA: ELASTIC_QUOTAS,
        ELASTIC_QUOTA_TREE: ELASTIC_QUOTA_TREES,
        RESOURCE_QUOTA: RESOURCE_QUOTAS,
    }
    return (*(kind for name, kind in of_plugins.items() if name in plugins), *_OF_QUEUES, NODES)


class QuotaWatch:
    """Follows the objects that decide besides jobs.

    Args:
        jobs: Makes the informers.
        plugins: Names of the scheduler's plugins.
        queue_namespace: Queues and policies of other namespaces do not count.
    """

    def __init__(self, jobs: JobWatch, plugins: tuple[str, ...], queue_namespace: str) -> None:
        self._queue_namespace = queue_namespace
        self._lock = threading.Lock()
        self._changed: dict[tuple[str, str], Json | None] = {}
        self._there: dict[tuple[str, str], None] = {}
        for kind in kinds_of(plugins):
            self._follow(jobs, kind)

    def take_changed(self) -> Mapping[tuple[str, str], Json | None]:
        """Return what may have changed since the last call, by kind and key; None if it is gone."""
        with self._lock:
            changed, self._changed = self._changed, {}
        return changed

    def there(self) -> frozenset[tuple[str, str]]:
        """Return kind and key of all objects that are there."""
        with self._lock:
            return frozenset(self._there)

    def _follow(self, jobs: JobWatch, kind: ResourceType[Any]) -> None:
        def on_object(old: Any, new: Any) -> None:  # noqa: ANN401 - of any kind
            body = plain_body(kind.kind, new or old)
            key = key_of(body)
            if kind in _OF_QUEUES and body["metadata"].get("namespace") != self._queue_namespace:
                return
            self._note(key, None if new is None else body)

        def on_gone() -> None:
            for key in self.there():
                if key[0] == kind.kind:
                    self._note(key, None)

        jobs.follow(kind, on_object, on_gone)

    def _note(self, key: tuple[str, str], body: Json | None) -> None:
        with self._lock:
            self._changed[key] = body
            if body is None:
                self._there.pop(key, None)
            else:
                self._there[key] = None


def plain_body(kind: str, found: Any) -> Json:  # noqa: ANN401 - of any kind
    """Return an object as the record has it: what changes without an effect is left out."""
    body: Json = msgspec.to_builtins(found)
    meta = {key: value for key, value in body.get("metadata", {}).items() if key in _KEPT}
    annotations = meta.get("annotations", {})
    if kind == "Node":
        reserved = {key: annotations[key] for key in (NODE_RESERVATION,) if key in annotations}
        meta = {"name": meta["name"], "uid": meta.get("uid", ""), "annotations": reserved}
        allocatable = body.get("status", {}).get("allocatable", {})
        return {"kind": kind, "metadata": meta, "status": {"allocatable": allocatable}}
    kept = {key: value for key, value in annotations.items() if key not in _CALCULATED}
    meta["annotations"] = kept
    return {"kind": kind, "metadata": meta, "spec": body.get("spec", {})}
