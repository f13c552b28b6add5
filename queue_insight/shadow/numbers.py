"""Reality and the shadow beside each other, as JSON values. Pure.

Times of day are RFC 3339, other times are seconds. Waits are compared over the jobs that started in
both, so that both sides count the same jobs; the others are counted by where they started.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, product
from operator import itemgetter
from statistics import median
from typing import Any, Final

import msgspec

from queue_insight.replay.report import MOST_USERS, jain_index, percentile, stretches_of
from queue_insight.shadow.counterfactual import Fate
from queue_insight.shadow.story import JobStory, Run
from shared_api.resource_list import Amounts
from shared_api.submitters import read_submitter
from shared_api.timestamps import rfc3339, rfc3339_micro
from shared_api.well_known_labels import USER

Json = dict[str, Any]

Chain = Callable[[str], tuple[str, ...]]
"""Returns a quota and its ancestors, by the quota's name."""

P90: Final = 90

SIDES: Final = ("real", "shadow")


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One job, in reality and in the shadow. Times are seconds since the epoch.

    Attributes:
        story: In reality.
        fate: In the shadow.
        amounts: What its pods request together.
        why: Why it waits in the shadow at the end; "" if it does not.
    """

    story: JobStory
    fate: Fate
    amounts: Amounts
    why: str = ""

    @property
    def names_user(self) -> bool:
        """Whether the job itself names its user."""
        return bool(self._labels().get(USER))

    @property
    def user(self) -> str:
        """Whom it counts for in the shadow: where it names no user, its namespace."""
        namespace = self.story.seen.job.partition("/")[0]
        return read_submitter(namespace, self._labels(), {}, are_proved=False).user

    def _labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.story.seen.unit.get("metadata", {}).get("labels") or {}
        return labels

    @property
    def submitted(self) -> float:
        """When it was created."""
        return self.story.seen.submitted

    @property
    def priority(self) -> int:
        """Its priority in the shadow."""
        return self.fate.priority

    @property
    def started(self) -> float | None:
        """When it really started first."""
        return self.story.started

    @property
    def would_start(self) -> float | None:
        """When it would have started first."""
        return self.fate.started

    @property
    def is_both(self) -> bool:
        """Whether it is compared: it started in both, and not before the record began."""
        started = self.started is not None and self.would_start is not None
        return started and not self.fate.adopted


def describe_jobs(jobs: Iterable[Compared]) -> list[Json]:
    """Return a row for each job, in order of submission."""
    return [_describe_job(each) for each in sorted(jobs, key=_submission)]


def _submission(job: Compared) -> tuple[float, str]:
    return job.submitted, job.story.seen.job


def _describe_job(job: Compared) -> Json:
    seen, fate = job.story.seen, job.fate
    row: Json = {
        "job": seen.job,
        "kind": seen.kind,
        "queue": fate.queue,
        "quota": fate.quota,
        "priority": job.priority,
        "submitted": moment(job.submitted),
        "started": moment(job.started),
        "wouldStart": moment(job.would_start),
        "ended": moment(job.story.ended),
        "wouldEnd": moment(fate.runs[-1].end if fate.ended else None),
        "runSeconds": short(job.story.run_seconds),
        "waitSeconds": None,
        "wouldWaitSeconds": None,
        "outcome": job.story.outcome,
        "evictions": max(0, len(job.story.runs) - 1),
        "wouldBeEvicted": max(0, len(fate.runs) - 1),
        "ranBefore": fate.adopted,
        "why": job.why,
    }
    if not fate.adopted:
        row["waitSeconds"] = short(_wait(job.submitted, job.started))
        row["wouldWaitSeconds"] = short(_wait(job.submitted, job.would_start))
    return row


def _wait(submitted: float, started: float | None) -> float | None:
    return None if started is None else max(0.0, started - submitted)


# --- waits ----------------------------------------------------------------------------------------


def describe_waits(jobs: Sequence[Compared]) -> Json:
    """Return how long jobs waited, in reality and in the shadow, all together and by queue.

    If any job names its user, also by user: `users` is None, or has how many there are, Jain's
    index of all, and the waits of the `MOST_USERS` whose p90 is longest on either side.
    """
    return {
        "all": _describe_waits(jobs),
        "byQueue": _by_queue(jobs, _describe_waits),
        "users": _describe_users(jobs),
    }


def _describe_users(jobs: Sequence[Compared]) -> Json | None:
    if not any(each.names_user for each in jobs):
        return None
    users: dict[str, list[Compared]] = {}
    for each in jobs:
        users.setdefault(each.user, []).append(each)
    waits = {user: _describe_waits(own) for user, own in sorted(users.items())}
    return {
        "count": len(waits),
        "jain": {
            "real": _jain_of_users(jobs, lambda job: job.started),
            "shadow": _jain_of_users(jobs, lambda job: job.would_start),
        },
        "waits": {user: waits[user] for user in worst_users_first(waits)[:MOST_USERS]},
    }


def worst_users_first(waits: Mapping[str, Json]) -> list[str]:
    """Return the users by the longer of their two p90, the longest first."""
    return sorted(waits, key=lambda user: (-max(waits[user][side]["p90"] for side in SIDES), user))


def _jain_of_users(jobs: Iterable[Compared], start_of: Callable[[Compared], float | None]) -> float:
    """Return Jain's index of the stretches of users, of the jobs that both sides count."""
    return jain_index(
        stretches_of(
            (job.user, (_wait(job.submitted, start_of(job)) or 0.0) + ran, ran)
            for job in jobs
            if job.is_both and (ran := job.story.run_seconds) is not None
        ).values()
    )


