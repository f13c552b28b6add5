"""Reconcile one key: read the caches, decide, execute.

A conflict or a refusal of a write is no error: the object is read again and the job reconciled
again. Only what persists (a schema or a policy that refuses, a missing permission) is reported on
the job, once, and retried with growing pauses.

No key is worked on by two threads (the work queue sees to that), so the memory of a job has one
writer at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol

import msgspec
import structlog

from queue_controllers.decision.actions import (
    JOB_WRITES,
    REFUSAL_EVENTS,
    Action,
    DeleteUnit,
    EventType,
    MarkJob,
    RecordJobEvent,
    ReleaseJob,
    SuspendJob,
)
from queue_controllers.decision.decide import decide
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_view import (
    NOTHING_KNOWN,
    Decision,
    JobMemory,
    JobView,
    LostUnit,
)
from queue_controllers.decision.pending import read_lost
from queue_controllers.decision.queue_unit_builder import choose_unit_name
from queue_controllers.decision.running import STAYS_SECONDS, counts_due
from queue_controllers.decision.unjudged import decide_unjudged, without_annotations
from queue_controllers.jobframework.generic_job import GenericJob, JobT, read_facts
from queue_controllers.reconcile.execute import Executor, NotLeadingError
from queue_controllers.reconcile.job_reader import (
    EventLookup,
    JobCache,
    JobReader,
    Lookups,
    ReadJob,
    Sources,
    find_units,
)
from shared_api.client.errors import (
    AlreadyExists,
    ApiFailure,
    BadRequest,
    Conflict,
    ConnectionLost,
    Forbidden,
    Invalid,
    NotFound,
)
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.work_queue import WorkQueue

ORPHAN_SECONDS: Final = 5.0
"""How long a unit outlives its job before it is deleted from here: the cluster's own garbage
collector is nearly always quicker, and then nothing need be sent."""

NOT_LEADING_SECONDS: Final = 1.0
"""How long a key waits whose write was not sent because too little of the lease was left."""

MAX_RECONCILES: Final = 3
"""Reconciles of one key in one step: after a write it is reconciled again, until there is nothing
to do. What is left then comes back with its watch event."""

MIN_REQUEUE_SECONDS: Final = 0.01
"""Least time until a key is reconciled again: zero would loop forever."""

MAX_MESSAGE_CHARS: Final = 500
"""Limit of an event's message about a write that the server refuses."""

MAX_WHY_CHARS: Final = 200
"""What an event says of an exception: it may quote what a user wrote."""

MAX_CONFLICTS: Final = 3
"""Conflicts of one key in a row that count as passing; more are a refusal, such as a webhook's."""

log = structlog.get_logger("job_reconciler")


