"""Facts about batch/v1 Job.

Held by `spec.suspend` (GA since Kubernetes 1.24): the job controller deletes the pods, says
`Suspended` at once, and clears `startTime` (from Kubernetes 1.36 on); the pods go when they go. The
template may change in the patch that releases if there is no `startTime`.

Source: the Kubernetes documentation, Jobs, "Suspending a Job"; what the real job controller did
is in tests/data/recordings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from queue_controllers.job_families.job_conditions import read_outcome, read_suspended
from queue_controllers.job_families.suspend_field import (
    SPEC_SUSPEND,
    ManagedByField,
    release_by_spec_suspend,
)
from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    PodOwner,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.partial_parallelism import (
    Parallelism,
    read_min_parallelism,
    read_parallelism,
)
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.objects.job import JobStatus
from shared_api.objects.meta import ObjectMeta, WireStruct

KIND: Final = JobKind(
    key="job",
    group="batch",
    version="v1",
    kind="Job",
    plural="jobs",
    owns_pods=True,
    makes_pods_at_once=True,
)

INDEXED: Final = "Indexed"


class BatchJobSpec(WireStruct, frozen=True):
    """`spec`; absent `parallelism` is 1, absent `completions` is the parallelism."""

    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    managed_by: str | None = None
    template: ScheduledPodTemplate = ScheduledPodTemplate()


class BatchJob(WireStruct, frozen=True):
    """A Job with the part of its template that a unit carries."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BatchJobSpec = BatchJobSpec()
    status: JobStatus = JobStatus()


class BatchJobAdapter:
    """The `GenericJob` of batch/v1 Job."""

    kind = KIND
    object_type = BatchJob
    is_suspended = SPEC_SUSPEND.is_suspended
    why_not_suspendable = SPEC_SUSPEND.why_not_suspendable
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    foreign_manager = ManagedByField("kubernetes.io/job-controller").foreign_manager

    def status_of(self, job: BatchJob) -> StatusFacts:
        """Return what conditions and counts say.

        `active` counts pods, pending ones too: whether one runs is read off the pods. `terminating`
        may lag behind, and errs towards waiting.
        """
        status = job.status
        suspended, since = read_suspended(status.conditions)
        return StatusFacts(
            is_empty=status == _EMPTY,
            suspended=suspended,
            suspended_since=since,
            running=status.active > 0,
            outcome=read_outcome(status.conditions, "Complete"),
            pods=status.active + status.terminating,
            ready=status.ready,
        )

    def pod_sets(self, job: BatchJob) -> tuple[JobPodSet, ...]:
        """Return one set, named after the job."""
        count, annotations = count_needed(job), job.metadata.annotations
        wanted, released_parallelism = _parallelism(job)
        least = read_min_parallelism(annotations, wanted)
        return (
            JobPodSet(
                name=pod_set_name(job.metadata.name),
                count=count,
                template=job.spec.template,
                min_count=min(least, count) if least is not None and count else None,
                wanted_parallelism=wanted,
                released_parallelism=released_parallelism,
                is_sized=True,
                work_left=work_left(job),
                is_done=is_done(job),
            ),
        )

    def priority_of(self, job: BatchJob) -> PrioritySource:
        """Return the template's class and number."""
        spec = job.spec.template.spec
        return PrioritySource(spec.priority_class_name, spec.priority)

    def update_patch(self, job: BatchJob, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of the template, which the API accepts while nothing of the job runs."""
        update = updates.get(pod_set_name(job.metadata.name))
        if update is None:
            return {}
        return {"spec": {"template": update_body(update)}}

    def status_to_clear(self, job: BatchJob) -> dict[str, Any]:
        """Return the start time: before Kubernetes 1.36 a Job that has one keeps its template.

        From 1.36 on, the job controller clears it when it suspends the Job. Until then a Job that
        was suspended moments after its creation may have one, too.
        """
        return {} if job.status.start_time is None else {"startTime": None}

    def resize_patch(self, job: BatchJob, counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the patch that sets `spec.parallelism`; the completions stay."""
        count = counts.get(pod_set_name(job.metadata.name))
        return {} if count is None else {"spec": {"parallelism": count}}

    def pod_owner(self, job: BatchJob, pod_set: str) -> PodOwner:
        """Return the job: its pods have no other controller."""
        return PodOwner(controller=KIND.as_controller(job.metadata))

    def full_templates(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the one template."""
        return {pod_set_name(job["metadata"]["name"]): job["spec"]["template"]}


_EMPTY: Final = JobStatus()


# --- counts -------------------------------------------------------------------------------------


def count_needed(job: BatchJob) -> int:
    """Return how many pods the job still runs at a time: never more than work is left for.

    min(parallelism, completions - succeeded), completions being the parallelism where absent; of
    an Indexed job, indexes that failed for good need no pod either.
    """
    return max(min(_parallelism(job).wanted, _work_left(job)), 0)


def work_left(job: BatchJob) -> int | None:
    """Return how many pods the job can need from now on, whatever becomes of its parallelism.

    None: there is no bound. Of an Indexed job there is none: with fewer completions it forgets the
    indexes beyond them, and with more again it runs those once more. Without completions, a first
    success is what it creates no more pods after.
    """
    spec = job.spec
    if spec.completion_mode == INDEXED or (spec.completions is None and not job.status.succeeded):
        return None
    return max(_work_left(job), 0)


def is_done(job: BatchJob) -> bool:
    """Return whether no work is left; without completions, work is what the first success ends."""
    if job.spec.completions is None and not job.status.succeeded:
        return False
    return _work_left(job) <= 0


def _parallelism(job: BatchJob) -> Parallelism:
    stated = job.spec.parallelism
    return read_parallelism(job.metadata.annotations, 1 if stated is None else stated)


def _work_left(job: BatchJob) -> int:
    """Return how many completions are missing, those that failed for good left out."""
    completions = job.spec.completions
    if completions is None:
        completions = _parallelism(job).wanted
    left = completions - job.status.succeeded
    if job.spec.completion_mode == INDEXED and job.status.failed_indexes:
        # A list that cannot be parsed is left out: the count then errs towards more.
        with contextlib.suppress(ValueError):
            left -= count_indexes(job.status.failed_indexes, completions)
    return left


def count_indexes(text: str, completions: int) -> int:
    """Count the indexes in a list like "1,3-5,7", as the job controller writes it.

    Raises:
        ValueError: It is not such a list, not in order, or passes the number of completions.
    """
    count, last = 0, -1
    for part in text.split(",") if text else ():
        first_text, dash, end_text = part.partition("-")
        first = _index(first_text)
        end = _index(end_text) if dash else first
        if first <= last or end < first or end >= completions:
            raise ValueError(f"indexes {text!r}: {part!r} is out of order or range")
        count += end - first + 1
        last = end
    return count


def _index(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is no index")
    return int(text)
