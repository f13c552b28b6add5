"""Read what is known of one job: from the caches, into the value that a decision is made by.

Nothing is remembered here and nothing is written, so the debug API reads a job in the same way as a
reconcile does.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, Protocol, cast

import msgspec

from queue_controllers.decision.eviction import MAX_JITTER
from queue_controllers.decision.job_ownership import (
    ClusterContext,
    Ownership,
    classify_ownership,
    is_queued_by_labels,
)
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodCounts, count_gated, count_pods, has_node
from queue_controllers.decision.job_view import JobMemory, JobView, LostUnit, Moment
from queue_controllers.decision.owners import Owners
from queue_controllers.decision.pod_admission import apply_pod_admission
from queue_controllers.decision.queue_unit_builder import choose_unit_name, is_created_by_us
from queue_controllers.decision.unjudged import UnjudgedJob
from queue_controllers.job_families.gated_pods import PodGroup
from queue_controllers.jobframework.generic_job import (
    AWAITS_PREVIEW,
    GenericJob,
    JobFacts,
    JobKind,
    JobT,
    ManagedElsewhere,
    NeedsOther,
    OtherObject,
    pod_set_of_pod,
    read_facts,
)
from shared_api.informer.indexed_store import IndexedStore, IndexFunction
from shared_api.objects.meta import NO_UID, ObjectMeta, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import occupies_quota
from shared_api.well_known_labels import SUSPEND


class Lookups(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about other objects than the job, its unit and its pods."""

    owners: OwnerLookup
    """What is known about the owners of jobs."""
    others: RelatedObjectLookup
    """What other objects say about a job."""
    previews: JobPreviews | None = None
    """The API server's previews of pods; None if they are not enabled."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where the readers of all kinds read; `clock` and `rng` date a view and spread backoffs."""

    units: IndexedStore[QueueUnit]
    """All units, with `unit_indexes`."""
    pods: PodLookup
    """The pods of a job."""
    context: ClusterContextLookup
    """What is known outside of jobs."""
    clock: Clock
    """The time of decisions."""
    rng: random.Random
    """Spreads the ends of backoffs."""


class ReadJob(NamedTuple, Generic[JobT]):
    """A job with its unit, what it says, and whether the queue manages it.

    Attributes:
        job: The job, with what another object says about it.
        unit: Its unit, if it has one.
        facts: What the job says, as the cluster makes its pods of it.
        context: What is known outside of it.
        ownership: Whether the queue manages it, and why or why not.
    """

    job: JobT
    unit: QueueUnit | None
    facts: JobFacts
    context: ClusterContext
    ownership: Ownership


