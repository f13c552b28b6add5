"""The server of one kind of job: its informer, its keys, its workers.

The kind's CRD may be missing. Then the server waits, reports it in its log, its probe detail and a
metric, and starts when the CRD appears; it stops when the CRD is deleted. Other servers are not
affected.

Keys are `namespace/name` of jobs. They come from jobs, from units (through their consumer), and
from pods (through their owner, or the unit that they name). Which changes of an object make its job
be reconciled, and how soon, is said at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic

import msgspec
import structlog

from queue_controllers.job_families.gated_pods import Sizer
from queue_controllers.jobframework.generic_job import GenericJob, JobT, LabelsPods
from queue_controllers.reconcile.execute import Executor
from queue_controllers.reconcile.job_reader import JobCache, consumer_group, key_of_consumer
from queue_controllers.reconcile.reconciler import JobReconciler, Part
from queue_controllers.watches.pod_groups import FollowedKind, PodGroupCache
from queue_controllers.watches.pod_usage import (
    PAUSE_SECONDS,
    is_news,
    is_success,
    owner_uid_of,
    pause_of,
    pause_of_refusal,
    unit_key_of_pod,
)
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.well_known_labels import PODS_REFUSED
from shared_api.work_queue import WorkQueue

OPENING_SECONDS: Final = 0.1
"""How often a server that has a kind to serve checks whether it may begin."""

RECONCILES_PER_SECOND: Final = 5.0
"""Reconciles of jobs whose demand was changed by another object, for each kind of job: what follows
is written at low priority, which has a fifth of the requests, and events are in it as well."""

log = structlog.get_logger("extension_server")


class ServerParts(msgspec.Struct, Generic[JobT], frozen=True, kw_only=True):
    """The parts of a server that depend on whether its jobs are objects or made of pods."""

    jobs: JobCache[JobT]
    executor: Executor[JobT]
    watch: FollowedKind
    groups: PodGroupCache | None = None
    """The same as `jobs`, if jobs are made of pods."""


class ExtensionServer(Generic[JobT]):
    """All that one kind of job needs in this process.

    Args:
        adapter: The facts of the kind.
        parts: The cache of its jobs, and what fills it.
        units: The cache of all units.
        reconciler: Reconciles keys; its workers call `step`.
        queue: The keys.
        clock: The time.
        may_decide: Whether this process decides: it leads, and its caches are complete.
    """

    def __init__(
        self,
        adapter: GenericJob[JobT],
        parts: ServerParts[JobT],
        *,
        units: IndexedStore[QueueUnit],
        reconciler: JobReconciler[JobT],
        queue: WorkQueue[str],
        clock: Clock,
        may_decide: Callable[[], bool],
    ) -> None:
        self.adapter = adapter
        self.watch = parts.watch
        self.reconciler = reconciler
        self.queue = queue
        self._clock = clock
        self._jobs = parts.jobs
        self._units = units
        self._may_decide = may_decide
        self._open = False
        self._groups = parts.groups
        # Once: an isinstance check of a runtime protocol is too slow for every pod.
        self._labels_pods = adapter if isinstance(adapter, LabelsPods) else None

    def step(self) -> float:
        """Check whether the kind is served and this process decides; return seconds to rest.

        Keys whose delay is over are queued here, so that the workers need not wake for that.
        """
        rest = self.watch.step()
        informer = self.watch.informer
        synced = informer is not None and informer.has_synced()
        was_open, self._open = self._open, synced and self._may_decide()
        if self._open and not was_open:
            # Keys that came before were dropped; these are not, since `_open` is already set.
            log.info("deciding about jobs", extension=self.name, jobs=len(self._jobs))
            self.enqueue_all()
        due = self.queue.start_due()
        rest = rest if due is None else min(rest, due)
        return rest if self._open or informer is None else min(rest, OPENING_SECONDS)

    def is_open(self) -> bool:
        """Return whether jobs of this kind are acted on."""
        return self._open

    @property
    def name(self) -> str:
        """The extension's key."""
        return self.adapter.kind.key

    def is_kind_of(self, unit: QueueUnit) -> bool:
        """Return whether the unit names a job of this kind."""
        return self._key_of_unit(unit) != ""

    def job_of(self, unit: QueueUnit) -> JobT | None:
        """Return the job of a unit, from the cache; None if it is not there."""
        job = self._jobs.get(self._key_of_unit(unit))
        consumer = unit.spec.consumer_ref
        if job is None or consumer is None or consumer.uid not in {"", job.metadata.uid}:
            return None
        return job

    def job_at(self, key: str) -> JobT | None:
        """Return a job by its key, from the cache; None if it is not there."""
        return self._jobs.get(key)

    def children_of(self, owner: ObjectMeta) -> list[tuple[str, ObjectMeta]]:
        """Return the jobs of this kind that another controls, each as (kind, metadata), by name.

        It scans all jobs, so call it seldom.
        """
        if self._groups is not None:
            return []
        found = [
            job.metadata
            for job in self._jobs.list()
            if job.metadata.namespace == owner.namespace
            and (controller := job.metadata.controller_owner) is not None
            and controller.uid == owner.uid
        ]
        found.sort(key=lambda child: child.name)
        return [(self.adapter.kind.kind, child) for child in found]

    # --- handlers ----------------------------------------------------------------------------

    def on_job(self, old: JobT | None, new: JobT | None) -> None:
        """Handle a change of a job."""
        if new is None:
            if old is not None:
                self.reconciler.on_gone(old.metadata)
                self.queue.add(old.metadata.key)
            return
        informer = self.watch.informer
        # Others may come late to this process: what they are now is not how they were created.
        # Noted before the key is queued, since a worker may take it at once.
        if old is None and informer is not None and informer.is_creation():
            self.reconciler.on_creation(new.metadata)
        pause = pause_of_job(self.adapter, old, new)
        if pause is None or (old is not new and self.reconciler.has_reconciled_job(new.metadata)):
            return
        self._add(new.metadata.key, Part.JOB, new.metadata.resource_version, pause)

    def on_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Handle a change of a unit: its job must be reconciled."""
        unit = new if new is not None else old
        if unit is None or not (key := self._key_of_unit(unit)):
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            # Before the key is queued: that reconcile may create a unit, and must ask the server
            # first whether the job is still there.
            self.reconciler.on_unit_gone(self._key_of_unit(old), old)
        pause = pause_of_unit(old, new)
        was_seen = new is not None and self.reconciler.has_reconciled_unit(key, new.metadata)
        if pause is None or (old is not new and was_seen):
            return
        if new is None:
            self.queue.add_after(key, pause)
        else:
            self._add(key, Part.UNIT, new.metadata.resource_version, pause)

    def _add(self, key: str, part: Part, version: str, pause: float) -> None:
        if not self.reconciler.judges_itself(key, part, version, pause):
            self.queue.add_after(key, pause)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod; changes that come together lead to one reconcile."""
        pod = new if new is not None else old
        refusal = pause_of_refusal(old, new, self._clock.now())
        if pod is None or not (is_news(old, new) or refusal is not None):
            return
        if not is_news(old, new):
            for key in self._keys_of_refused(pod):
                self.queue.add_after(key, refusal or 0.0)
        elif self._groups is not None:
            self._on_pod_of_group(self._groups, old, new)
        else:
            succeeded = is_success(old, new)
            for key in self._keys_of_pod(pod):
                pause = self.reconciler.pause_of_success(key) if succeeded else None
                if pause is None:
                    pause = pause_of(self.reconciler.wanted_pods(key))
                self.queue.add_after(key, pause)

    def _on_pod_of_group(self, groups: PodGroupCache, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod that is a job, or a part of one."""
        keys = {groups.key_of(pod): pod for pod in (old, new) if pod is not None}
        keys.pop("", None)
        for key, pod in keys.items():
            self.queue.add_after(key, PAUSE_SECONDS)
            if not groups.has(key):
                self.reconciler.on_gone(groups.last_of(key, pod))
        if new is None and old is not None:
            groups.forget(old)

    def on_resized(self, sizer: Sizer, namespace: str) -> None:
        """Handle a change of how many pods the jobs have that an object sizes."""
        if self._groups is not None:
            for key in self._groups.keys_sized_by(sizer, namespace):
                self.queue.add(key)

    def enqueue_all(self) -> None:
        """Queue every job and the job of every unit: for a new leader, or a new cluster context.

        The oldest job comes first. Jobs that were created while no replica led get their units in
        that order, and the first unit that the scheduler sees may start before the others exist.
        """
        jobs = [job.metadata for job in self._jobs.list()]
        for metadata in sorted(jobs, key=lambda job: (job.creation_timestamp, job.key)):
            self.queue.add(metadata.key)
        for unit in self._units.list():
            if key := self._key_of_unit(unit):
                self.queue.add(key)

    def enqueue_namespace(self, namespace: str) -> None:
        """Queue every job of a namespace."""
        for job in self._jobs.list():
            if job.metadata.namespace == namespace:
                self.queue.add(job.metadata.key)

    def enqueue_gradually(self, namespace: str) -> None:
        """Queue every job of a namespace, "" for all, a few in each second.

        For what may change many units at once, and is applied before each release, too. Jobs whose
        pods would be refused come first: they may start now.
        """
        for unit in self._units.list():
            if PODS_REFUSED in unit.metadata.annotations and (key := self._key_of_unit(unit)):
                self.queue.add(key)
        jobs = (each.metadata for each in self._jobs.list())
        concerned = (each for each in jobs if not namespace or each.namespace == namespace)
        for number, each in enumerate(concerned):
            self.queue.add_after(each.key, number / RECONCILES_PER_SECOND)

    # --- keys --------------------------------------------------------------------------------

    def _key_of_unit(self, unit: QueueUnit) -> str:
        consumer, kind = unit.spec.consumer_ref, self.adapter.kind
        if consumer is None or consumer.kind != kind.kind or not consumer.name:
            return ""
        if consumer_group(consumer) != kind.group:
            return ""
        return key_of_consumer(consumer, unit.metadata.namespace)

    def _keys_of_refused(self, pod: Pod) -> list[str]:
        if self._groups is None:
            return self._keys_of_pod(pod)
        return list(filter(None, [self._groups.key_of(pod)]))

    def _keys_of_pod(self, pod: Pod) -> list[str]:
        """Return each key once, in an order that is the same in every process."""
        keys: list[str] = []
        owner, kind = pod.metadata.controller_owner, self.adapter.kind
        if owner is not None and owner.kind == kind.kind and owner_uid_of(pod):
            keys.append(f"{pod.metadata.namespace}/{owner.name}")
        if not kind.owns_pods and (unit := self._units.get(unit_key_of_pod(pod))) is not None:
            keys.append(self._key_of_unit(unit))
        if self._labels_pods is not None:
            name = self._labels_pods.job_name_of(pod.metadata.labels)
            keys.append(f"{pod.metadata.namespace}/{name}" if name else "")
        return list(dict.fromkeys(filter(None, keys)))


# --- which changes need a reconcile ---------------------------------------------------------------
# A job changes a dozen times in its life, and three or four of these changes lead to a write. What
# decides is reconciled at once: a job that is created, is changed by its user, or ends; a unit
# whose phase changes. Changes by a job's own controller or of a pod may wait a moment for those
# that follow them. A change of fields that are not read needs no reconcile.

AT_ONCE: Final = 0.0

GATHER_SECONDS: Final = PAUSE_SECONDS
"""How long a change that decides nothing by itself waits for others: as long as a pod's."""

STEP_SECONDS: Final = 0.05
"""Such waits end together, at this interval, so that one thread wakes for many jobs. It is short
beside the time that pods take to start."""


def pause_of_job(adapter: GenericJob[JobT], old: JobT | None, new: JobT) -> float | None:
    """Return how many seconds the job's reconcile may wait; None if it needs none."""
    if old is None or old is new:  # a resync repeats what is known: reconcile in any case
        return AT_ONCE
    if not _differ(old, new):
        return None
    if _has_changed_intent(old.metadata, new.metadata):
        return AT_ONCE
    return GATHER_SECONDS if adapter.status_of(new).outcome is None else AT_ONCE


def pause_of_unit(old: QueueUnit | None, new: QueueUnit | None) -> float | None:
    """Return how many seconds the reconcile of a unit's job may wait; None if it needs none."""
    if old is None or new is None or old is new:
        return AT_ONCE
    if not _differ(old, new):
        return None
    if _has_changed_intent(old.metadata, new.metadata) or old.status.phase != new.status.phase:
        return AT_ONCE
    return GATHER_SECONDS


def _has_changed_intent(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Return whether a user or program changed what an object asks for, not only its status."""
    if old.uid != new.uid or old.generation != new.generation:
        return True
    return old.deletion_timestamp != new.deletion_timestamp or old.annotations != new.annotations


def _differ(old: object, new: object) -> bool:
    """Return whether two versions of an object differ in anything that is read."""
    if not (isinstance(old, msgspec.Struct) and isinstance(new, msgspec.Struct)):
        return True  # an extension's own class: its fields are not known
    for field in old.__struct_fields__:
        was, is_now = getattr(old, field), getattr(new, field)
        if isinstance(was, ObjectMeta) and isinstance(is_now, ObjectMeta):
            version = is_now.resource_version
            was = msgspec.structs.replace(was, resource_version=version)
        if was != is_now:
            return True
    return False
