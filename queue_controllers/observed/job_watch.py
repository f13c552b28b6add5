"""The caches of jobs and pods of a cluster, and which jobs have changed.

A kind that is not served is waited for, as the controllers do it. Jobs that are pods are found in
the cache of pods (`pod_jobs`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from queue_controllers.extension_list import find_extensions
from queue_controllers.job_families.gated_pods import GatedPods
from queue_controllers.jobframework.generic_job import GenericJob, LabelsPods
from queue_controllers.observed.job_reading import ENDING_PODS, ObservedJob, read_job, timed
from queue_controllers.observed.pod_jobs import POD_JOBS
from queue_controllers.reconcile.execute import job_type_of
from queue_controllers.watches.cluster_context import ClusterContextReader, ContextCaches
from queue_controllers.watches.informers import InformerFactory
from queue_controllers.watches.job_trimming import JobTrimmer
from queue_controllers.watches.pod_groups import PodGroupCache
from queue_controllers.watches.pod_usage import FOLLOWED_PODS, pod_indexes, pods_of_job, slimmer_for
from queue_controllers.watches.related_objects import RelatedObjectReader
from shared_api.client.errors import ApiFailure
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import NAMESPACES, PRIORITY_CLASSES
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import POLL_SECONDS, KindWatch
from shared_api.informer.shared_informer import WAIT_SECONDS, SharedInformer
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.pod import Pod
from shared_api.program import Host
from shared_api.program_flags import FlagError

Check = Callable[[], tuple[bool, str]]

MOST_GONE: Final = 1024
"""How many jobs have pods kept that are gone: a replica that does not lead never looks."""

log = structlog.get_logger("job_watch")


class JobName(NamedTuple):
    """A job of a followed kind.

    Attributes:
        kind: The key of its extension.
        key: `namespace/name`.
    """

    kind: str
    key: str


class JobWatch:
    """Follows jobs of these kinds, their pods, namespaces and priority classes; writes nothing.

    Args:
        host: The process.
        kinds: Keys of extensions.
        excluded: Namespaces whose jobs do not count.
        wait_seconds: 0 if steps are called on one thread.

    Raises:
        FlagError: A kind is not known, or cannot be followed.
    """

    def __init__(
        self,
        host: Host,
        kinds: Sequence[str],
        excluded: frozenset[str],
        *,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._excluded = excluded
        self._lock = threading.Lock()
        self._changed: dict[JobName, None] = {}
        self._informers = InformerFactory(host, wait_seconds)
        self._adapters = find_kinds(kinds)
        self._jobs: dict[str, IndexedStore[Any]] = {}
        self._pods = self._follow_pods()
        self._groups = {
            key: PodGroupCache(each, self._pods.store)
            for key, each in self._adapters.items()
            if isinstance(each, GatedPods)
        }
        # Pods of such jobs that are gone and were not looked at since; the lock guards them.
        self._gone: dict[JobName, list[Pod]] = {}
        # Jobs of which it was said that they are left out.
        self._left_out: set[JobName] = set()
        self._namespaces = self._informers.make(NAMESPACES, IndexedStore())
        self._classes = self._informers.make(PRIORITY_CLASSES, IndexedStore())
        self._context = ClusterContextReader(
            ContextCaches(
                quotas=IndexedStore[ElasticQuota](),
                namespaces=self._namespaces.store,
                priority_classes=self._classes.store,
            ),
            leaves_to_kueue=lambda: False,
            on_all_changed=self._note_all,
            on_namespace_changed=lambda _: self._note_all(),
        )
        self._namespaces.add_handler(self._context.on_namespace)
        self._classes.add_handler(self._context.on_priority_class)
        self._related = RelatedObjectReader(host.client, host.clock)
        self.watches = [
            self._follow_jobs(each)
            for each in self._adapters.values()
            if not isinstance(each, GatedPods)
        ]

    # --- what is read -------------------------------------------------------------------------

    def take_changed(self) -> list[JobName]:
        """Return the jobs that may have changed since the last call, in order."""
        with self._lock:
            changed, self._changed = self._changed, {}
        return list(changed)

    def all_jobs(self) -> list[JobName]:
        """Return all jobs that are there."""
        caches: dict[str, IndexedStore[Any] | PodGroupCache] = {**self._jobs, **self._groups}
        return [
            JobName(kind, job.metadata.key) for kind, jobs in caches.items() for job in jobs.list()
        ]

    def read(self, name: JobName) -> ObservedJob | None:
        """Return a job as it is now, or None if it is gone, or does not count.

        Pods that are gone, and had ended before, are read once more: their job has ended.
        """
        reading = self._read_pods(name) if name.kind in self._groups else self._read_object(name)
        if reading is None:
            self._left_out.discard(name)
        elif reading.unknown and reading.node_since and name not in self._left_out:
            self._left_out.add(name)
            why = reading.unknown
            log.warning("a job that runs is left out", kind=name.kind, job=name.key, why=why)
        return reading

    def _read_object(self, name: JobName) -> ObservedJob | None:
        jobs = self._jobs.get(name.kind)  # a record may have kinds that are not followed any more
        job = None if jobs is None else jobs.get(name.key)
        if job is None:
            return None
        kind = self._adapters[name.kind].kind
        return self._read(name, job, pods_of_job(self._pods.store, kind, job.metadata, ""))

    def _read_pods(self, name: JobName) -> ObservedJob | None:
        with self._lock:
            gone = self._gone.pop(name, [])
        groups = self._groups[name.kind]
        job = groups.get(name.key)
        if job is not None:
            return self._read(name, job, job.pods)
        if not gone:
            return None
        self._note(name)  # at the next look it is not there
        job = groups.gather(name.key, gone)
        reading = self._read(name, job, job.pods)
        return reading if reading is not None and reading.outcome else None

    def _read(
        self,
        name: JobName,
        job: Any,  # noqa: ANN401 - of any kind
        pods: Sequence[Pod],
    ) -> ObservedJob | None:
        adapter, namespace = self._adapters[name.kind], job.metadata.namespace
        if namespace in self._excluded:
            return None
        context = self._context(namespace)
        try:
            return read_job(adapter, job, pods, context, self._related)
        except ApiFailure as failure:
            log.warning("a job cannot be read", kind=name.kind, job=name.key, error=str(failure))
            return read_job(adapter, job, pods, context, lambda *_: None)

    # --- informers ----------------------------------------------------------------------------

    def follow(
        self,
        resource_type: ResourceType[Any],
        on_change: Callable[[Any, Any], None],
        on_gone: Callable[[], None],
    ) -> KindWatch[Any]:
        """Return the watch of one more kind, which may not be served.

        Args:
            resource_type: The kind.
            on_change: Called with an object before and after a change; None if it was not there, or
                is not any more.
            on_gone: Called when the kind is not served any more.
        """
        watch = self._informers.follow(
            resource_type,
            IndexedStore(),
            on_made=lambda informer: informer.add_handler(on_change),
            on_gone=on_gone,
        )
        self.watches.append(watch)
        return watch

    def start(self) -> None:
        """Start the informers of what every cluster has; `step` starts the others."""
        self._informers.runs_threads = True
        for informer in self._shared():
            self._informers.start(informer)

    def step(self) -> float:
        """Look which kinds are served; return the seconds until the next look."""
        return min((watch.step() for watch in self.watches), default=POLL_SECONDS)

    def running(self) -> list[SharedInformer[Any]]:
        """Return the informers there are now."""
        served = (watch.informer for watch in self.watches)
        return [*self._shared(), *(each for each in served if each is not None)]

    def is_ready(self) -> bool:
        """Return whether all caches are complete, or their kinds not served."""
        synced = all(informer.has_synced() for informer in self._shared())
        return synced and all(watch.is_ready() for watch in self.watches)

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per cache."""
        checks: dict[str, Check] = {
            "namespaces-synced": self._namespaces.check_synced,
            "priorityclasses-synced": self._classes.check_synced,
            "pods-synced": self._pods.check_synced,
        }
        return checks | {f"{watch.name}-synced": watch.check for watch in self.watches}

    def _shared(self) -> tuple[SharedInformer[Any], ...]:
        return (self._namespaces, self._classes, self._pods)

    def _follow_pods(self) -> SharedInformer[Pod]:
        slim = slimmer_for(self._adapters.values())

        def keep(pod: Pod, before: Pod | None = None) -> Pod:
            return timed(pod, slim(pod, before), before)

        indexes = pod_indexes(self._adapters.values())
        pods: IndexedStore[Pod] = IndexedStore(indexes=indexes, transform=keep)
        has_pod_jobs = any(isinstance(each, GatedPods) for each in self._adapters.values())
        pod_type: ResourceType[Any] = ENDING_PODS if has_pod_jobs else FOLLOWED_PODS
        informer: SharedInformer[Pod] = self._informers.make(pod_type, pods)
        informer.add_handler(self._on_pod)
        return informer

    def _follow_jobs(self, adapter: GenericJob[Any]) -> KindWatch[Any]:
        kind = adapter.kind
        jobs: IndexedStore[Any] = IndexedStore(transform=JobTrimmer().slim)
        self._jobs[kind.key] = jobs
        job_type = job_type_of(adapter)

        def on_job(old: Any, new: Any) -> None:  # noqa: ANN401 - of any kind
            self._note(JobName(kind.key, (new or old).metadata.key))

        return self._informers.follow(
            job_type, jobs, on_made=lambda informer: informer.add_handler(on_job)
        )

    # --- changes ------------------------------------------------------------------------------

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None, "a change has a pod"
        self._note_pod_jobs(old, new)
        meta = pod.metadata
        owner = meta.controller_owner
        for key, adapter in self._adapters.items():
            if owner is not None and owner.kind == adapter.kind.kind:
                self._note(JobName(key, f"{meta.namespace}/{owner.name}"))
            elif isinstance(adapter, LabelsPods) and (name := adapter.job_name_of(meta.labels)):
                self._note(JobName(key, f"{meta.namespace}/{name}"))

    def _note_pod_jobs(self, old: Pod | None, new: Pod | None) -> None:
        for kind, groups in self._groups.items():
            for pod in (old, new):
                if pod is None or not (key := groups.key_of(pod)):
                    continue
                name = JobName(kind, key)
                if new is None:
                    self._keep_gone(name, pod)
                self._note(name)

    def _keep_gone(self, name: JobName, pod: Pod) -> None:
        with self._lock:
            self._gone.setdefault(name, []).append(pod)
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]

    def _note(self, name: JobName) -> None:
        with self._lock:
            self._changed[name] = None

    def _note_all(self) -> None:
        for name in self.all_jobs():
            self._note(name)


def find_kinds(kinds: Sequence[str]) -> dict[str, GenericJob[Any]]:
    """Return the adapters of these kinds, by key.

    Raises:
        FlagError: A kind is not known, or only this queue's gate tells its pods from others.
    """
    extensions = find_extensions()
    known = {
        key: each for key, each in extensions.items() if not each.kind.held_by_gates
    } | POD_JOBS
    others = [key for key in kinds if key not in known]
    if others or not kinds:
        gated = ", ".join(key for key in others if key in extensions)
        why = "not known"
        if gated:
            why = "not followed: only this queue's gate tells such pods from others"
        names = gated or ", ".join(others) or "none"
        raise FlagError(f"--shadow-kinds: {names} {why}; there are: {', '.join(sorted(known))}")
    return {key: known[key] for key in kinds}