class JobReader(Generic[JobT]):
    """Reads the jobs of one kind.

    Args:
        adapter: The facts of the kind.
        sources: Where it reads.
        jobs: The jobs of the kind.
        settings: Those of the extension.
        wake: Called with a job's key when a preview that was asked for has come.
    """

    def __init__(
        self,
        adapter: GenericJob[JobT],
        sources: Sources,
        jobs: JobCache[JobT],
        settings: JobSettings,
        wake: Callable[[str], None],
    ) -> None:
        self._adapter = adapter
        self._sources = sources
        self._jobs = jobs
        self._settings = settings
        self._wake = wake
        self._needs_other = adapter if isinstance(adapter, NeedsOther) else None

    def find(self, key: str) -> tuple[JobT | None, UnitsOfJob]:
        """Return the job with this key, if it is there, and the units that name it."""
        job = self._jobs.get(key)
        uid = None if job is None else job.metadata.uid
        return job, find_units(self._sources.units, self._adapter.kind, key, uid)

    def is_queued_at_creation(self, created: ObjectMeta) -> bool:
        """Return whether the queue manages a job that is created so, if no owner does."""
        context = self._sources.context(created.namespace)
        return is_queued_by_labels(created, self._adapter.kind, context, self._settings)

    def read(self, job: JobT, unit: QueueUnit | None, lookups: Lookups) -> ReadJob[JobT]:
        """Return what a job says, and what another object says about it.

        What `lookups` raise is passed on.
        """
        read = self._read(job, unit, lookups)
        whole = self._with_other(read, lookups)
        return read if whole is None else self._read(whole, unit, lookups)

    def _read(self, job: JobT, unit: QueueUnit | None, lookups: Lookups) -> ReadJob[JobT]:
        adapter, namespace = self._adapter, job.metadata.namespace
        written = read_facts(adapter, job, held_by_annotation=self._settings.held_by_annotation)
        context = self._sources.context(namespace)
        facts = apply_pod_admission(written, context.admission)
        ownership = classify_ownership(
            facts,
            context,
            self._settings,
            has_unit=unit is not None,
            owners=lookups.owners(namespace),
        )
        if lookups.previews is not None and ownership.managed:
            facts = lookups.previews(
                PreviewRequest(
                    adapter=adapter,
                    job=written,
                    context=context,
                    has_unit=unit is not None,
                    wake=self._wake,
                )
            )
        return ReadJob(job, unit, facts, context, ownership)

    def _with_other(self, read: ReadJob[JobT], lookups: Lookups) -> JobT | None:
        """Return the job with what another object says about it; None if nothing is added."""
        adapter, facts, job = self._needs_other, read.facts, read.job
        if adapter is None or facts.status.outcome is not None:
            return None
        if facts.unknown_demand in {"", AWAITS_PREVIEW} or not read.ownership.managed:
            return None
        wanted = adapter.other_of(job)
        other = None if wanted is None else lookups.others(job.metadata, wanted)
        return None if other is None else cast("JobT", adapter.with_other(job, other))

    def read_unjudged(self, job: JobT, unit: QueueUnit | None) -> UnjudgedJob:
        """Return what is known of a job without judging it: reading more of it may have failed."""
        adapter, meta = self._adapter, job.metadata
        kind = adapter.kind
        pods = job.pods if isinstance(job, PodGroup) else self._pods_of(kind, meta, unit)
        status = adapter.status_of(job)
        is_foreign = isinstance(adapter, ManagedElsewhere) and bool(adapter.foreign_manager(job))
        is_alone = meta.controller_owner is None and not is_foreign
        suspended = adapter.is_suspended(job)
        if self._settings.held_by_annotation or not kind.has_suspend_field:
            suspended = suspended or meta.annotations.get(SUSPEND) == "true"
        return UnjudgedJob(
            kind=kind,
            metadata=meta,
            suspended=suspended,
            must_run=adapter.why_not_suspendable(job),
            is_queued=unit is not None or (is_alone and self.is_queued_at_creation(meta)),
            has_ended=status.outcome is not None,
            unit=unit,
            # Pods cannot be watched at times.
            runs=any(map(has_node, pods)) or (not pods and status.ready > 0),
        )

    def _pods_of(self, kind: JobKind, job: ObjectMeta, unit: QueueUnit | None) -> list[Pod]:
        return self._sources.pods(kind, job, "" if unit is None else unit.metadata.key)

    def view(self, read: ReadJob[JobT], memory: JobMemory, lost: LostUnit | None) -> JobView:
        """Return what a decision about the job is made by.

        Args:
            read: The job, as `JobReader.read` returned it.
            memory: What is remembered of it.
            lost: What a unit of it that has vanished said, if it counts.
        """
        unit, meta, sources = read.unit, read.job.metadata, self._sources
        taken = False
        if unit is None:
            name, _ = choose_unit_name(read.facts, is_taken=False)
            taken = is_name_taken(sources.units, meta.namespace, name)
        asked = self._settings.report_unqueued_jobs and not read.ownership.managed
        return JobView(
            job=read.facts,
            unit=unit,
            pods=self._count_pods(read),
            ownership=read.ownership,
            context=read.context,
            settings=self._settings,
            memory=memory,
            lost=lost,
            has_queued_neighbors=asked and has_units(sources.units, meta.namespace),
            name_is_taken=taken,
            jitter=sources.rng.uniform(-MAX_JITTER, MAX_JITTER),
            moment=Moment(monotonic=sources.clock.monotonic(), wall=sources.clock.now()),
        )

    def _count_pods(self, read: ReadJob[JobT]) -> PodCounts:
        adapter, job, unit = self._adapter, read.job, read.unit
        names = [pod_set.name for pod_set in read.facts.pod_sets]

        def pod_set_of(pod: Pod) -> str:
            return pod_set_of_pod(adapter, pod, names)

        # A job that is made of pods is used as it was built: to build it again could give another
        # job.
        pods = (
            job.pods
            if isinstance(job, PodGroup)
            else self._pods_of(adapter.kind, job.metadata, unit)
        )
        if adapter.kind.held_by_gates:
            return count_gated(pods, pod_set_of)
        owner = NO_UID if adapter.kind.owns_pods else job.metadata.uid
        return count_pods(pods, pod_set_of, owner)


# --- what is asked, and the units of a job --------------------------------------------------------

BY_CONSUMER_NAME: Final = "consumer-name"
BY_NAMESPACE: Final = "namespace"


class JobCache(Protocol[JobT]):
    """The jobs of a kind, by key."""

    def get(self, key: str) -> JobT | None:
        """Return the job with this key (`namespace/name`)."""

    def list(self) -> builtins.list[JobT]:
        """Return all jobs."""

    def __len__(self) -> int:
        """Return how many jobs there are."""


class PodLookup(Protocol):
    """The pods of a job."""

    def __call__(self, kind: JobKind, job: ObjectMeta, unit_key: str) -> list[Pod]:
        """Return the pods of one job, finished ones included."""


class ClusterContextLookup(Protocol):
    """What is known outside of jobs."""

    def __call__(self, namespace: str) -> ClusterContext:
        """Return what is known about a namespace."""


class OwnerLookup(Protocol):
    """What is known about owners."""

    def __call__(self, namespace: str) -> Owners:
        """Return the answers about the owners of jobs in a namespace."""


