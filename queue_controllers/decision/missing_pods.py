"""Since when some pods of a job are missing while others run, as the objects have it. Pure.

A missing pod is *pending*, or does not exist (its creation is refused, or a failed one is not
retried yet). A pending pod has been missing since it was created. For one that does not exist, the
unit's count of running pods tells: when it was last written, as many ran as now; and none was
created after the newest of the pods. While that count differs from the pods, or the job's operator
reports other numbers than are seen, something is changing just now.

So a job of short pods that follow each other is never late, though all of them seldom run at once:
none of them is pending for long. Pods that have finished their work are not missing (the job's
counts leave them out), nor is what a job has grown by or given back.
"""

from __future__ import annotations

from datetime import datetime

from queue_controllers.decision.job_state import PodFacts
from queue_controllers.decision.queue_unit_builder import (
    given_back_counts,
    granted_counts,
)
from queue_controllers.decision.unit_status_patches import count_into_status
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import PODS_READY
from shared_api.timestamps import read_time


def missing_pods(job: JobFacts, unit: QueueUnit, pods: PodFacts) -> int:
    """Return how many of the pods that the job needs and was admitted with do not run.

    Of a set that states a minimum no more than that is needed.
    """
    wanted = _wanted_pods(job, unit)
    if len(wanted) == 1 or "" in pods.running_of_sets:  # the set of some pods is unknown
        return max(sum(wanted.values()) - pods.running, 0)
    running = pods.running_of_sets
    return sum(max(count - running.get(name, 0), 0) for name, count in wanted.items())


def _wanted_pods(job: JobFacts, unit: QueueUnit) -> dict[str, int]:
    granted = granted_counts(unit)
    given_back = given_back_counts(unit)
    wanted = {}
    for each in job.pod_sets:
        allowed = granted.get(each.name, each.count) - given_back.get(each.name, 0)
        needed = each.count if each.min_count is None else min(each.min_count, each.count)
        wanted[each.name] = max(min(needed, allowed), 0)
    return wanted


def partial_since(job: JobFacts, unit: QueueUnit, pods: PodFacts) -> datetime | None:
    """Return since when at least one pod is missing of a running unit, while others run.

    None if none is missing, none runs, or it is not known (yet).
    """
    missing = missing_pods(job, unit, pods)
    ready = find_condition(unit.status.conditions, PODS_READY)
    if not missing or not pods.running or ready is None or ready.status != "True":
        return None
    some_run_since = read_time(ready.last_transition_time)
    pending_since = read_time(pods.pending_since) if pods.pending else None
    none_since = _uncreated_since(job, unit, pods) if missing > pods.pending else None
    known = [each for each in (pending_since, none_since) if each is not None]
    if some_run_since is None or not known:
        return None
    return max(some_run_since, min(known))


def _uncreated_since(job: JobFacts, unit: QueueUnit, pods: PodFacts) -> datetime | None:
    """Return since when there are just these pods; None while that may be changing."""
    seen_by_operator = job.status.pods in {0, pods.living}
    is_counted = bool(unit.status.admissions) and not count_into_status(unit, pods)
    if not (seen_by_operator and is_counted):
        return None
    counted = read_time(unit.status.last_update_time)
    created = read_time(pods.last_created)
    return counted if created is None or counted is None else max(counted, created)
