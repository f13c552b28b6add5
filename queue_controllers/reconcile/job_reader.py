"""Read what is known of one job: from the caches, into the value that a decision is made by.

Nothing is remembered here and nothing is written, so the debug API reads a job in the same way as a
reconcile does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Generic, NamedTuple, cast

import msgspec

from queue_controllers.decision.gates import count_gated
from queue_controllers.decision.job_ownership import ClusterContext, Ownership, classify_ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodFacts, count_pods
from queue_controllers.decision.job_view import JobMemory, JobView, LostUnit, Moment
from queue_controllers.decision.pod_admission import apply_pod_admission
from queue_controllers.decision.queue_unit_builder import choose_unit_name
from queue_controllers.decision.unit_status_patches import MAX_JITTER
from queue_controllers.job_families.gated_pods import PodGroup
from queue_controllers.jobframework.generic_job import (
    AWAITS_PREVIEW,
    GenericJob,
    JobFacts,
    JobT,
    NeedsOther,
    pod_set_of_pod,
    read_facts,
)
from queue_controllers.reconcile.job_lookup import (
    ClusterContextLookup,
    JobCache,
    JobPreviews,
    OwnerLookup,
    PodLookup,
    PreviewRequest,
    RelatedObjectLookup,
    UnitsOfJob,
    find_units,
    has_units,
    is_name_taken,
)
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.meta import NO_UID
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock


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
    """All units, with `job_lookup.unit_indexes`."""
    pods: PodLookup
    """The pods of a job."""
    around: ClusterContextLookup
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
        around: What is known outside of it.
        ownership: Whether the queue manages it, and why or why not.
    """

    job: JobT
    unit: QueueUnit | None
    facts: JobFacts
    around: ClusterContext
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

    def read(self, job: JobT, unit: QueueUnit | None, lookups: Lookups) -> ReadJob[JobT]:
        """Return what a job says, and what another object says about it.

        What `lookups` raise is passed on.
        """
        found = self._read(job, unit, lookups)
        whole = self._with_other(found, lookups)
        return found if whole is None else self._read(whole, unit, lookups)

    def _read(self, job: JobT, unit: QueueUnit | None, lookups: Lookups) -> ReadJob[JobT]:
        adapter, namespace = self._adapter, job.metadata.namespace
        written = read_facts(adapter, job, held_by_annotation=self._settings.held_by_annotation)
        around = self._sources.around(namespace)
        facts = apply_pod_admission(written, around.admission)
        ownership = classify_ownership(
            facts,
            around,
            self._settings,
            has_unit=unit is not None,
            owners=lookups.owners(namespace),
        )
        if lookups.previews is not None and ownership.managed:
            facts = lookups.previews(
                PreviewRequest(
                    adapter=adapter,
                    job=written,
                    around=around,
                    has_unit=unit is not None,
                    wake=self._wake,
                )
            )
        return ReadJob(job, unit, facts, around, ownership)

    def _with_other(self, found: ReadJob[JobT], lookups: Lookups) -> JobT | None:
        """Return the job with what another object says about it; None if nothing is added."""
        adapter, facts, job = self._needs_other, found.facts, found.job
        if adapter is None or facts.status.outcome is not None:
            return None
        if facts.unknown_demand in {"", AWAITS_PREVIEW} or not found.ownership.managed:
            return None
        wanted = adapter.other_of(job)
        other = None if wanted is None else lookups.others(job.metadata, wanted)
        return None if other is None else cast("JobT", adapter.with_other(job, other))

    def view(self, found: ReadJob[JobT], memory: JobMemory, lost: LostUnit | None) -> JobView:
        """Return what a decision about the job is made by.

        Args:
            found: The job, as `read` returned it.
            memory: What is remembered of it.
            lost: What a unit of it that has vanished said, if it counts.
        """
        unit, meta, sources = found.unit, found.job.metadata, self._sources
        taken = False
        if unit is None:
            name, _ = choose_unit_name(found.facts, is_taken=False)
            taken = is_name_taken(sources.units, meta.namespace, name)
        asked = self._settings.report_unqueued_jobs and not found.ownership.managed
        return JobView(
            job=found.facts,
            unit=unit,
            pods=self._count_pods(found),
            ownership=found.ownership,
            around=found.around,
            settings=self._settings,
            memory=memory,
            lost=lost,
            has_queued_neighbors=asked and has_units(sources.units, meta.namespace),
            name_is_taken=taken,
            jitter=sources.rng.uniform(-MAX_JITTER, MAX_JITTER),
            moment=Moment(monotonic=sources.clock.monotonic(), wall=sources.clock.now()),
        )

    def _count_pods(self, found: ReadJob[JobT]) -> PodFacts:
        adapter, job, unit = self._adapter, found.job, found.unit
        names = [pod_set.name for pod_set in found.facts.pod_sets]

        def pod_set_of(pod: Pod) -> str:
            return pod_set_of_pod(adapter, pod, names)

        unit_key = "" if unit is None else unit.metadata.key
        # A job that is made of pods is used as it was built: to build it again could give another
        # job.
        read = self._sources.pods
        pods = job.pods if isinstance(job, PodGroup) else read(adapter.kind, job.metadata, unit_key)
        if adapter.kind.held_by_gates:
            return count_gated(pods, pod_set_of)
        owner = NO_UID if adapter.kind.owns_pods else job.metadata.uid
        return count_pods(pods, pod_set_of, owner)
