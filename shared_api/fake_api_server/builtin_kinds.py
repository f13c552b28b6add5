"""The built-in kinds that are served, with their rules.

Kinds without rules (ConfigMap, ClusterRole, Deployment ...) are stored as received: manifests can
be applied and read back, but are not validated. No built-in kind has a schema here, so unknown
fields are kept and types are not checked; the real server drops or refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from shared_api.fake_api_server.api_errors import Cause, immutable, invalid_value, required
from shared_api.fake_api_server.builtin_columns import (
    EVENT_COLUMNS,
    JOB_COLUMNS,
    LEASE_COLUMNS,
    NAMESPACE_COLUMNS,
    NODE_COLUMNS,
    POD_COLUMNS,
    PRIORITY_CLASS_COLUMNS,
)
from shared_api.fake_api_server.job_rules import check_job, fill_job, prepare_job
from shared_api.fake_api_server.patching import Body
from shared_api.fake_api_server.pod_rules import check_pod, fill_pod, prepare_pod
from shared_api.fake_api_server.resource_registry import ServedResource, ServerContext
from shared_api.fake_api_server.selectors import FieldPath
from shared_api.fake_api_server.table_printer import AGE, NAME

NAMESPACES: Final = ("", "namespaces")
NAMESPACE_FINALIZER: Final = "kubernetes"
STANDARD_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
MAX_NOTE_CHARS: Final = 1024
"""Limit of an event's note. Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go."""
_MIN_SERIES_COUNT: Final = 2


def _paths(*fields: str) -> dict[str, FieldPath]:
    return {field: tuple(field.split(".")) for field in fields}


# ------------------------------------------------------------------------------------ namespaces


def _prepare_namespace(body: Body, _surroundings: ServerContext) -> Body:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **body,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": [NAMESPACE_FINALIZER]},
        "status": {"phase": "Active"},
    }


# ---------------------------------------------------------------------------------------- events

