"""Which pods belong to which job: the pod cache, trimmed, indexed by owner, by unit and by job.

A pod belongs to a job by its controller owner. Pods of children (a launcher, a Ray cluster) belong
to it by the annotation that the release writes on templates, or by labels of the job's operator.
Names may be reused, uids are not: a pod that is older than the job, or owned by an earlier job of
the same kind, is not the job's, whatever its annotation or labels say.

Fifty thousand pods are kept here, so of each only what is counted stays, and equal strings are
shared. Pods are counted per reconcile of a job, not per event; a job with many pods is reconciled
less often (`pause_of`): ten thousand pods that change at once are not counted ten thousand times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from queue_controllers.job_families.gated_pods import GatedPods, Sizer, is_held
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobKind,
    LabelsPods,
    ReadsPodLabels,
)
from queue_controllers.jobframework.pod_scheduling import (
    UNSCHEDULABLE_SECONDS,
    ReadPod,
    kept_status,
    unschedulable_of,
)
from queue_controllers.jobframework.pod_template import ScheduledPodSpec
from queue_controllers.watches.job_trimming import JobTrimmer
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import PODS
from shared_api.informer.indexed_store import IndexedStore, IndexFunction
from shared_api.objects.meta import NO_UID, ObjectMeta, OwnerReference, Uid
from shared_api.objects.pod import Pod, PodSpec
from shared_api.timestamps import read_time
from shared_api.well_known_labels import RELATED_POD_SET, RELATED_QUEUE_UNIT, read_annotation

BY_OWNER: Final = "owner"
BY_UNIT: Final = "unit"
BY_JOB: Final = "job"
BY_NODE: Final = "node"

Slimmer = Callable[[Pod, Pod | None], Pod]
"""Returns the trimmed version of a pod, given its previous trimmed version."""

FOLLOWED_PODS: Final[ResourceType[ReadPod]] = ResourceType(
    PODS.group, PODS.version, PODS.plural, PODS.kind, namespaced=True, object_type=ReadPod
)
"""Pods, with what schedulers say about them."""

PAUSE_SECONDS: Final = 0.1
"""How long a pod's change waits for others: nothing that it leads to is urgent, and its job's
controller mostly writes more a moment later."""

PAUSE_PER_POD_SECONDS: Final = 20e-6
"""Ten times what counting one pod takes: counting a job's pods uses at most a tenth of a core."""

_NO_SPEC: Final = PodSpec()
_WITH_NODE: Final = PodSpec(node_name="some")
"""All that is kept of the spec of a pod that is only counted: whether it has a node."""


def slimmer_for(
    adapters: Iterable[GenericJob[Any]],
    slimmer: JobTrimmer | None = None,
    *,
    keeps_nodes: bool = False,
) -> Slimmer:
    """Return the function that trims pods for these kinds of jobs.

    Pods that are jobs, or parts of such, keep the fields that affect their placement, and in
    addition name their pod set.

    Args:
        adapters: The kinds.
        slimmer: Lets pods share what is equal.
        keeps_nodes: Whether pods keep the names of their nodes.
    """
    slimmer = JobTrimmer() if slimmer is None else slimmer
    adapters = tuple(adapters)
    keys = (key for each in adapters if isinstance(each, ReadsPodLabels) for key in each.pod_labels)
    slim = partial(slim_pod, labels=tuple(dict.fromkeys(keys)), keeps_nodes=keeps_nodes)
    gatherers = tuple(each for each in adapters if isinstance(each, GatedPods))
    if not gatherers:
        return slim

    def slim_unless_queued(pod: Pod, before: Pod | None = None) -> Pod:
        for each in gatherers:
            if each.group_of(pod):
                return slimmer.slim(_with_pod_set(_as_kept(pod), each), before)
        return slim(pod, before)

    return slim_unless_queued


def _as_kept(pod: Pod) -> Pod:
    """Return a pod with the status that is cached, and none of its volumes but claims.

    Only these bind it to a place.
    """
    pod = msgspec.structs.replace(pod, status=kept_status(pod))
    if not isinstance(pod.spec, ScheduledPodSpec):
        return pod
    bound = tuple(each for each in pod.spec.volumes if each.is_claim)
    if len(bound) == len(pod.spec.volumes):
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=bound))


