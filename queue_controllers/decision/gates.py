"""Jobs that are held by the gates of their pods: their state, and what may start. Pure.

A gate suspends one pod. While such a job is not admitted, it counts as suspended if none of its
pods lives without a gate; while it is admitted, if all of them are gated. So it has the same states
as every other job, and pods that come later, as those of a StatefulSet do, start one by one within
the admission.

Some pods of a job that is not admitted may live without a gate all the same: others took their gate
off, or the unit was created anew. They are charged while they live, and the gated ones wait. If all
pods live without a gate, nothing is left to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from queue_controllers.decision.grants import granted_counts
from queue_controllers.decision.job_state import PodFacts, count_pods
from queue_controllers.job_families.gated_pods import is_held, is_opened
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit


def count_gated(pods: Iterable[Pod], pod_set_of: Callable[[Pod], str]) -> PodFacts:
    """Return the counts of a job's pods: per set, those that are gated and those that live."""
    others = []
    held: dict[str, int] = {}
    living: dict[str, int] = {}
    for pod in pods:
        name = pod_set_of(pod)
        if not is_held(pod):
            others.append(pod)
            living[name] = living.get(name, 0) + pod.is_living
        elif not pod.is_terminating:
            held[name] = held.get(name, 0) + 1
    return msgspec.structs.replace(
        count_pods(others, pod_set_of),
        held_of_sets=held,
        living_of_sets=living,
        opened=sum(map(is_opened, others)),
    )


def judge_gates(job: JobFacts, pods: PodFacts, *, admitted: bool) -> JobFacts:
    """Return the facts with `suspended` derived from the gates of the pods.

    Args:
        job: What the adapter reports.
        pods: From `count_gated`.
        admitted: Whether its unit is admitted and not being evicted.
    """
    runs = pods.running + pods.pending > 0
    suspended = bool(pods.held_of_sets) and not runs if admitted else not runs
    return msgspec.structs.replace(job, suspended=suspended)


def runs_whole(job: JobFacts, pods: PodFacts) -> bool:
    """Return whether all pods that the job needs live, so that nothing of it is left to start."""
    return all(pods.living_of_sets.get(each.name, 0) >= each.count for each in job.pod_sets)


def room_of(unit: QueueUnit, pods: PodFacts) -> dict[str, int]:
    """Return how many gated pods of each set may start: the granted count, less the living pods."""
    if not pods.held_of_sets:
        return {}
    granted = granted_counts(unit)
    room = {
        name: min(held, granted.get(name, 0) - pods.living_of_sets.get(name, 0))
        for name, held in pods.held_of_sets.items()
    }
    return {name: count for name, count in room.items() if count > 0}
