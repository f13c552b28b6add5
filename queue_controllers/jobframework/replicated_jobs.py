"""Jobs in numbers: what a JobSet is made of, and a TrainJob through its JobSet. Pure.

A replicated job is a template of a batch Job and how many of it there are. All counts of a status
are of Jobs, not of pods (recorded): a Job that is partly done counts as one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from queue_controllers.jobframework.generic_job import (
    JobPodSet,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.queue_unit_builder import pod_set_name
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import (
    Condition,
    WireStruct,
    find_condition,
    is_condition_true,
)
from shared_api.objects.pod import Pod

JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""On every pod: the JobSet it comes from."""

ROLE_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
"""On every pod: which replicated job of it."""


class ReplicatedJobSpec(WireStruct, frozen=True):
    """`template.spec`, of a batch Job; absent `parallelism` is 1."""

    parallelism: int | None = None
    completions: int | None = None
    template: ScheduledPodTemplate = ScheduledPodTemplate()


class ReplicatedJobTemplate(WireStruct, frozen=True):
    """`template`, of a batch Job."""

    spec: ReplicatedJobSpec = ReplicatedJobSpec()


class Dependency(WireStruct, frozen=True):
    """One of `dependsOn`: no Job is made before that one has come so far."""

    name: str = ""


class ReplicatedJob(WireStruct, frozen=True):
    """One of `spec.replicatedJobs`; absent `replicas` is 1."""

    name: str = ""
    replicas: int | None = None
    depends_on: tuple[Dependency, ...] = ()
    template: ReplicatedJobTemplate = ReplicatedJobTemplate()

    @property
    def wanted(self) -> int:
        """How many Jobs there shall be."""
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


def priority_of_sets(pod_sets: Iterable[JobPodSet]) -> PrioritySource:
    """Return the class and number of the first template that has either."""
    for each in pod_sets:
        spec = each.template.spec
        if spec.priority_class_name or spec.priority is not None:
            return PrioritySource(spec.priority_class_name, spec.priority)
    return PrioritySource()


def read_status(
    conditions: tuple[Condition, ...],
    counts: tuple[JobCounts, ...],
    replicated_jobs: Iterable[ReplicatedJob],
    success: str,
) -> StatusFacts:
    """Return what a status says; `success` is the condition that says how the job ended well.

    The condition `Suspended` comes before the counts follow, and `active` lags behind the pods by a
    second: both must have come, and both err towards waiting.
    """
    suspended = find_condition(conditions, "Suspended")
    says_so = suspended is not None and suspended.status == "True"
    active = sum(each.active for each in counts)
    return StatusFacts(
        is_empty=not conditions and not counts,
        suspended=says_so and are_held(replicated_jobs, counts),
        suspended_since=suspended.last_transition_time if suspended is not None else None,
        running=any(each.active or each.ready for each in counts),
        outcome=_outcome_of(conditions, success),
        pods=active,
    )


def _outcome_of(conditions: tuple[Condition, ...], success: str) -> Outcome | None:
    if is_condition_true(conditions, success):
        return Outcome(succeeded=True)
    failed = find_condition(conditions, "Failed")
    if failed is not None and failed.status == "True":
        return Outcome(succeeded=False, message=failed.message or failed.reason)
    return None


def are_held(replicated_jobs: Iterable[ReplicatedJob], counts: Iterable[JobCounts]) -> bool:
    """Say whether every Job is suspended or has succeeded, or waits to be made after another."""
    known = {each.name: each for each in counts}
    return all(_is_held(each, known.get(each.name, JobCounts())) for each in replicated_jobs)


def _is_held(of: ReplicatedJob, counts: JobCounts) -> bool:
    if counts.suspended + counts.succeeded >= of.wanted:
        return True
    return bool(of.depends_on) and counts == JobCounts(name=counts.name)


def patch_templates(
    pod_sets: Iterable[str], stamps: Mapping[str, PodStamp]
) -> list[dict[str, Any]]:
    """Return the replicated jobs that stamps change, for a patch of a list by name."""
    return [
        _with_template(name, _given(labels=stamp.labels, annotations=stamp.annotations))
        for name in pod_sets
        if (stamp := stamps.get(pod_set_name(name))) is not None
    ]


def patch_for_updates(
    pod_sets: Iterable[str], updates: Mapping[str, TemplateUpdate]
) -> list[dict[str, Any]]:
    """Return the replicated jobs that admission checks change, for a patch of a list by name."""
    changes = []
    for name in pod_sets:
        update = updates.get(pod_set_name(name))
        if update is None:
            continue
        spec: dict[str, Any] = _given(nodeSelector=update.node_selector)
        if update.tolerations is not None:
            spec["tolerations"] = list(update.tolerations)
        metadata = _given(labels=update.labels, annotations=update.annotations)
        changes.append(_with_template(name, metadata, spec))
    return changes


def _with_template(
    name: str, metadata: dict[str, Any], spec: dict[str, Any] | None = None
) -> dict[str, Any]:
    template = _given(metadata=metadata, spec=spec)
    return {"name": name, "template": {"spec": {"template": template}}}


def _given(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    return {key: value for key, value in values.items() if value}


class PodsByRole:
    """Reads the labels of pods that come from a JobSet. A kind's adapter is one of these."""

    pod_labels = (JOB_SET_LABEL, ROLE_LABEL)

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the JobSet's name; the TrainJob that it may belong to has the same."""
        return labels.get(JOB_SET_LABEL, "")

    def pod_set_of(self, pod: Pod) -> str:
        """Return the set of the replicated job that the pod names."""
        role = pod.metadata.labels.get(ROLE_LABEL, "")
        return pod_set_name(role) if role else ""