class RelatedObjectLookup(Protocol):
    """What other objects say about a job."""

    def __call__(self, job: ObjectMeta, other: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        """Return the object, None if it does not exist; may ask the API server.

        Raises ApiFailure.
        """


class EventLookup(Protocol):
    """What other programs say about a job in events."""

    def __call__(self, job: ObjectMeta, since: datetime | None) -> str:
        """Return the newest warning about a job that is not from before `since`, or "".

        Asks the API server, and never raises: the caller continues without an answer.
        """


class PreviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose pods are to be previewed."""

    adapter: GenericJob[Any]
    job: JobFacts
    """The job, with its pod sets as they are written."""
    context: ClusterContext
    has_unit: bool
    wake: Callable[[str], None]
    """Called with the job's key when a new answer has arrived."""


class JobPreviews(Protocol):
    """Previews the pods of jobs, without having them created."""

    def __call__(self, request: PreviewRequest) -> JobFacts:
        """Return the facts of the job with its pod sets as its pods will be; never waits."""


class UnitsOfJob(msgspec.Struct, frozen=True):
    """The units that name one job, by uid or by name."""

    own: QueueUnit | None = None
    """The one that counts: the charged one, else the oldest."""
    surplus: tuple[QueueUnit, ...] = ()
    """Further units of the same job, made by this program: one job, one unit."""
    orphans: tuple[QueueUnit, ...] = ()
    """Units of an earlier job of this name, created by this program."""


def unit_indexes(*, by_namespace: bool = False) -> Mapping[str, IndexFunction[QueueUnit]]:
    """Return the indexes of the unit cache that this module uses.

    `by_namespace`: for `has_units` as well; it costs an entry per unit.
    """
    indexes: dict[str, IndexFunction[QueueUnit]] = {BY_CONSUMER_NAME: _consumer_names_of}
    if by_namespace:
        indexes[BY_NAMESPACE] = lambda unit: (unit.metadata.namespace,)
    return indexes


def has_units(units: IndexedStore[QueueUnit], namespace: str) -> bool:
    """Return whether there is a unit in a namespace."""
    return bool(units.by_index(BY_NAMESPACE, namespace))


def find_units(
    units: IndexedStore[QueueUnit], kind: JobKind, key: str, uid: Uid | None
) -> UnitsOfJob:
    """Return the units of the job with this key and uid (None if there is no such job).

    A unit is found by its consumer's uid. A unit that was created without one (by hand, by
    upstream) counts if it has the job as owner, or if it names the job in full and has no owner.
    One in another namespace never counts: units there must not affect jobs here.
    """
    named = units.by_index(BY_CONSUMER_NAME, _name_value(kind.group, kind.kind, key))
    mine: dict[str, QueueUnit] = {}
    orphans = []
    for unit in named:
        consumer = unit.spec.consumer_ref
        assert consumer is not None
        if uid is not None and (consumer.uid == uid or _is_nameless(unit, consumer, uid)):
            mine[unit.metadata.uid] = unit
        elif consumer.uid and consumer.uid != uid and is_created_by_us(unit):
            orphans.append(unit)
    if not mine:
        return UnitsOfJob(orphans=tuple(orphans))
    own, *others = sorted(mine.values(), key=_rank)
    surplus = tuple(each for each in others if is_created_by_us(each) and not occupies_quota(each))
    return UnitsOfJob(own=own, surplus=surplus, orphans=tuple(orphans))


def is_name_taken(units: IndexedStore[QueueUnit], namespace: str, name: str) -> bool:
    """Return whether a job for which no unit was found must give its unit another name."""
    return units.get(f"{namespace}/{name}") is not None


def key_of_consumer(consumer: ConsumerReference, namespace: str) -> str:
    """Return the key of the job that a unit in this namespace names; "" for one in another."""
    return f"{namespace}/{consumer.name}" if consumer.namespace in {"", namespace} else ""


def consumer_group(consumer: ConsumerReference) -> str:
    """Return the API group of the job, whichever version the unit names."""
    group, slash, _ = consumer.api_version.partition("/")
    return group if slash else ""


def _rank(unit: QueueUnit) -> tuple[bool, str, str]:
    meta = unit.metadata
    return (not occupies_quota(unit), meta.creation_timestamp, meta.name)


def _is_nameless(unit: QueueUnit, consumer: ConsumerReference, uid: Uid) -> bool:
    """Return whether a unit without a consumer uid is this job's: owned by it, or by nothing."""
    if consumer.uid:
        return False
    owners = [owner.uid for owner in unit.metadata.owner_references]
    return uid in owners or not owners


def _consumer_names_of(unit: QueueUnit) -> tuple[str, ...]:
    consumer = unit.spec.consumer_ref
    if consumer is None or not consumer.name:
        return ()
    key = key_of_consumer(consumer, unit.metadata.namespace)
    return (_name_value(consumer_group(consumer), consumer.kind, key),) if key else ()


def _name_value(group: str, kind: str, key: str) -> str:
    return f"{group}/{kind}/{key}"
