"""Whether a job is managed, why or why not, and what is wrong with it. Pure.

Nothing is judged anew here. `classify_ownership` says what a job belongs to. What is wrong with it
comes from `decide`, called as if no event had been recorded yet. This module words it, and adds the
way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from queue_controllers.decision.actions import EventType, RecordJobEvent
from queue_controllers.decision.decide import decide
from queue_controllers.decision.job_ownership import (
    Rule,
    queue_of_job,
    quota_of_job,
    quota_of_template,
)
from queue_controllers.decision.job_view import JobView
from queue_controllers.decision.pending import PROOF_SECONDS
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.well_known_labels import KUEUE_QUEUE_NAME, QUEUE_NAME, QUOTA_NAME, read_quota_name


class JobStanding(StrEnum):
    """What says more of a job than the rule by which it is managed; a word for programs."""

    KIND_NOT_ENABLED = "KindNotEnabled"
    KIND_NOT_SERVED = "KindNotServed"
    UNREADABLE = "Unreadable"
    FINISHED = "Finished"
    BEING_DELETED = "BeingDeleted"
    AWAITS_OWNER = "AwaitsOwner"
    CANNOT_BE_HELD = "CanNotBeHeld"
    NOT_ADOPTED = "NotAdopted"


PODS_REFUSED: Final = "PodsRefused"

_LEFT_ALONE: Final = (JobStanding.CANNOT_BE_HELD, JobStanding.NOT_ADOPTED)
"""Reasons of events on jobs that name a queue, and still get no unit."""

_WAYS_OUT: Final[Mapping[Rule, str]] = {
    Rule.NAMES_NOTHING: f"To have it queued, set its label {QUOTA_NAME} or {QUEUE_NAME}",
    Rule.NAMESPACE_EXCLUDED: "To have it queued, make it in another namespace",
    Rule.LEFT_TO_KUEUE: (
        f"To have it queued here, take its label {KUEUE_QUEUE_NAME} off, or set leaveToKueue: false"
    ),
    Rule.MANAGED_BY_OTHER: "To have it queued, make it again without that field",
    Rule.OWNED: "Ask about its owner: what that asks for is queued with it, or is not managed",
    Rule.OWNER_IS_HELD: "It is suspended until its owner is released: ask about that",
}


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a job, in the words of an event on it."""

    reason: str
    message: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a job is managed, and what follows."""

    managed: bool
    reason: Rule | JobStanding
    message: str
    """The same in words, and what to do."""
    queue: str = ""
    """Where its unit waits, or would; "" if none does."""
    quota: str = ""
    problems: tuple[Problem, ...] = ()


def explain_job(view: JobView, job: JobFacts) -> Explanation:
    """Return whether an existing job is managed, and what is wrong with it.

    Args:
        view: What a reconcile of the job would decide by.
        job: The job of the view.
    """
    problems = _find_problems(view, job)
    if not view.ownership.managed:
        return _explain_unmanaged(view, job, problems)
    ownership = view.ownership
    without_problem = (
        True,
        ownership.rule,
        f"It is managed: {ownership.reason}. {_unit_in_words(view)}",
    )
    managed, reason, message = _standing_of(view, job, problems) or without_problem
    others = tuple(each for each in problems if each.reason != reason)
    queue, quota = _line_of(view, job) if managed or view.unit is not None else ("", "")
    return Explanation(
        managed=managed,
        reason=reason,
        message=message,
        queue=queue,
        quota=quota,
        problems=others,
    )


def _explain_unmanaged(view: JobView, job: JobFacts, problems: tuple[Problem, ...]) -> Explanation:
    rule, unit = view.ownership.rule, view.unit
    sentences = [f"It is not managed: {view.ownership.reason}"]
    if rule is Rule.NAMES_NOTHING and job.status.outcome is None:
        sentences.append(
            "It is suspended, and no queue will resume it" if job.suspended else "It runs at once"
        )
        if named := _named_by_templates(job):
            sentences.append(f"Only its pod template names quota {named}: that charges its pods")
    if unit is not None:
        sentences.append("Its unit goes when nothing of it runs any more")
    sentences.append(_WAYS_OUT.get(rule, ""))
    queue, quota = ("", "") if unit is None else _line_of(view, job)
    return Explanation(
        managed=False,
        reason=rule,
        message=". ".join(filter(None, sentences)),
        queue=queue,
        quota=quota,
        problems=problems,
    )


def _unit_in_words(view: JobView) -> str:
    if view.unit is None:
        return "It has no unit yet"
    return (
        f"Its unit is {view.unit.metadata.name}; why that waits, the scheduler says"
        f" (/debug/queueunits/{view.unit.metadata.key})"
    )


def _named_by_templates(job: JobFacts) -> str:
    named = (quota_of_template(each.template.metadata) for each in job.pod_sets)
    return next(filter(None, named), "")


def _standing_of(
    view: JobView, job: JobFacts, problems: tuple[Problem, ...]
) -> tuple[bool, JobStanding, str] | None:
    """Return what says more than the rule; None if the rule says it all."""
    has_unit = view.unit is not None
    if job.status.outcome is not None:
        never = "" if has_unit else ", and has no unit"
        return has_unit, JobStanding.FINISHED, f"It has ended{never}: there is nothing to queue"
    if job.metadata.deletion_timestamp is not None:
        message = "It is being deleted: there is nothing to queue"
        return has_unit, JobStanding.BEING_DELETED, message
    if has_unit:
        return None
    if view.ownership.may_be_nested:
        message = (
            f"{view.ownership.ignored_owner}. If that has not changed after {PROOF_SECONDS:g} s,"
            " it is queued as if it had no owner"
        )
        return False, JobStanding.AWAITS_OWNER, message
    for each in problems:
        for standing in _LEFT_ALONE:
            if each.reason == standing:
                return False, standing, each.message
    return None


def _find_problems(view: JobView, job: JobFacts) -> tuple[Problem, ...]:
    """Return what events would report about the job if none had been recorded yet."""
    silent_memory = msgspec.structs.replace(
        view.memory, reported_events=frozenset(), blocking_message=""
    )
    decision = decide(msgspec.structs.replace(view, memory=silent_memory))
    found = [
        Problem(each.reason, each.message)
        for each in decision.actions
        if isinstance(each, RecordJobEvent) and each.type is EventType.WARNING
    ]
    is_listed = any(each.reason == PODS_REFUSED for each in found)
    if job.pods_refused and view.ownership.managed and not is_listed:
        message = f"The API server would refuse its pods: {job.pods_refused}"
        found.append(Problem(PODS_REFUSED, message))
    return tuple(found)


def _line_of(view: JobView, job: JobFacts) -> tuple[str, str]:
    """Return the queue and the quota that the job's unit names, or would name."""
    if view.unit is not None:
        own = read_quota_name(view.unit.metadata.labels)
        return view.unit.spec.queue, own or quota_of_job(job, view.context)
    quota = quota_of_job(job, view.context)
    return queue_of_job(job, quota), quota