class ReconcilerObserver(Protocol):
    """Receives counts, for metrics. Called on the workers' threads."""

    def on_action(self, extension: str, action: str, outcome: str) -> None:
        """Count an action that was carried out ("done") or failed (the kind of the error)."""

    def on_error(self, extension: str) -> None:
        """Count a reconcile that failed, for another reason than a passing conflict."""


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the reconcilers of all kinds share."""

    sources: Sources
    """Where jobs, units and pods are read."""
    lookups: Lookups
    """What is known about other objects."""
    events: EventLookup
    """Why a job has no pods, as events have it."""
    observer: ReconcilerObserver | None = None
    """Counts."""


class _Versions:
    """The versions of a job and its unit that were reconciled, our own writes to them included."""

    def __init__(self, job: ObjectMeta, unit: QueueUnit | None) -> None:
        self.job = job.resource_version
        self.unit = "" if unit is None else unit.metadata.resource_version

    def note(self, action: Action, written: ObjectMeta | None) -> None:
        """Note what an action has written; None for nothing."""
        if written is None:
            return
        if isinstance(action, JOB_WRITES):
            self.job = written.resource_version
        else:
            self.unit = written.resource_version


class _Reconciled(NamedTuple):
    """A reconcile that found nothing more to do.

    Attributes:
        job: The version of the job.
        unit: The version of its unit, "" without one.
        wanted_pods: How many pods the job wanted.
        counts_due: From when on counts of pods may be corrected (monotonic), if nothing else
            depends on a pod's success; else None.
    """

    job: str
    unit: str
    wanted_pods: int
    counts_due: float | None = None


_NOT_RECONCILED: Final = _Reconciled("", "", 0)


class Part(Enum):
    """An object whose changes make a job be reconciled."""

    JOB = "job"
    UNIT = "unit"


class _Change(NamedTuple):
    """A change that came while its job was reconciled: to which version, and how it may wait."""

    version: str
    pause_seconds: float


class JobReconciler(Generic[JobT]):
    """Reconciles the jobs of one kind.

    Args:
        adapter: The facts of the kind.
        executor: Carries actions out.
        shared: What it shares with the reconcilers of other kinds.
        jobs: The jobs of the kind.
        settings: Those of this extension.
        queue: Keys of jobs (`namespace/name`).
        is_open: Whether this process decides at all (it leads, and its caches are complete).
    """

    def __init__(
        self,
        adapter: GenericJob[JobT],
        executor: Executor[JobT],
        shared: SharedParts,
        *,
        jobs: JobCache[JobT],
        settings: JobSettings,
        queue: WorkQueue[str],
        is_open: Callable[[], bool],
    ) -> None:
        self._adapter = adapter
        self._executor = executor
        self._reader = JobReader(adapter, shared.sources, jobs, settings, queue.add)
        self._units = shared.sources.units
        self._lookups = shared.lookups
        self._events = shared.events
        self._clock = shared.sources.clock
        self._observer = shared.observer
        self._settings = settings
        self._jobs = jobs
        self._queue = queue
        self._is_open = is_open
        # Written by the worker that has the key, and by the job handler before and after a job's
        # life; dicts allow that without a lock.
        self._memories: dict[Uid, JobMemory] = {}
        # A watch event of just the versions that were reconciled, as every write of our own causes,
        # needs no reconcile.
        self._reconciled: dict[str, _Reconciled] = {}
        # The echo of a write often comes before its answer. So what changes while a worker has the
        # key is judged by that worker, at its end: it knows then which versions are its own.
        self._at_work: set[str] = set()
        self._changed: dict[tuple[str, Part], _Change] = {}
        # Since when the counts of a job's pods have differed, of one that was not reconciled then.
        self._miscounted: dict[str, float] = {}
        self._orphan_since: dict[Uid, float] = {}
        # Jobs whose unit has vanished: the job may be gone as well, with its event still to come.
        self._unit_vanished: dict[Uid, None] = {}
        # What a vanished unit passes on to the next unit of its job.
        self._lost: dict[Uid, LostUnit] = {}

    @property
    def remembered_jobs(self) -> int:
        """The number of jobs of which anything is remembered."""
        return len(self._memories)

    # --- watch events -------------------------------------------------------------------------

    def on_creation(self, created: ObjectMeta) -> None:
        """Note that a job was created as one of the queue's.

        Args:
            created: Its metadata at its creation: the labels may have changed before it is decided.
        """
        if self._reader.is_queued_at_creation(created):
            self._memories.setdefault(created.uid, JobMemory(arrived=True))

    def on_gone(self, gone: ObjectMeta) -> None:
        """Forget a job."""
        self._memories.pop(gone.uid, None)
        self._unit_vanished.pop(gone.uid, None)
        self._lost.pop(gone.uid, None)
        self._reconciled.pop(gone.key, None)
        self._miscounted.pop(gone.key, None)

    def on_unit_gone(self, key: str, unit: QueueUnit) -> None:
        """Forget a unit of the job with this key."""
        self._orphan_since.pop(unit.metadata.uid, None)
        job, consumer = self._jobs.get(key), unit.spec.consumer_ref
        if job is not None and consumer is not None and consumer.uid == job.metadata.uid:
            self._unit_vanished[consumer.uid] = None
            self._note_lost(consumer.uid, read_lost(unit))

    def _note_lost(self, job: Uid, lost: LostUnit | None) -> None:
        if lost is None:
            self._lost.pop(job, None)
        else:
            self._lost[job] = lost

    def has_reconciled_job(self, job: ObjectMeta) -> bool:
        """Return whether this very version was reconciled, with nothing to do."""
        return self._reconciled.get(job.key, _NOT_RECONCILED).job == job.resource_version

    def has_reconciled_unit(self, key: str, unit: ObjectMeta) -> bool:
        """Return whether this version of the unit was, in a reconcile of the job with this key."""
        return self._reconciled.get(key, _NOT_RECONCILED).unit == unit.resource_version

    def judges_itself(self, key: str, part: Part, version: str, pause_seconds: float) -> bool:
        """Return whether a worker has this key now, and queues it again if the change is news.

        Called on the thread of the part's informer.
        """
        if key not in self._at_work:
            return False
        self._changed[key, part] = _Change(version, pause_seconds)
        # The worker first gives the key up, then takes the change: one of the two finds the other.
        return key in self._at_work or self._changed.pop((key, part), None) is None

    def pause_of_success(self, key: str) -> float | None:
        """Return how many seconds a pod's success may wait; None: as long as any change of a pod.

        The next reconcile counts it from now on.
        """
        due = self._reconciled.get(key, _NOT_RECONCILED).counts_due
        if due is None:
            return None
        now = self._clock.monotonic()
        self._miscounted.setdefault(key, now)
        return max(due - now, STAYS_SECONDS)

    def wanted_pods(self, key: str) -> int:
        """Return how many pods the job with this key wanted at the last reconcile, 0 if unknown."""
        return self._reconciled.get(key, _NOT_RECONCILED).wanted_pods

    # --- the debug API -----------------------------------------------------------------------

    def view_of(self, key: str, lookups: Lookups) -> JobView | None:
        """Return what a reconcile of the job with this key would decide by; None without the job.

        From any thread. Nothing is written, and only `lookups` may ask others; what they raise is
        passed on.
        """
        job, units = self._reader.find(key)
        return None if job is None else self._view(self._reader.read(job, units.own, lookups))

    # --- the step ----------------------------------------------------------------------------

    def step(self) -> float | None:
        """Reconcile one key; return None if there is none, until woken."""
        rest = self._queue.work(self._work_on, self._on_exception)
        # The time of delays is kept elsewhere: one alarm for all workers.
        return 0.0 if rest == 0.0 else None

    def _work_on(self, key: str) -> None:
        if not self._is_open():
            return  # all keys are queued when it opens
        self._at_work.add(key)
        try:
            self._try(key)
        finally:
            # In this order: whoever notes a change after this look finds the key given up, and
            # takes its change back (`judges_itself`).
            self._at_work.discard(key)
            self._judge_changes(key)

    def _judge_changes(self, key: str) -> None:
        """Queue the key again if objects have changed since it was taken, not by its own writes."""
        done = self._reconciled.get(key, _NOT_RECONCILED)
        for part, version in ((Part.JOB, done.job), (Part.UNIT, done.unit)):
            change = self._changed.pop((key, part), None)
            if change is not None and change.version != version:
                self._queue.add_after(key, change.pause_seconds)

    def _try(self, key: str) -> None:
        try:
            self._reconcile(key)
            self._queue.forget(key)
        except NotLeadingError:
            self._queue.add_after(key, NOT_LEADING_SECONDS)
        except (Conflict, AlreadyExists) as news:
            if self._queue.retries(key) >= MAX_CONFLICTS:
                self._note_failure(key, news)
            self._read_again(key)
        except ApiFailure as failure:
            self._note_failure(key, failure)
            if failure.retry_after_seconds:
                # The server is busy: a read now would be refused as well.
                self._queue.add_rate_limited(key, at_least_seconds=failure.retry_after_seconds)
            elif isinstance(failure, ConnectionLost | NotFound | Invalid):
                self._read_again(key)
            else:
                self._queue.add_rate_limited(key)

    def _on_exception(self, key: str, error: Exception) -> None:
        """Hold a job that cannot be judged and runs nothing, and tell its owner; not its end.

        What this raises counts as another failure of the key, like the one that it follows.
        """
        if self._observer is not None:
            self._observer.on_error(self._adapter.kind.key)
        job, units = self._reader.find(key)
        if job is None or not self._is_open():
            return
        unjudged = self._reader.read_unjudged(job, units.own)
        memory = self._memories.get(job.metadata.uid, NOTHING_KNOWN)
        why = f"{type(error).__name__}: {error}"[:MAX_WHY_CHARS]
        decision = decide_unjudged(unjudged, self._settings, memory, why)
        for action in decision.actions:
            try:
                self._executor.execute(action, job)
            except Invalid:
                if not isinstance(action, SuspendJob):
                    raise
                # Perhaps only annotations are refused: the job has no room for them.
                self._executor.execute(without_annotations(action, unjudged, self._settings), job)
            self._count(type(action).__name__, "done")
        self._remember(job.metadata, decision.memory)

    def _note_failure(self, key: str, failure: ApiFailure) -> None:
        log.warning("could not act on a job", key=key, error=str(failure))
        if self._observer is not None:
            self._observer.on_error(self._adapter.kind.key)

    def _read_again(self, key: str) -> None:
        """Bring the caches up to date for one key, then reconcile it again, with growing pauses."""
        asked = 0.0
        try:
            namespace, _, name = key.partition("/")
            job = self._executor.read_job(namespace, name)
            if job is not None:
                own = find_units(self._units, self._adapter.kind, key, job.metadata.uid).own
                facts = read_facts(self._adapter, job, held_by_annotation=False)
                wanted, _ = choose_unit_name(facts, is_taken=False)
                unique, _ = choose_unit_name(facts, is_taken=True)
                names = {wanted, unique} if own is None else {own.metadata.name}
                for unit_name in sorted(names):
                    self._executor.read_unit(namespace, unit_name)
        except ApiFailure as failure:
            log.debug("could not read again", key=key, error=str(failure))
            asked = failure.retry_after_seconds
        self._queue.add_rate_limited(key, at_least_seconds=asked)

    def _reconcile(self, key: str) -> None:
        try:
            for _ in range(MAX_RECONCILES):
                # Before the caches are read: a reconcile that fails must leave no version behind
                # whose watch events would be skipped.
                self._reconciled.pop(key, None)
                job, units = self._reader.find(key)
                if units.own is not None:
                    # It looked like an orphan while the cache of jobs was behind that of units.
                    self._orphan_since.pop(units.own.metadata.uid, None)
                if job is None or not self._reconcile_once(key, job, units.own):
                    return
        finally:
            # Neither may keep the other from being done: a vanished job's unit frees its quota
            # whatever other jobs do.
            _, units = self._reader.find(key)
            for unit in units.orphans:
                self._delete_orphan(key, unit)
            for unit in units.surplus:  # at once: admitted, it would be the one that counts
                if units.own is not None and self._executor.delete_second(units.own, unit):
                    self._count("DeleteUnit", "done")

    def _reconcile_once(self, key: str, job: JobT, own: QueueUnit | None) -> bool:
        """Do what one reconcile of a job decides; return whether there may be more to do now."""
        found = self._reader.read(job, own, self._lookups)
        job, meta = found.job, job.metadata
        # Before the view, which has what a vanished unit passes on.
        if own is None and not found.ownership.managed:
            self._note_left_queue(meta.uid)
        view = self._view(found)
        # After the view, which has since when the counts have differed. What differs from now on
        # counts from the next success of a pod.
        self._miscounted.pop(meta.key, None)
        decision = decide(view)
        # After the decision: the job may have gone while the view was read.
        if own is None and (again := self._recheck_job(key, meta)) is not None:
            return again
        if decision.needs_events:
            self._remember(meta, self._with_why(decision.memory, meta, view))
            self._queue.add_after(key, MIN_REQUEUE_SECONDS)  # for the last reconcile of a step
            return True
        seen = _Versions(meta, own)
        self._remember(meta, self._carry_out(decision, job, view, seen))
        if decision.requeue_after_seconds is not None:
            rest = max(decision.requeue_after_seconds, MIN_REQUEUE_SECONDS)
            self._queue.add_after(key, rest)
        if decision.actions and not decision.is_complete:
            return True
        wanted = sum(each.count for each in found.facts.pod_sets)
        due = None
        # Not `own`, but the unit as this reconcile has left it: its writes are in the cache.
        if own is not None and (unit := self._units.get(own.metadata.key)) is not None:
            due = counts_due(view, unit, self._memories.get(meta.uid, NOTHING_KNOWN))
        self._reconciled[key] = _Reconciled(seen.job, seen.unit, wanted, due)
        return False

    def _view(self, found: ReadJob[JobT]) -> JobView:
        uid, key = found.job.metadata.uid, found.job.metadata.key
        memory = self._memories.get(uid, NOTHING_KNOWN)
        since = self._miscounted.get(key)
        if since is not None and memory.miscounted_since is None:
            memory = msgspec.structs.replace(memory, miscounted_since=since)
        return self._reader.view(found, memory, self._lost.get(uid))

    def _recheck_job(self, key: str, job: ObjectMeta) -> bool | None:
        """Return None if a unit may be created for the job, else whether to reconcile again."""
        has_vanished = job.uid in self._unit_vanished
        # Others may have gone since this reconcile began: that they lost their unit is forgotten
        # with them.
        read = self._executor.read_job
        found = read(job.namespace, job.name) if has_vanished else self._jobs.get(key)
        if found is None:
            return False  # its watch event will come
        if has_vanished:
            self._unit_vanished.pop(job.uid, None)
        return None if found.metadata.uid == job.uid else True

    def _note_left_queue(self, job: Uid) -> None:
        """Note that a job without a unit is no longer managed, so it may run from now on.

        Its queue position is kept, should it come back.
        """
        lost = self._lost.get(job)
        if lost is not None and lost.waited:
            left = None if lost.contested is None else LostUnit(contested=lost.contested)
            self._note_lost(job, left)

    def _remember(self, job: ObjectMeta, memory: JobMemory) -> None:
        if memory == NOTHING_KNOWN:
            self._memories.pop(job.uid, None)
            return
        if self._memories.get(job.uid) == memory:
            return
        self._memories[job.uid] = memory
        # The cache loses a job before its handler forgets it: once it is gone, no handler would any
        # more.
        there = self._jobs.get(job.key)
        if there is None or there.metadata.uid != job.uid:
            self._memories.pop(job.uid, None)

    def _with_why(self, memory: JobMemory, job: ObjectMeta, view: JobView) -> JobMemory:
        """Return the memory with what events say about a job that has no pods.

        The decision is not carried out, so its events are still to be recorded.
        """
        released_at = None if view.job is None else view.job.released_at
        return msgspec.structs.replace(
            memory,
            events_read_at=view.moment.wall,
            why=self._events(job, released_at),
            reported_events=view.memory.reported_events,
        )

    def _carry_out(
        self, decision: Decision, job: JobT, view: JobView, seen: _Versions
    ) -> JobMemory:
        """Execute the actions in order; return what to remember. The first failure ends it."""
        if decision.actions:
            self._queue.hand_over()
        for action in decision.actions:
            name = type(action).__name__
            try:
                seen.note(action, self._executor.execute(action, job))
            except (ApiFailure, NotLeadingError) as failure:
                self._count(name, type(failure).__name__)
                if isinstance(failure, BadRequest | Forbidden | Invalid):
                    self._note_refusal(action, failure, job, view.memory)
                raise
            self._count(name, "done")
        return decision.memory

    def _note_refusal(
        self,
        action: Action,
        refusal: BadRequest | Forbidden | Invalid,
        job: JobT,
        memory: JobMemory,
    ) -> None:
        """Remember that a write was refused, and report it on the job, once."""
        if isinstance(action, ReleaseJob):
            # Perhaps only the labels are refused (a template that may not change now): retry once
            # without. If that is refused as well, it was not the labels.
            without = bool(action.stamps) and isinstance(refusal, Invalid)
            memory = msgspec.structs.replace(memory, stamp_refused=without)
            if without:
                self._remember(job.metadata, memory)
                return
        if isinstance(action, SuspendJob) and action.mark and isinstance(refusal, Invalid):
            action = MarkJob(marked=True)  # likewise: perhaps only the mark is refused
        reason, words = REFUSAL_EVENTS.get(type(action), ("", ""))
        if reason and reason not in memory.reported_events:
            memory = memory.with_reported(reason)
            message = f"{words}: {refusal.message}"[:MAX_MESSAGE_CHARS]
            event = RecordJobEvent(reason=reason, message=message, type=EventType.WARNING)
            self._executor.execute(event, job)
        self._remember(job.metadata, memory)

    def _delete_orphan(self, key: str, unit: QueueUnit) -> None:
        """Delete a unit that has no job any more, once the garbage collector had its time."""
        meta = unit.metadata
        if meta.deletion_timestamp is not None:
            return
        now = self._clock.monotonic()
        since = self._orphan_since.setdefault(meta.uid, now)
        rest = since + ORPHAN_SECONDS - now
        if rest > 0:
            self._queue.add_after(key, rest)
            return
        namespace, _, name = key.partition("/")
        job = self._executor.read_job(namespace, name)
        uid = None if job is None else job.metadata.uid
        own = find_units(self._units, self._adapter.kind, key, uid).own
        if own is not None and own.metadata.uid == meta.uid:
            return  # the cache was behind
        if job is None and self._executor.awaits_pods(unit):
            self._queue.add_after(key, ORPHAN_SECONDS)
            return
        try:
            self._executor.delete_unit(DeleteUnit(unit=unit))
            self._count("DeleteUnit", "done")
        except NotFound:
            pass

    def _count(self, action: str, outcome: str) -> None:
        if self._observer is not None:
            self._observer.on_action(self._adapter.kind.key, action, outcome)