def _by_queue(jobs: Sequence[Compared], describe: Callable[[Sequence[Compared]], Json]) -> Json:
    queues: dict[str, list[Compared]] = {}
    for each in jobs:
        queues.setdefault(each.fate.queue, []).append(each)
    return {queue: describe(own) for queue, own in sorted(queues.items())}


def _describe_waits(jobs: Sequence[Compared]) -> Json:
    new = [each for each in jobs if not each.fate.adopted]
    real = [each for each in new if each.started is not None]
    shadow = [each for each in new if each.would_start is not None]
    both = [each for each in real if each.is_both]
    return {
        "jobs": len(new),
        "compared": len(both),
        "startedOnlyReally": sum(each.would_start is None for each in real),
        "startedOnlyInShadow": sum(each.started is None for each in shadow),
        "startedInNeither": sum(each.started is None and each.would_start is None for each in new),
        "real": _statistics([_wait(each.submitted, each.started) for each in both]),
        "shadow": _statistics([_wait(each.submitted, each.would_start) for each in both]),
    }


def _statistics(found: Iterable[float | None]) -> Json:
    waits = sorted(each for each in found if each is not None)
    return {
        "mean": short(sum(waits) / len(waits) if waits else 0.0),
        "median": short(median(waits) if waits else 0.0),
        "p90": short(percentile(waits, P90)),
        "max": short(waits[-1] if waits else 0.0),
    }


# --- use ------------------------------------------------------------------------------------------


def describe_use(
    jobs: Iterable[Compared],
    chain: Chain,
    limits: Mapping[str, Amounts],
    span: tuple[float, float],
) -> Json:
    """Return which share of each quota was used on average, in reality and in the shadow.

    Args:
        jobs: All jobs.
        chain: The quotas that count a quota's usage.
        limits: What the quotas have; only resources that have a limit are described.
        span: From when until when, in seconds since the epoch.
    """
    known = list(jobs)
    real = _used_seconds([(job, job.story.runs) for job in known], chain, span)
    shadow = _used_seconds([(job, job.fate.runs) for job in known], chain, span)
    whole = max(span[1] - span[0], 1.0)
    use: Json = {}
    for quota, amounts in sorted(limits.items()):
        for resource, limit in sorted(amounts.items()):
            if limit > 0 and (quota, resource) in real.keys() | shadow.keys():
                use.setdefault(quota, {})[resource] = {
                    "limit": limit,
                    "real": short(real.get((quota, resource), 0.0) / whole / limit),
                    "shadow": short(shadow.get((quota, resource), 0.0) / whole / limit),
                }
    return use


def _used_seconds(
    ran: Iterable[tuple[Compared, Sequence[Run]]], chain: Chain, span: tuple[float, float]
) -> dict[tuple[str, str], float]:
    """Return amounts times seconds, by quota and resource."""
    found: dict[tuple[str, str], float] = {}
    for job, runs in ran:
        seconds = _seconds_within(runs, span)
        quotas = chain(job.fate.quota) if seconds else ()
        for quota, (resource, amount) in product(quotas, job.amounts.items()):
            key = (quota, resource)
            found[key] = found.get(key, 0.0) + amount * seconds
    return found


def _seconds_within(runs: Iterable[Run], span: tuple[float, float]) -> float:
    began, until = span
    return sum(
        max(0.0, min(until if run.end is None else run.end, until) - max(run.start, began))
        for run in runs
    )


# --- order ----------------------------------------------------------------------------------------


def describe_inversions(jobs: Sequence[Compared]) -> Json:
    """Return how often a job started before another that had waited in its queue for longer.

    Counted are pairs of one queue: the one that started later was submitted earlier, and has no
    lower priority.
    """
    return {"all": _describe_order(jobs), "byQueue": _by_queue(jobs, _describe_order)}


def _describe_order(jobs: Sequence[Compared]) -> Json:
    real, shadow = 0, 0
    queues: dict[str, list[Compared]] = {}
    for each in jobs:
        if not each.fate.adopted:
            queues.setdefault(each.fate.queue, []).append(each)
    for own in queues.values():
        real += count_inversions((each.priority, each.submitted, each.started) for each in own)
        shadow += count_inversions(
            (each.priority, each.submitted, each.would_start) for each in own
        )
    return {"real": real, "shadow": shadow}


def count_inversions(jobs: Iterable[tuple[int, float, float | None]]) -> int:
    """Return how many pairs started out of order.

    Args:
        jobs: Priority, submission and start of each; None if it has not started.
    """
    # Those that wait, by priority, sorted by submission.
    waiting: dict[int, list[float]] = {}
    started = []
    for priority, submitted, start in jobs:
        insort(waiting.setdefault(priority, []), submitted)
        if start is not None:
            started.append((start, submitted, priority))
    count = 0
    for _, group in groupby(sorted(started), key=itemgetter(0)):
        # Of jobs that started together none was before another.
        together = list(group)
        for _, submitted, priority in together:
            own = waiting[priority]
            del own[bisect_left(own, submitted)]
        for _, submitted, priority in together:
            earlier = (bisect_left(own, submitted) for of, own in waiting.items() if of >= priority)
            count += sum(earlier)
    return count


# --- words for numbers ----------------------------------------------------------------------------


def moment(at: float | None) -> str | None:
    """Return seconds since the epoch as RFC 3339, with a fraction only if there is one."""
    if at is None:
        return None
    found = datetime.fromtimestamp(at, UTC)
    return rfc3339_micro(found) if found.microsecond else rfc3339(found)


def short(number: float | None) -> float | None:
    """Return a number with three digits after the point."""
    return None if number is None else round(number, 3)