_EVENT_FIELDS: Final[Mapping[str, str]] = {
    # stored as core/v1 | as events.k8s.io/v1
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_FIELDS_BACK: Final = {new: old for old, new in _EVENT_FIELDS.items()}
_FREE_IN_EVENTS: Final = frozenset({"metadata", "series", "count", "lastTimestamp"})


def _to_new_event(body: Body) -> Body:
    return {_EVENT_FIELDS.get(key, key): value for key, value in body.items()}


def _to_core_event(body: Body) -> Body:
    return {_EVENT_FIELDS_BACK.get(key, key): value for key, value in body.items()}


def _prepare_event(body: Body, _surroundings: ServerContext) -> Body:
    nothing_yet: Body = {"involvedObject": {}, "source": {}}
    times = dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime"))
    return {**nothing_yet, **times, **body}


def _check_new_event(new: Body, old: Body | None) -> list[Cause]:
    """Return what is invalid in an event that was sent as events.k8s.io/v1."""
    if old is not None:
        return _check_event_change(new, old)
    causes = [required("eventTime")] if not new.get("eventTime") else []
    for field, name in (
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ):
        if not new.get(field):
            causes.append(required(name))
    if new.get("type") not in {"Normal", "Warning"}:
        causes.append(invalid_value("type", "", f"has invalid value: {new.get('type', '')}"))
    if len(new.get("message", "")) > MAX_NOTE_CHARS:
        causes.append(invalid_value("message", "", "can have at most 1024 characters"))
    return causes + _check_series(new)


def _check_event_change(new: Body, old: Body) -> list[Cause]:
    return [
        immutable(field, new.get(field))
        for field in sorted(new.keys() | old.keys())
        if field not in _FREE_IN_EVENTS and new.get(field) != old.get(field)
    ] + _check_series(new)


def _check_series(new: Body) -> list[Cause]:
    series = new.get("series")
    if not series or series.get("count", 0) >= _MIN_SERIES_COUNT:
        return []
    return [invalid_value("series.count", "", f"should be at least {_MIN_SERIES_COUNT}")]


_CORE_EVENT_FIELDS: Final = {
    **_paths("reason", "type", "reportingComponent"),
    **_paths(*(f"involvedObject.{f}" for f in ("kind", "namespace", "name", "uid", "fieldPath"))),
    "source": ("source", "component"),
}


# ------------------------------------------------------------------------------------- the table

_builtin: Final = partial(ServedResource, version="v1", strategic=True)
_updatable: Final = partial(_builtin, unconditional_update=True)


def _cluster_scoped() -> Iterable[ServedResource]:
    yield _updatable(
        group="",
        kind="Namespace",
        plural="namespaces",
        namespaced=False,
        short_names=("ns",),
        has_status=True,
        status_moves_metadata=True,
        selectable=_paths("status.phase"),
        columns=NAMESPACE_COLUMNS,
        prepare=_prepare_namespace,
    )
    yield _updatable(
        group="",
        kind="Node",
        plural="nodes",
        namespaced=False,
        short_names=("no",),
        has_status=True,
        status_moves_metadata=True,
        keeps_status_on_create=True,
        selectable=_paths("spec.unschedulable"),
        columns=NODE_COLUMNS,
    )


def _pods_and_events() -> Iterable[ServedResource]:
    yield _updatable(
        group="",
        kind="Pod",
        plural="pods",
        short_names=("po",),
        categories=("all",),
        has_status=True,
        status_moves_metadata=True,
        counts_generation=True,
        graceful=True,
        selectable=_paths("spec.nodeName", "spec.schedulerName", "status.phase"),
        columns=POD_COLUMNS,
        prepare=prepare_pod,
        fill=fill_pod,
        check=check_pod,
    )
    yield _updatable(
        group="",
        kind="Event",
        plural="events",
        short_names=("ev",),
        selectable=_CORE_EVENT_FIELDS,
        columns=EVENT_COLUMNS,
        prepare=_prepare_event,
    )


def _with_rules() -> Iterable[ServedResource]:
    yield _updatable(
        group="batch",
        kind="Job",
        plural="jobs",
        categories=("all",),
        has_status=True,
        status_moves_metadata=True,
        counts_generation=True,
        orphans_by_default=True,
        selectable=_paths("status.successful"),
        columns=JOB_COLUMNS,
        prepare=prepare_job,
        fill=fill_job,
        check=check_job,
    )
    yield _updatable(
        group="events.k8s.io",
        kind="Event",
        plural="events",
        short_names=("ev",),
        selectable=_CORE_EVENT_FIELDS,
        columns=EVENT_COLUMNS,
        prepare=_prepare_event,
        check=_check_new_event,
        to_wire=_to_new_event,
        from_wire=_to_core_event,
        table=("", "events"),
    )
    yield _builtin(
        group="coordination.k8s.io",
        kind="Lease",
        plural="leases",
        columns=LEASE_COLUMNS,
    )
    yield _builtin(
        group="scheduling.k8s.io",
        kind="PriorityClass",
        plural="priorityclasses",
        namespaced=False,
        short_names=("pc",),
        counts_generation=True,
        columns=PRIORITY_CLASS_COLUMNS,
    )


_STORED_AS_THEY_COME: Final = (
    # group | kind | plural | namespaced | has status | short names
    ("", "ConfigMap", "configmaps", True, False, ("cm",)),
    ("", "LimitRange", "limitranges", True, False, ("limits",)),
    ("", "PodTemplate", "podtemplates", True, False, ()),
    ("", "ResourceQuota", "resourcequotas", True, True, ("quota",)),
    ("", "Secret", "secrets", True, False, ()),
    ("", "Service", "services", True, True, ("svc",)),
    ("", "ServiceAccount", "serviceaccounts", True, False, ("sa",)),
    ("apps", "DaemonSet", "daemonsets", True, True, ("ds",)),
    ("apps", "Deployment", "deployments", True, True, ("deploy",)),
    ("apps", "ReplicaSet", "replicasets", True, True, ("rs",)),
    ("apps", "StatefulSet", "statefulsets", True, True, ("sts",)),
    ("batch", "CronJob", "cronjobs", True, True, ("cj",)),
    ("node.k8s.io", "RuntimeClass", "runtimeclasses", False, False, ()),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", True, True, ("pdb",)),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", False, False, ()),
    (
        *("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings"),
        *(False, False, ()),
    ),
    ("rbac.authorization.k8s.io", "Role", "roles", True, False, ()),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", True, False, ()),
    (
        *("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        *("mutatingadmissionpolicies", False, False, ()),
    ),
    (
        *("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        *("mutatingadmissionpolicybindings", False, False, ()),
    ),
)


def _stored_as_they_come() -> Iterable[ServedResource]:
    for group, kind, plural, namespaced, has_status, short_names in _STORED_AS_THEY_COME:
        yield _updatable(
            group=group,
            kind=kind,
            plural=plural,
            namespaced=namespaced,
            short_names=short_names,
            has_status=has_status,
            status_moves_metadata=True,
            counts_generation=has_status,
            columns=(NAME, AGE),
        )


def builtin_kinds() -> list[ServedResource]:
    """Return all built-in kinds except CustomResourceDefinition (see `custom_resources`)."""
    return [*_cluster_scoped(), *_pods_and_events(), *_with_rules(), *_stored_as_they_come()]