def _with_pod_set(pod: Pod, adapter: GatedPods) -> Pod:
    """Return a pod that names its pod set, also before its release has written it.

    To compute it again at every reconcile would take longer than the reconcile. What a held pod
    names is its user's word, or that of the pod whose manifest it was made of: its release has not
    written it.
    """
    annotations = pod.metadata.annotations
    if RELATED_POD_SET in annotations and not is_held(pod):
        return pod
    marked = {**annotations, RELATED_POD_SET: sys.intern(adapter.pod_set_of(pod))}
    meta = msgspec.structs.replace(pod.metadata, annotations=marked)
    return msgspec.structs.replace(pod, metadata=meta)


def slim_pod(
    pod: Pod,
    before: Pod | None = None,
    *,
    labels: tuple[str, ...] = (),
    keeps_nodes: bool = False,
) -> Pod:
    """Return the pod with nothing but what is counted, equal strings shared.

    Args:
        pod: As it came.
        before: The version before it, trimmed; it gives the owner, which hardly ever changes.
        labels: Keys of the labels that are read.
        keeps_nodes: Whether the name of its node is kept.
    """
    meta = pod.metadata
    marks = {
        sys.intern(key): sys.intern(value)
        for key in (RELATED_QUEUE_UNIT, RELATED_POD_SET)
        if (value := read_annotation(meta.annotations, key))
    }
    owner = meta.controller_owner
    owners = () if owner is None else (owner,)
    if before is not None and before.metadata.owner_references == owners:
        owners = before.metadata.owner_references
    elif owner is not None:
        owners = (_shared(owner),)
    kept = ObjectMeta(
        name=meta.name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=_kept_labels(meta.labels, labels),
        annotations=marks,
        owner_references=owners,
    )
    spec = _WITH_NODE if pod.spec.node_name else _NO_SPEC
    if keeps_nodes and pod.spec.node_name:
        spec = PodSpec(node_name=sys.intern(pod.spec.node_name))
    return Pod(metadata=kept, spec=spec, status=kept_status(pod))


def pod_indexes(
    adapters: Iterable[GenericJob[Any]] = (), *, by_node: bool = False
) -> Mapping[str, IndexFunction[Pod]]:
    """Return the indexes of the pod cache for these kinds of jobs; `by_node`: also `BY_NODE`."""
    adapters = tuple(adapters)
    readers = tuple((each.kind.key, each) for each in adapters if isinstance(each, LabelsPods))

    def jobs_of(pod: Pod) -> tuple[str, ...]:
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        if not labels:
            return ()
        named = ((key, reader.job_name_of(labels)) for key, reader in readers)
        return tuple(_job_entry(key, namespace, name) for key, name in named if name)

    gated = tuple(each for each in adapters if isinstance(each, GatedPods))
    groups = {group_index(each): partial(_groups_of, each) for each in gated}
    sizers = {sizer_index(each): partial(_sizers_of, each) for each in gated if each.sizing_kinds}
    nodes = {BY_NODE: _nodes_of} if by_node else {}
    return {BY_OWNER: _owners_of, BY_UNIT: _units_of, BY_JOB: jobs_of, **groups, **sizers, **nodes}


def group_index(adapter: GatedPods) -> str:
    """Return the name of the index that finds a kind's jobs that are made of pods."""
    return f"group:{adapter.kind.key}"


def sizer_index(adapter: GatedPods) -> str:
    """Return the name of the index that finds the pods of a kind by the object that sizes it."""
    return f"sizer:{adapter.kind.key}"


def sizer_entry(sizer: Sizer, namespace: str) -> str:
    """Return the value in that index of the pods in a namespace whose job this object sizes."""
    return f"{sizer.kind.group}/{namespace}/{sizer.name}"


def _sizers_of(adapter: GatedPods, pod: Pod) -> tuple[str, ...]:
    sizer = adapter.sizer_of(pod) if adapter.group_of(pod) else None
    return () if sizer is None else (sys.intern(sizer_entry(sizer, pod.metadata.namespace)),)


