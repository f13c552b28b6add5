"""What a unit was admitted with, beside what its job asks for now. Pure.

A grant counts pods by pod set, and says what each of them may request: that stands in the status
beside the counts, where no edit of the spec reaches it. A job may have given some of it back for
good (finished work), may have grown since, or may have to run with fewer pods than it wants.
"""

from __future__ import annotations

import msgspec

from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from queue_controllers.jobframework.partial_parallelism import Resize, write_note
from shared_api.objects.pod import PodSpec
from shared_api.objects.queue_unit import DEFAULT_REQUIREMENT, Admission, PodSet, QueueUnit
from shared_api.pod_requests import has_equal_requests, pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import Phase, phase_of
from shared_api.resource_list import Amounts, parse_amounts
from shared_api.resource_names import rename_deprecated
from shared_api.timestamps import read_time


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod set was admitted with."""

    count: int
    """How many pods may live, without those that have given their quota back."""
    per_pod: Amounts | None
    """What each of them may request; None: that cannot be parsed."""


def granted_counts(unit: QueueUnit) -> dict[str, int]:
    """Return how many pods of each set were admitted; the spec may have grown since.

    A unit that lists no admissions was admitted with what it asks for, and so was one that was
    admitted with a sum for all of its sets. Else a set without an admission was granted nothing.
    """
    admitted = {each.name: each.replicas for each in unit.status.admissions}
    if not admitted or DEFAULT_REQUIREMENT in admitted:
        return {each.name: admitted.get(each.name, each.count) for each in unit.spec.pod_set}
    return {each.name: admitted.get(each.name, 0) for each in unit.spec.pod_set}


def grants_of(unit: QueueUnit) -> dict[str, Grant]:
    """Return what each pod set was admitted with; a set that is not in it was granted nothing.

    Where pods were granted at different sizes (growth), each may have the average.
    """
    given_back, status = given_back_counts(unit), unit.status
    spec = {each.name: each for each in unit.spec.pod_set}
    admissions = status.admissions or tuple(
        Admission(name=each.name, replicas=each.count) for each in spec.values()
    )
    return {
        each.name: Grant(
            count=max(each.replicas - given_back.get(each.name, 0), 0),
            per_pod=_granted_per_pod(each, spec.get(each.name)),
        )
        for each in admissions
    }


def _granted_per_pod(admission: Admission, pod_set: PodSet | None) -> Amounts | None:
    if admission.replicas > 0 and (recorded := recorded_amounts(admission)):
        return {key: amount // admission.replicas for key, amount in recorded.items()}
    return {} if pod_set is None else read_requests(pod_set.template.spec)


def recorded_amounts(admission: Admission) -> Amounts:
    """Return what an admission records for all of its pods; {}: nothing, so the spec counts."""
    try:
        return rename_deprecated(parse_amounts(admission.resources))
    except QuantityError:
        return {}


def exceeds(requested: Amounts | None, granted: Amounts | None) -> bool:
    """Return whether a pod requests more of any resource than was granted; None: not parsable."""
    if requested is None or granted is None:
        return requested != granted
    return any(amount > granted.get(resource, 0) for resource, amount in requested.items())


def given_back_counts(unit: QueueUnit) -> dict[str, int]:
    """Return how many pods of each set have given their quota back, at most what was granted.

    Users may edit the status: what exceeds the grant does not count.
    """
    recorded = {each.name: each.count for each in unit.status.reclaimable_pods}
    granted = granted_counts(unit)
    return {name: min(max(recorded.get(name, 0), 0), count) for name, count in granted.items()}


def outgrows(job: JobFacts, unit: QueueUnit, *, was_released: bool = False) -> bool:
    """Return whether the job now asks for more than its unit was admitted with.

    More pods of a set, larger pods, or a set that the unit does not have. `was_released`: it has
    run with this admission, so it may have grown, and given some of it back for good.
    """
    counts = {pod_set.name: pod_set.count for pod_set in unit.spec.pod_set}
    if was_released:
        given_back = given_back_counts(unit)
        counts = {name: count - given_back[name] for name, count in granted_counts(unit).items()}
    granted = _granted_sizes(unit)
    for pod_set in job.pod_sets:
        if not pod_set.count:
            continue
        count = pod_set.count
        if was_released and pod_set.released_parallelism is not None:
            # It has run with fewer, and continues so.
            count = min(count, pod_set.released_parallelism)
        if count > counts.get(pod_set.name, 0):
            return True
        size = granted.get(pod_set.name, {})
        if exceeds(read_requests(pod_set.template.spec), size):
            return True
    return False


def _granted_sizes(unit: QueueUnit) -> dict[str, Amounts | None]:
    """Return what a pod of each set may request, by set; None: that cannot be parsed."""
    sizes = {name: grant.per_pod for name, grant in grants_of(unit).items()}
    if DEFAULT_REQUIREMENT in sizes:  # it was admitted with a sum for all of its sets
        for each in unit.spec.pod_set:
            sizes.setdefault(each.name, read_requests(each.template.spec))
    return sizes


def outgrows_spec(job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether the job asks for more than its unit says that it does.

    More pods of a set, larger pods, or a set that the unit does not have.
    """
    recorded = {pod_set.name: pod_set for pod_set in unit.spec.pod_set}
    return any(
        (known := recorded.get(each.name)) is None
        or each.count > known.count
        or requests_more(each, known)
        for each in job.pod_sets
        if each.count
    )


def requests_more(pod_set: JobPodSet, known: PodSet) -> bool:
    """Return whether pods of a set request more of any resource than the unit says of them."""
    wanted, recorded = pod_set.template.spec, known.template.spec
    if has_equal_requests(wanted, recorded):
        return False
    return exceeds(read_requests(wanted), read_requests(recorded))


def read_requests(spec: PodSpec) -> Amounts | None:
    """Return what a pod of this spec requests, None if that cannot be parsed."""
    try:
        return pod_requests(spec)
    except QuantityError:
        return None


def plan_resize(job: JobFacts, unit: QueueUnit) -> Resize | None:
    """Return how many pods of an admitted job may run at a time, None: as many as it says.

    Fewer than it wants if fewer were granted than it still needs.
    """
    granted = granted_counts(unit)
    counts, notes = {}, []
    for each in job.pod_sets:
        wanted, now = each.wanted_parallelism, each.released_parallelism
        if wanted is None:
            continue
        allowed = granted.get(each.name, each.count)
        let_run = wanted if allowed >= each.count else allowed
        if let_run != (wanted if now is None else now):
            counts[each.name] = let_run
            notes += [write_note(let_run, wanted)] if let_run < wanted else []
    return Resize(counts, "".join(notes)) if counts else None


def granted_size(job: JobFacts, unit: QueueUnit) -> int | None:
    """Return how many pods were granted to a job that one field sizes; None: none does."""
    granted = granted_counts(unit)
    return next((granted.get(each.name, 0) for each in job.pod_sets if each.is_sized), None)


def plan_restoration(job: JobFacts) -> Resize | None:
    """Return what gives a job the pods back that a release did not let run; None if it has them."""
    counts = {
        each.name: each.wanted_parallelism
        for each in job.pod_sets
        if each.wanted_parallelism is not None and each.released_parallelism is not None
    }
    return Resize(counts, "") if counts else None


def was_released_already(job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether the job has been released since this admission: then others suspended it."""
    if phase_of(unit) is Phase.RUNNING:
        return True
    admitted_at = read_time(unit.status.last_allocate_time)
    released_at = job.released_at
    return admitted_at is not None and released_at is not None and released_at > admitted_at
