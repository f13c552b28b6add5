"""One per kind of job: its informer, its keys, its workers.

The kind's CRD may be missing. Then the server waits, says so in its log, its probe detail and a
metric, and starts when the CRD appears; it stops when the CRD goes. Nobody else notices.

Keys are `namespace/name` of jobs. They come from jobs, from units (through their consumer), and
from pods (through their owner, or the unit that they name).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic

import structlog

from queue_controllers.job_news import pause_of_job, pause_of_unit
from queue_controllers.jobframework.generic_job import GenericJob, JobT
from queue_controllers.jobframework.job_lookup import consumer_group, key_of_consumer
from queue_controllers.jobframework.reconciler import JobReconciler
from queue_controllers.pod_usage import is_news, owner_uid_of, pause_of, unit_key_of
from shared_api.client.errors import ApiFailure
from shared_api.informer.indexed_store import IndexedStore, T
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.work_queue import WorkQueue

LOOK_SECONDS: Final = 5.0
"""How often a server looks whether its kind is served; it must notice within 10 s."""

PENDING_LOOKS: Final = 2
"""How often in a row a kind must be missing before its server stops: API servers restart."""

OPENING_SECONDS: Final = 0.1
"""How often a server that has a kind to serve looks whether it may begin."""

log = structlog.get_logger("extension_server")


class KindWatch(Generic[T]):
    """Follows a kind that may not be there: its informer runs while the kind is served.

    Args:
        name: of the kind, for logs and probes.
        is_served: asks the API server; raises `ApiFailure`.
        make_informer: makes a fresh informer (one can not be started twice) with its handlers.
        clock: when to look again.
        start: starts an informer that was made; None where others run its step (tests).
        on_gone: told when the kind has gone.
    """

    def __init__(
        self,
        name: str,
        *,
        is_served: Callable[[], bool],
        make_informer: Callable[[], SharedInformer[T]],
        clock: Clock,
        start: Callable[[SharedInformer[T]], None] | None = None,
        on_gone: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.informer: SharedInformer[T] | None = None
        self._is_served = is_served
        self._make_informer = make_informer
        self._clock = clock
        self._start = start
        self._on_gone = on_gone
        self._look_at = 0.0
        self._was_asked = False
        self._missing = 0
        self._trouble = ""

    def step(self) -> float:
        """Look whether the kind is served, when it is time; return when to look again."""
        rest = self._look_at - self._clock.monotonic()
        if rest > 0:
            return rest
        self._look_at = self._clock.monotonic() + LOOK_SECONDS
        try:
            served = self._is_served()
            self._trouble = ""
        except ApiFailure as failure:
            self._trouble = str(failure)
            return LOOK_SECONDS
        self._missing = 0 if served else self._missing + 1
        if served and self.informer is None:
            self._begin()
        elif self.informer is not None and self._missing >= PENDING_LOOKS:
            self._end(self.informer)
        elif not served and not self._was_asked:
            log.warning("kind is not served, waiting for its CRD", kind=self.name)
        self._was_asked = True
        return LOOK_SECONDS

    def is_served(self) -> bool:
        """Say whether the kind was there at the last look."""
        return self.informer is not None

    def is_ready(self) -> bool:
        """Say whether nothing more can be known of the kind now: cached, or not served."""
        if self.informer is None:
            return self._was_asked
        return self.informer.has_synced()

    def check(self) -> tuple[bool, str]:
        """Judge for `/readyz`."""
        if self.informer is not None:
            return self.informer.check_synced()
        if self._was_asked:
            return True, f"{self.name} is not served, waiting for its CRD"
        return False, f"{self.name}: {self._trouble or 'not looked for yet'}"

    def _begin(self) -> None:
        log.info("kind is served", kind=self.name)
        informer = self._make_informer()
        self.informer = informer
        if self._start is not None:
            self._start(informer)

    def _end(self, informer: SharedInformer[T]) -> None:
        log.warning("kind is not served any more", kind=self.name)
        self.informer = None
        informer.stop()
        if self._on_gone is not None:
            self._on_gone()


class ExtensionServer(Generic[JobT]):
    """Everything that one kind of job needs in this process.

    Args:
        adapter: the facts of the kind.
        jobs: the cache of its objects; filled by the informer that `watch` makes.
        watch: follows the kind.
        units: the cache of all units.
        reconciler: looks at a key; its workers call `step`.
        queue: the keys.
        has_taken_over: whether this process decides at all.
    """

    def __init__(
        self,
        adapter: GenericJob[JobT],
        *,
        jobs: IndexedStore[JobT],
        watch: KindWatch[JobT],
        units: IndexedStore[QueueUnit],
        reconciler: JobReconciler[JobT],
        queue: WorkQueue[str],
        has_taken_over: Callable[[], bool],
    ) -> None:
        self.adapter = adapter
        self.watch = watch
        self.reconciler = reconciler
        self.queue = queue
        self._jobs = jobs
        self._units = units
        self._has_taken_over = has_taken_over
        self._open = False

    def step(self) -> float:
        """Look whether the kind is served and this process decides; return how long to rest.

        Keys whose delay is over come into line here, so that the workers need not wake for that.
        """
        rest = self.watch.step()
        informer = self.watch.informer
        synced = informer is not None and informer.has_synced()
        was_open, self._open = self._open, synced and self._has_taken_over()
        if self._open and not was_open:
            # Keys that came up until now were dropped.
            log.info("deciding about jobs", extension=self.name, jobs=len(self._jobs))
            self.look_at_all()
        due = self.queue.start_due()
        rest = rest if due is None else min(rest, due)
        return rest if self._open or informer is None else min(rest, OPENING_SECONDS)

    def is_open(self) -> bool:
        """Say whether jobs of this kind are acted on."""
        return self._open

    @property
    def name(self) -> str:
        """The extension's key."""
        return self.adapter.kind.key

    # --- handlers ----------------------------------------------------------------------------

    def on_job(self, old: JobT | None, new: JobT | None) -> None:
        """Take in a change of a job."""
        if new is None:
            if old is not None:
                self.reconciler.on_gone(old.metadata)
                self.queue.add(old.metadata.key)
            return
        informer = self.watch.informer
        if old is None and informer is not None and informer.has_synced():
            self.reconciler.on_arrival(new.metadata.uid)
        pause = pause_of_job(self.adapter, old, new)
        if pause is None or (old is not new and self.reconciler.has_looked_at_job(new.metadata)):
            return
        self.queue.add_after(new.metadata.key, pause)

    def on_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Take in a change of a unit: its job must be looked at."""
        if new is None and old is not None:
            self.reconciler.on_unit_gone(old.metadata.uid)
        unit = new if new is not None else old
        if unit is None or not (key := self._key_of_unit(unit)):
            return
        pause = pause_of_unit(old, new)
        was_seen = new is not None and self.reconciler.has_looked_at_unit(key, new.metadata)
        if pause is None or (old is not new and was_seen):
            return
        self.queue.add_after(key, pause)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod; those that come together are looked at together."""
        pod = new if new is not None else old
        if pod is None or not is_news(old, new):
            return
        for key in self._keys_of_pod(pod):
            self.queue.add_after(key, pause_of(self._wanted_pods(key)))

    def look_at_all(self) -> None:
        """Queue every job and the job of every unit: a new leader, or new surroundings."""
        for job in self._jobs.list():
            self.queue.add(job.metadata.key)
        for unit in self._units.list():
            if key := self._key_of_unit(unit):
                self.queue.add(key)

    def look_at_namespace(self, namespace: str) -> None:
        """Queue every job of a namespace."""
        for job in self._jobs.list():
            if job.metadata.namespace == namespace:
                self.queue.add(job.metadata.key)

    # --- keys --------------------------------------------------------------------------------

    def _key_of_unit(self, unit: QueueUnit) -> str:
        consumer, kind = unit.spec.consumer_ref, self.adapter.kind
        if consumer is None or consumer.kind != kind.kind or not consumer.name:
            return ""
        if consumer_group(consumer) != kind.group:
            return ""
        return key_of_consumer(consumer, unit.metadata.namespace)

    def _keys_of_pod(self, pod: Pod) -> set[str]:
        keys = set()
        owner, kind = pod.metadata.controller_owner, self.adapter.kind
        if owner is not None and owner.kind == kind.kind and owner_uid_of(pod):
            keys.add(f"{pod.metadata.namespace}/{owner.name}")
        if not kind.owns_pods and (unit := self._units.get(unit_key_of(pod))) is not None:
            keys.add(self._key_of_unit(unit))
        keys.discard("")
        return keys

    def _wanted_pods(self, key: str) -> int:
        """Return about how many pods the job has: as many as its sets say."""
        job = self._jobs.get(key)
        return 0 if job is None else sum(each.count for each in self.adapter.pod_sets(job))