def _groups_of(adapter: GatedPods, pod: Pod) -> tuple[str, ...]:
    name = adapter.group_of(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()


def _job_entry(extension: str, namespace: str, name: str) -> str:
    return f"{extension}:{namespace}/{name}"


def is_news(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod may change what is counted, or what it asks for.

    That it got a node is none, of pods that are only counted: it soon runs, and until then only the
    adoption of a job would read it.
    """
    if old is None or new is None:
        return True
    return (
        old.status.phase != new.status.phase
        or old.is_terminating != new.is_terminating
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
        or (old.spec != new.spec and not (_is_counted_only(old) and _is_counted_only(new)))
    )


def _is_counted_only(pod: Pod) -> bool:
    return not pod.spec.containers  # no pod has none when it comes


def is_success(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod is that it has succeeded, and nothing else that is read."""
    if old is None or new is None or new.status.phase != "Succeeded":
        return False
    return old.status.phase == "Running" and not is_news(
        old, msgspec.structs.replace(new, status=old.status)
    )


def pause_of_refusal(old: Pod | None, new: Pod | None, now: datetime) -> float | None:
    """Return how many seconds a reconcile may wait after a pod's refusal has changed.

    None if it has not. A refusal counts only when it lasts; its end, at once. The rest of the
    scheduler's text changes with every try, and needs no reconcile.
    """
    before = None if old is None else unschedulable_of(old)
    after = None if new is None else unschedulable_of(new)
    if after is None:
        return None if before is None else PAUSE_SECONDS
    if before is not None and (before.why, before.since) == (after.why, after.since):
        return None
    since = read_time(after.since) or now
    rest = UNSCHEDULABLE_SECONDS - (now - since).total_seconds()
    return min(max(rest, PAUSE_SECONDS), UNSCHEDULABLE_SECONDS)


def pause_of(pods: int) -> float:
    """Return how many seconds a reconcile of a job with so many pods may wait for more changes."""
    return PAUSE_SECONDS + pods * PAUSE_PER_POD_SECONDS


def pods_of_job(
    pods: IndexedStore[Pod], kind: JobKind, job: ObjectMeta, unit_key: str
) -> list[Pod]:
    """Return the pods of one job, finished ones included."""
    owned = pods.by_index(BY_OWNER, job.uid)
    if kind.owns_pods:
        return owned
    found = {pod.metadata.uid: pod for pod in owned}
    named = pods.by_index(BY_JOB, _job_entry(kind.key, job.namespace, job.name))
    if unit_key:
        named += pods.by_index(BY_UNIT, unit_key)
    for pod in named:
        if pod.metadata.uid not in found and not _is_of_another(pod, kind, job):
            found[pod.metadata.uid] = pod
    return list(found.values())


def _is_of_another(pod: Pod, kind: JobKind, job: ObjectMeta) -> bool:
    """Return whether a pod that names the job or its unit is not the job's.

    It was created for an earlier job of the name, or is in another namespace: pods there must not
    keep a job here from stopping.
    """
    if pod.metadata.namespace != job.namespace:
        return True
    owner = pod.metadata.controller_owner
    if owner is not None and owner.kind == kind.kind and owner.uid != job.uid:
        return True
    return pod.metadata.creation_timestamp < job.creation_timestamp


def owner_uid_of(pod: Pod) -> Uid:
    """Return the uid of the pod's controller owner, "" without one."""
    owner = pod.metadata.controller_owner
    return NO_UID if owner is None else owner.uid


def unit_key_of_pod(pod: Pod) -> str:
    """Return `namespace/name` of the unit that the pod names, ""."""
    return pod.metadata.annotations.get(RELATED_QUEUE_UNIT, "")


_NO_LABELS: Final[dict[str, str]] = {}


def _kept_labels(labels: Mapping[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    found = {key: sys.intern(value) for key in keys if (value := labels.get(key)) is not None}
    return found or _NO_LABELS  # one empty dict for all: an empty one takes 64 bytes


def _shared(owner: OwnerReference) -> OwnerReference:
    return OwnerReference(
        api_version=sys.intern(owner.api_version),
        kind=sys.intern(owner.kind),
        name=sys.intern(owner.name),
        uid=Uid(sys.intern(owner.uid)),
        controller=True,
    )


def _owners_of(pod: Pod) -> tuple[str, ...]:
    uid = owner_uid_of(pod)
    return (uid,) if uid else ()


def _nodes_of(pod: Pod) -> tuple[str, ...]:
    name = pod.spec.node_name
    return (name,) if name else ()


def _units_of(pod: Pod) -> tuple[str, ...]:
    key = unit_key_of_pod(pod)
    return (key,) if key else ()
