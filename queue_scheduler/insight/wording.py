"""Refusals in words: the one place where numbers become text for a person.

Two forms. The stable one goes into conditions and must not move while the reason stays: no
amounts, only names and fixed times. The full one goes into the debug API and carries every number.
"""

from __future__ import annotations

from typing import Final

from queue_scheduler.decision import Reason, Refusal
from shared_api.quantity import format_amount

_STABLE: Final[dict[Reason, str]] = {
    Reason.WAITING: "waits for its turn in the queue",
    Reason.BEHIND_REFUSED_UNIT: "waits behind a unit of the same quota that does not fit yet",
    Reason.BEYOND_MAX_DEPTH: "stands beyond the max-depth of queue {other}",
    Reason.WAITING_FOR_PODS_RUNNING: "waits until the pods of the unit ahead of it run",
    Reason.WRITE_FAILED: (
        "could not be admitted: it was changed meanwhile, or its events say why; it is tried again"
    ),
    Reason.EXCEEDS_QUOTA: "asks for more {resource} than quota {quota} may have at all",
    Reason.OVER_QUOTA_MAX: "needs more {resource} than the max of quota {quota} leaves",
    Reason.OVER_PARENT_MAX: "needs more {resource} than the max of parent quota {quota} leaves",
    Reason.OVER_RUNTIME: "needs more {resource} than quota {quota} would get at run time",
    Reason.OVER_PARENT_RUNTIME: (
        "needs more {resource} than parent quota {quota} would get at run time"
    ),
    Reason.OVER_MIN: "needs more {resource} than the min of quota {quota} leaves",
    Reason.NON_PREEMPTIBLE_OVER_MIN: (
        "is not preemptible and needs more {resource} than the min of quota {quota} leaves"
    ),
    Reason.HURTS_OTHERS: "would take {resource} that is promised to quota {other}",
    Reason.GUARANTEE_OF_OTHERS: (
        "would borrow {resource} that a waiting unit within the min of {other} needs"
    ),
    Reason.NO_CAPACITY: "needs more {resource} than the nodes have",
    Reason.BROKEN_CHAIN: "quota {quota} can not be used: its parents, min or max are not valid",
    Reason.UNKNOWN_QUOTA: "quota {quota} does not exist",
    Reason.REFUSED_BY_PLUGIN: "is refused by plugin {other}: {detail}",
    Reason.NO_QUOTA: "no quota: {quota_or_namespace}",
    Reason.QUOTA_NOT_IN_QUEUE: (
        "queue {other} does not take quota {quota}; list it in the queue's annotation "
        "koord-queue/available-quota-in-queue"
    ),
    Reason.NO_QUEUE: (
        "queue {other} does not exist, or can not be read, in the namespace of queues "
        "(--queue-namespace)"
    ),
    Reason.INVALID_DEMAND: "{detail}",
    Reason.INACTIVE: "is not active: {detail}",
    Reason.IN_BACKOFF: "waits to be tried again at {time}",
    Reason.BLOCKED_FOR_TEST: "is blocked by its annotation koord-queue/block-for-test",
    Reason.CHECKS_NOT_SERVED: "queue {other}: {detail} by this version",
    Reason.POLICY_NOT_SERVED: "queue {other}: {detail} in this version",
}


def stable_message(refusal: Refusal) -> str:
    """Return why a unit waits, in words that stay while the reason does."""
    if refusal.quota:
        quota_or_namespace = f"{refusal.quota} does not exist"
    else:
        quota_or_namespace = (
            f"the unit names none and namespace {refusal.other} has none; "
            "label it quota.scheduling.koordinator.sh/name"
        )
    return _STABLE[refusal.reason].format(
        quota=refusal.quota,
        resource=refusal.resource or "resources",
        other=refusal.other or "another quota",
        detail=refusal.detail,
        time=refusal.detail or "once",
        quota_or_namespace=quota_or_namespace,
    )


_OF_QUEUES: Final[dict[Reason, str]] = {
    Reason.NO_CAPACITY: "the cluster has no node; units wait until there is one",
    Reason.BROKEN_CHAIN: "quota {quota} can not be used ({other}: {detail}); units wait",
    Reason.NO_QUOTA: (
        "quota {quota} does not exist, nor does one that the queue's annotation "
        "koord-queue/available-quota-in-queue lists; units wait"
    ),
}


def queue_message(refusal: Refusal) -> str:
    """Return why a queue admits nothing, in words that stay while the reason does."""
    words = _OF_QUEUES.get(refusal.reason)
    if words is None:
        return stable_message(refusal)
    return words.format(quota=refusal.quota, other=refusal.other, detail=refusal.detail)


def full_message(refusal: Refusal) -> str:
    """Return why a unit waits, with the numbers of this moment."""
    text = stable_message(refusal)
    if refusal.reason is Reason.BEHIND_REFUSED_UNIT:
        return f"{text}: {refusal.other}"
    if not refusal.resource:
        return text

    def shown(amount: int) -> str:
        return format_amount(refusal.resource, amount)

    if refusal.reason is Reason.HURTS_OTHERS:
        # The numbers are the other quota's: what it uses, and what would be left to it.
        return (
            f"{text}: {refusal.other} uses {shown(refusal.used)}, would get {shown(refusal.limit)}"
        )
    return (
        f"{text}: limit {shown(refusal.limit)}, used {shown(refusal.used)}, "
        f"requested {shown(refusal.requested)}, missing {shown(refusal.missing)}"
    )
