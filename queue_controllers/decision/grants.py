"""What a unit was admitted with, beside what its job asks for now. Pure.

A grant counts pods by pod set. A job may have given some of it back for good (finished work), may
have grown since, or may have to run with fewer pods than it wants.
"""

from __future__ import annotations

from typing import Any

from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.partial_parallelism import Resize, write_note
from shared_api.objects.queue_unit import QueueUnit
from shared_api.pod_requests import ask_alike, pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import Phase, phase_of
from shared_api.resource_list import Amounts
from shared_api.timestamps import read_time


def granted_counts(unit: QueueUnit) -> dict[str, int]:
    """Return how many pods of each set were admitted; the spec may have grown since."""
    admitted = {each.name: each.replicas for each in unit.status.admissions}
    return {each.name: admitted.get(each.name, each.count) for each in unit.spec.pod_set}


def given_back_counts(unit: QueueUnit) -> dict[str, int]:
    """Return how many pods of each set have given their quota back, at most what was granted.

    Users may edit the status: what exceeds the grant does not count.
    """
    said = {each.name: each.count for each in unit.status.reclaimable_pods}
    granted = granted_counts(unit)
    return {name: min(max(said.get(name, 0), 0), count) for name, count in granted.items()}


def outgrows(job: JobFacts, unit: QueueUnit, *, was_released: bool = False) -> bool:
    """Return whether the job now asks for more than its unit was admitted with.

    More pods of a set, larger pods, or a set that the unit does not have. `was_released`: it has
    run with this admission, so it may have grown, and given some of it back for good.
    """
    admitted = {pod_set.name: pod_set for pod_set in unit.spec.pod_set}
    counts = {name: pod_set.count for name, pod_set in admitted.items()}
    if was_released:
        given_back = given_back_counts(unit)
        counts = {name: count - given_back[name] for name, count in granted_counts(unit).items()}
    for pod_set in job.pod_sets:
        if not pod_set.count:
            continue
        known, count = admitted.get(pod_set.name), pod_set.count
        if was_released and pod_set.released_parallelism is not None:
            # It has run with fewer, and continues so.
            count = min(count, pod_set.released_parallelism)
        if known is None or count > counts[pod_set.name]:
            return True
        if ask_alike(pod_set.template.spec, known.template.spec):
            continue
        wanted, granted = _requests(pod_set.template), _requests(known.template)
        if wanted is None or granted is None:
            return wanted != granted
        if any(amount > granted.get(resource, 0) for resource, amount in wanted.items()):
            return True
    return False


def _requests(template: Any) -> Amounts | None:  # noqa: ANN401 - reduced or plain template
    """Return a template's requests, None if they cannot be parsed."""
    try:
        return pod_requests(template.spec)
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


def plan_restoration(job: JobFacts) -> Resize | None:
    """Return what gives a job the pods back that a release did not let run; None: it has them."""
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
