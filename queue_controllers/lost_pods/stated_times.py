"""Which job a pod is certainly of, and how long that waits until its lost pods are deleted.

Labels and annotations of a pod prove nothing: whoever may write pods may write them. Its controller
does, by its uid, and the controller of that, up to the job. A pod that is a job itself, or a part
of one that is only pods, states the time itself.

The walk ends where an owner may not be read: the pods of such a job are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from queue_controllers.decision.job_annotations import read_lost_pod_seconds
from queue_controllers.decision.owners import Above, group_of
from queue_controllers.job_families.gated_pods import GatedPods
from queue_controllers.jobframework.generic_job import GenericJob, JobKind
from queue_controllers.reconcile.job_reader import find_units
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import PODS
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta, OwnerReference
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit

MAX_OWNERS: Final = 4
"""Owners between a pod and its job, and above: a RayJob has its RayCluster between, a TrainJob a
JobSet and its Jobs."""


class JobsOfAKind(Protocol):
    """The jobs of one kind (`ExtensionServer`)."""

    @property
    def adapter(self) -> GenericJob[Any]:
        """Facts about the kind."""

    def job_at(self, key: str) -> Any | None:  # noqa: ANN401 - a job of any kind
        """Return a job by its key, from the cache; None if it is not there."""


class StatedTime(msgspec.Struct, frozen=True):
    """How long the lost pods of a job are left alone.

    Attributes:
        seconds: The time.
        kind: The kind of what states it.
        stated_by: What states it: a job, or a pod that is one or a part of one.
    """

    seconds: float
    kind: JobKind | ResourceType[Pod]
    stated_by: ObjectMeta


class StatedTimes:
    """Finds what jobs state about their lost pods.

    Args:
        kinds: The kinds that are queued.
        units: All units.
        above: Returns what is known of an owner in a namespace; may ask the API server.
    """

    def __init__(
        self,
        kinds: Sequence[JobsOfAKind],
        units: IndexedStore[QueueUnit],
        above: Callable[[str, OwnerReference], Above],
    ) -> None:
        self._kinds = kinds
        self._units = units
        self._above = above

    def find(self, pod: Pod) -> StatedTime | None:
        """Return what the job of a pod states; None: nothing, or it has none that is certain.

        Of several jobs that own each other the nearest counts that has a unit and states a time.

        Raises:
            ApiFailure: The server could not be asked about an owner.
        """
        if self._is_job_or_part(pod):
            return _stated_in(pod.metadata, PODS)
        owner, namespace = pod.metadata.controller_owner, pod.metadata.namespace
        for _ in range(MAX_OWNERS):
            if owner is None:
                return None
            found = self._find_job(namespace, owner)
            if found is None:
                owner = self._above(namespace, owner).owner
                continue
            kind, job = found
            stated = _stated_in(job, kind)
            if stated is not None and find_units(self._units, kind, job.key, job.uid).own:
                return stated
            owner = job.controller_owner
        return None

    def _is_job_or_part(self, pod: Pod) -> bool:
        adapters = (each.adapter for each in self._kinds)
        return any(isinstance(each, GatedPods) and bool(each.group_of(pod)) for each in adapters)

    def _find_job(self, namespace: str, owner: OwnerReference) -> tuple[JobKind, ObjectMeta] | None:
        for each in self._kinds:
            kind = each.adapter.kind
            if kind.held_by_gates or (kind.group, kind.kind) != (group_of(owner), owner.kind):
                continue
            job = each.job_at(f"{namespace}/{owner.name}")
            if job is not None and job.metadata.uid == owner.uid:
                return kind, job.metadata
        return None


def _stated_in(meta: ObjectMeta, kind: JobKind | ResourceType[Pod]) -> StatedTime | None:
    seconds = read_lost_pod_seconds(meta.annotations)
    return None if seconds is None else StatedTime(seconds, kind, meta)
