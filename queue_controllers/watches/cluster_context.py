"""What is known outside of jobs: quotas, namespaces and priority classes.

Answers are built once per change, not once per job. koord-scheduler writes into every ElasticQuota
about once a second, so only changes that matter for names count as changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.pod_admission import NOTHING_READ, AdmissionObjects
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.namespace import Namespace
from shared_api.objects.priority_class import PriorityClass
from shared_api.quota_names import QuotaNames, build_quota_names, read_named_quota
from shared_api.well_known_labels import (
    MANAGED_NAMESPACE,
    MAX_PRIORITY,
    QUOTA_NAMESPACES,
    UNREAD_CEILING,
    read_annotation,
    read_quotas_of_namespace,
)

MAX_INT32: Final = 2**31 - 1
"""The highest priority that an int32 can hold."""

MAX_SHOWN: Final = 32
"""Characters of an annotation that are reported: twice the longest number."""

_INT: Final = re.compile(r"[+-]?[0-9]{1,20}")

ObjectT = TypeVar("ObjectT")
ObjectT_co = TypeVar("ObjectT_co", covariant=True)


class Listed(Protocol[ObjectT_co]):
    """A cache."""

    def list(self) -> Iterable[ObjectT_co]:
        """Return all objects."""


class WhileServed(Generic[ObjectT]):
    """A cache that reads as empty while its kind is not served."""

    def __init__(self, cache: Listed[ObjectT], is_served: Callable[[], bool]) -> None:
        self._cache = cache
        self._is_served = is_served

    def list(self) -> Iterable[ObjectT]:
        """Return all objects; none while the kind is not served."""
        return self._cache.list() if self._is_served() else ()


class NamespaceCache(Protocol):
    """The cache of namespaces."""

    def get(self, key: str) -> Namespace | None:
        """Return one namespace."""


class ContextCaches(msgspec.Struct, frozen=True, kw_only=True):
    """The caches of what is known about a namespace."""

    quotas: Listed[ElasticQuota]
    """Empty while their CRD is missing."""
    namespaces: NamespaceCache
    priority_classes: Listed[PriorityClass]
    admission: Callable[[str], AdmissionObjects] = lambda _: NOTHING_READ
    """What the API server applies in a namespace when it creates pods."""


class ClusterContextReader:
    """Answers for the reconcilers; its `on_*` methods are informer handlers.

    Args:
        caches: What it reads.
        only_classes: Whether priorities are those of PriorityClasses alone.
        leaves_to_kueue: Whether jobs with Kueue's label are left alone.
        on_all_changed: Called when every job must be reconciled again.
        on_namespace_changed: Called when those of one namespace must.
        checks_namespaces: Whether quota or namespace must list the other, for jobs to name it.
    """

    def __init__(
        self,
        caches: ContextCaches,
        *,
        only_classes: bool = False,
        leaves_to_kueue: Callable[[], bool] = lambda: True,
        on_all_changed: Callable[[], None],
        on_namespace_changed: Callable[[str], None],
        checks_namespaces: bool = False,
    ) -> None:
        self._quotas = caches.quotas
        self._namespaces = caches.namespaces
        self._priority_classes = caches.priority_classes
        self._admission = caches.admission
        self._only_classes = only_classes
        self._leaves_to_kueue = leaves_to_kueue
        self._on_all_changed = on_all_changed
        self._on_namespace_changed = on_namespace_changed
        self._checks_namespaces = checks_namespaces
        # Built by the first caller after a change; two at once build two equal ones. A change
        # during a build raises the number, and what was built is thrown away.
        self._quota_changes = self._class_changes = 0
        self._names: tuple[int, QuotaNames] = (-1, QuotaNames())
        self._classes: tuple[int, Mapping[str, int], int | None] = (-1, {}, None)

    def __call__(self, namespace: str) -> ClusterContext:
        """Return what is known about a namespace."""
        _, classes, default = self._current_classes()
        known = self._namespaces.get(namespace)
        return ClusterContext(
            quotas=self._current_names(),
            namespace_labels={} if known is None else known.metadata.labels,
            priority_classes=classes,
            max_priority=_max_priority(known),
            unread_ceiling=_unread_ceiling(known),
            only_classes=self._only_classes,
            leaves_to_kueue=self._leaves_to_kueue(),
            default_priority=default,
            admission=self._admission(namespace),
            available_quotas=_available_quotas(known) if self._checks_namespaces else None,
        )

    def on_quota(self, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        """Handle a change of a quota."""
        if _quota_identity(old) != _quota_identity(new):
            self._quota_changes += 1
            self._on_all_changed()

    def on_quotas_gone(self) -> None:
        """Handle that the kind is not served any more."""
        self._quota_changes += 1
        self._on_all_changed()

    def on_priority_class(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        """Handle a change of a priority class."""
        if _class_identity(old) != _class_identity(new):
            self._class_changes += 1
            self._on_all_changed()

    def on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """Handle a change of a namespace."""
        if new is None:
            return
        lists_others = _available_quotas(old) != _available_quotas(new)
        if _what_counts(old) != _what_counts(new) or (self._checks_namespaces and lists_others):
            self._on_namespace_changed(new.metadata.name)

    def _current_names(self) -> QuotaNames:
        changes = self._quota_changes
        if self._names[0] != changes:
            names = build_quota_names(map(read_named_quota, self._quotas.list()))
            self._names = (changes, names)
        return self._names[1]

    def _current_classes(self) -> tuple[int, Mapping[str, int], int | None]:
        changes = self._class_changes
        if self._classes[0] != changes:
            known = list(self._priority_classes.list())
            values = {each.metadata.name: each.value for each in known}
            # Of several defaults the smallest counts, as for pods.
            default = min((each.value for each in known if each.global_default), default=None)
            self._classes = (changes, values, default)
        return self._classes


def _quota_identity(quota: ElasticQuota | None) -> tuple[str, ...]:
    if quota is None:
        return ()
    meta = quota.metadata
    listed = meta.annotations.get(QUOTA_NAMESPACES, "")
    return (meta.namespace, meta.name, meta.creation_timestamp, listed)


def _class_identity(each: PriorityClass | None) -> tuple[str, int, bool] | None:
    return None if each is None else (each.metadata.name, each.value, each.global_default)


def _what_counts(namespace: Namespace | None) -> tuple[bool, int | None, str | None]:
    return _is_managed(namespace), _max_priority(namespace), _unread_ceiling(namespace)


def _max_priority(namespace: Namespace | None) -> int | None:
    """Return what the namespace's annotation allows, None without one.

    An unknown value bounds like the lowest ceiling that can be needed: that of a namespace not yet
    in the cache, and that of an annotation that cannot be parsed.
    """
    if namespace is None:
        return UNREAD_CEILING
    text = read_annotation(namespace.metadata.annotations, MAX_PRIORITY)
    if text is None:
        return None
    if _INT.fullmatch(text) is None:
        return UNREAD_CEILING
    return max(min(int(text), MAX_INT32), -MAX_INT32 - 1)


def _unread_ceiling(namespace: Namespace | None) -> str | None:
    """Return the annotation's value if it is no number; "" if the namespace is not known."""
    if namespace is None:
        return ""
    text = read_annotation(namespace.metadata.annotations, MAX_PRIORITY)
    return None if text is None or _INT.fullmatch(text) is not None else repr(text[:MAX_SHOWN])


def _available_quotas(namespace: Namespace | None) -> frozenset[str]:
    if namespace is None:
        return frozenset()
    return read_quotas_of_namespace(namespace.metadata.annotations)


def _is_managed(namespace: Namespace | None) -> bool:
    if namespace is None:
        return False
    return read_annotation(namespace.metadata.labels, MANAGED_NAMESPACE) == "true"
