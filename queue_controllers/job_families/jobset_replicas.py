"""Jobs in numbers: what a JobSet is made of, and a TrainJob through its JobSet. Pure.

A replicated job is a template of a batch Job and how many of it there are. All counts of a status
are of Jobs, not of pods (recorded): a Job that is partly done counts as one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from queue_controllers.job_families.job_conditions import read_outcome, read_suspended
from queue_controllers.jobframework.generic_job import JobPodSet, StatusFacts
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.objects.meta import Condition, WireStruct
from shared_api.objects.pod import Pod

JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""The label of every pod with the name of its JobSet."""

ROLE_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
"""The label of every pod with the name of its replicated job."""


class ReplicatedJobSpec(WireStruct, frozen=True):
    """`template.spec`, of a batch Job; absent `parallelism` is 1."""

    parallelism: int | None = None
    completions: int | None = None
    template: ScheduledPodTemplate = ScheduledPodTemplate()


class ReplicatedJobTemplate(WireStruct, frozen=True):
    """`template`, of a batch Job."""

    spec: ReplicatedJobSpec = ReplicatedJobSpec()


class Dependency(WireStruct, frozen=True):
    """One of `dependsOn`: no Job is created before that one has come so far."""

    name: str = ""


class ReplicatedJob(WireStruct, frozen=True):
    """One of `spec.replicatedJobs`; absent `replicas` is 1."""

    name: str = ""
    replicas: int | None = None
    depends_on: tuple[Dependency, ...] = ()
    template: ReplicatedJobTemplate = ReplicatedJobTemplate()

    @property
    def wanted(self) -> int:
        """How many Jobs there are to be."""
        return 1 if self.replicas is None else max(self.replicas, 0)

    @property
    def pods_per_job(self) -> int:
        """How many pods of a Job run at a time."""
        spec = self.template.spec
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        completions = parallelism if spec.completions is None else spec.completions
        return max(min(parallelism, completions), 0)


class JobCounts(WireStruct, frozen=True):
    """What a status counts of a replicated job's Jobs; one may be in several of the counts."""

    name: str = ""
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: int = 0


def pod_sets_of(
    replicated_jobs: Iterable[ReplicatedJob], counts: Iterable[JobCounts]
) -> tuple[JobPodSet, ...]:
    """Return one set per replicated job, in their order; Jobs that have succeeded need no pods."""
    succeeded = {each.name: each.succeeded for each in counts}
    sets = []
    for each in replicated_jobs:
        left = max(each.wanted - succeeded.get(each.name, 0), 0)
        sets.append(
            JobPodSet(
                name=pod_set_name(each.name),
                count=left * each.pods_per_job,
                template=each.template.spec.template,
                is_done=each.wanted > 0 and left == 0,
            )
        )
    return tuple(sets)


def pods_of_one(replicated_job: ReplicatedJob) -> JobPodSet:
    """Return the pods of one of its Jobs."""
    return JobPodSet(
        name=pod_set_name(replicated_job.name),
        count=replicated_job.pods_per_job,
        template=replicated_job.template.spec.template,
    )


def read_jobset_status(
    conditions: tuple[Condition, ...],
    counts: tuple[JobCounts, ...],
    replicated_jobs: Iterable[ReplicatedJob],
    success: str,
) -> StatusFacts:
    """Return what a status says; `success` is the condition that says how the job ended well.

    The condition `Suspended` comes before the counts follow, and `active` lags behind the pods by a
    second: both must have come, and both err towards waiting.
    """
    suspended, since = read_suspended(conditions)
    held = are_held(replicated_jobs, counts)
    active = sum(each.active for each in counts)
    return StatusFacts(
        is_empty=not conditions and not counts,
        suspended=suspended and held,
        suspended_since=since,
        is_at_odds=suspended != held,
        running=any(each.active or each.ready for each in counts),
        outcome=read_outcome(conditions, success),
        pods=active,
    )


def are_held(replicated_jobs: Iterable[ReplicatedJob], counts: Iterable[JobCounts]) -> bool:
    """Return whether every Job is suspended or has succeeded, or is to be created after another."""
    known = {each.name: each for each in counts}
    return all(_is_held(each, known.get(each.name, JobCounts())) for each in replicated_jobs)


def _is_held(of: ReplicatedJob, counts: JobCounts) -> bool:
    if counts.suspended + counts.succeeded >= of.wanted:
        return True
    return bool(of.depends_on) and counts == JobCounts(name=counts.name)


def patch_for_updates(
    pod_sets: Iterable[str], updates: Mapping[str, TemplateUpdate]
) -> list[dict[str, Any]]:
    """Return the replicated jobs whose templates change, for a patch of a list by name."""
    return [
        {"name": name, "template": {"spec": {"template": update_body(update)}}}
        for name in pod_sets
        if (update := updates.get(pod_set_name(name))) is not None
    ]


POD_LABELS: Final = (JOB_SET_LABEL, ROLE_LABEL)
"""All that is read of pods that come from a JobSet."""


def job_set_name(labels: Mapping[str, str]) -> str:
    """Return the JobSet's name, "" for none; the TrainJob that it may belong to has the same."""
    return labels.get(JOB_SET_LABEL, "")


def pod_set_by_role(pod: Pod) -> str:
    """Return the set of the replicated job that the pod names, "" for none."""
    role = pod.metadata.labels.get(ROLE_LABEL, "")
    return pod_set_name(role) if role else ""
