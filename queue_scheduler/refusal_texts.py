"""Refusals as text: the only module that renders them and their numbers for users.

There are two forms. The stable one goes into conditions and must not change while the reason stays:
no amounts, only names and fixed times. The full one goes into the debug API and has all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from queue_scheduler.decision import (
    BudgetShortage,
    Preempt,
    Reason,
    Refusal,
    ReservedWindow,
    Trait,
    Victim,
    reasons_with,
)
from queue_scheduler.preemption.nomination import for_whom_mark
from queue_scheduler.tenants.hours import in_decimals
from queue_scheduler.tenants.limit_use import PENDING_UNITS
from shared_api.durations import seconds_in_words
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.quantity import Rounding, amount_for_people, for_people
from shared_api.queue_unit_phases import (
    NO_PODS,
    PODS_READY,
    PODS_UNSCHEDULABLE,
    RELEASED_PHASES,
    WAITED_FOR,
    phase_of,
)
from shared_api.timestamps import rfc3339

MAX_NAMED: Final = 5
"""How many victims an event names; its note is limited to 1024 characters."""

_STABLE: Final[dict[Reason, str]] = {
    Reason.WAITING: "waits for its turn in the queue",
    Reason.BEHIND_REFUSED_UNIT: "waits behind a unit of the same quota that cannot start yet",
    Reason.BEHIND_HIGHER_BAND: "waits while units of a higher band of its queue do",
    Reason.BEHIND_ACCOUNT: "waits behind units of others, who have used less of its queue",
    Reason.BEHIND_QUEUE: "waits behind another queue, whose quota has used less",
    Reason.BEYOND_MAX_DEPTH: "stands beyond the max-depth of queue {other}",
    Reason.WOULD_DELAY_HEAD: "would delay a unit before it that does not fit yet",
    Reason.NO_MAX_EXECUTION_TIME: (
        "declares no time to run (spec.maximumExecutionTimeSeconds; on a job the annotation "
        "max-exec-time-seconds), so it does not pass a unit before it that does not fit yet"
    ),
    Reason.WAITING_FOR_PODS_RUNNING: "waits until the pods of the unit ahead of it run",
    Reason.GROWS_AFTER_OTHERS: "has more pods when no unit waits in a queue for the same limits",
    Reason.STOPPED_QUEUE: "queue {other} is stopped by its annotation koord-queue/stop-policy",
    # Upstream's words.
    Reason.WAITING_FOR_NODES_OF_OTHERS: "job is block by others with high priority",
    Reason.WRITE_FAILED: (
        "could not be admitted: it was changed meanwhile, or its events say why; it is tried again"
    ),
    Reason.EXCEEDS_QUOTA: "asks for more {resource} than quota {quota} may have at all",
    Reason.OVER_QUOTA_MAX: "needs more {resource} than the max of quota {quota} leaves",
    Reason.OVER_PARENT_MAX: "needs more {resource} than the max of parent quota {quota} leaves",
    Reason.OVER_RUNTIME: "needs more {resource} than the runtime that quota {quota} would get",
    Reason.OVER_PARENT_RUNTIME: (
        "needs more {resource} than the runtime that parent quota {quota} would get"
    ),
    Reason.OVER_MAX_JOBS: "is one job more than quota {quota} may have ({resource})",
    Reason.OVER_MIN: "needs more {resource} than the min of quota {quota} leaves",
    Reason.NON_PREEMPTIBLE_OVER_MIN: (
        "is not preemptible and needs more {resource} than the min of quota {quota} leaves"
    ),
    Reason.HURTS_OTHERS: "would take {resource} that is promised to quota {other}",
    Reason.GUARANTEE_OF_OTHERS: (
        "would borrow {resource} that a waiting unit within the min of {other} needs"
    ),
    Reason.ROOM_FOR_PREEMPTOR: (
        "would take {resource} that units were evicted for: {other} waits for it"
    ),
    Reason.NO_CAPACITY: "needs more {resource} than the nodes have",
    Reason.BROKEN_CHAIN: "quota {quota} cannot be used: its parents, min or max are not valid",
    Reason.UNKNOWN_QUOTA: "quota {quota} does not exist",
    Reason.USER_LIMIT: "needs more {resource} than {other} may have in quota {quota} ({detail})",
    Reason.BUDGET_SPENT: (
        "needs more {resource} than the budget of quota {quota} leaves in its period ({detail})"
    ),
    Reason.RESERVED_FOR: (
        "would run into the window of {detail}, in which no unit must run{window}"
    ),
    Reason.EVICTION_DELAY: (
        "may evict others when it has waited for the koord-queue/eviction-delay of queue {other}: "
        "from {time} on"
    ),
    Reason.EVICTION_RATE: (
        "may evict others when the koord-queue/evictions-per-hour of queue {other} allow it again: "
        "from {time} on"
    ),
    Reason.MIN_RUNTIME: (
        "may evict others, which {other} spares for a time after their admission: "
        "the first of them until {time}"
    ),
    Reason.REFUSED_BY_PLUGIN: "is refused by plugin {other}: {detail}",
    Reason.NO_QUOTA: "no quota: {quota_or_namespace}",
    Reason.AMBIGUOUS_QUOTA: "quota {quota} is not one, but {detail}; rename all but one",
    Reason.QUOTA_NOT_IN_NAMESPACE: (
        "quota {quota} is not available in namespace {other}; list it in the namespace's "
        "annotation koord-queue/available-quota-in-namespace, or the namespace with the quota"
    ),
    Reason.QUOTA_NOT_IN_QUEUE: (
        "queue {other} does not take quota {quota}; list it in the queue's annotation "
        "koord-queue/available-quota-in-queue"
    ),
    Reason.NO_QUEUE: "queue {other} does not exist in namespace {detail}, or cannot be read",
    Reason.INVALID_DEMAND: "{detail}",
    Reason.GATED_BY: "is held back by {detail}, in its annotation koord-queue/gated-by",
    Reason.PODS_REFUSED: "its pods would be refused: {detail}",
    Reason.REQUESTS_MISSING: "{detail}, which quota {quota} asks of every pod",
    Reason.INACTIVE: "is not active: {detail}",
    Reason.IN_BACKOFF: "waits to be tried again at {time}",
    Reason.BLOCKED_FOR_TEST: "is put on hold by its annotation koord-queue/block-for-test",
    Reason.ADMISSION_CHECK_INACTIVE: "admission check {other} is not active: {detail}",
}


def stable_message(refusal: Refusal) -> str:
    """Return why a unit is pending, in words that stay while the reason does."""
    if refusal.detail:
        quota_or_namespace = refusal.detail
    elif refusal.quota:
        quota_or_namespace = f"{refusal.quota} does not exist"
    else:
        quota_or_namespace = (
            f"the unit names none and namespace {refusal.other} has none; "
            "label it quota.scheduling.koordinator.sh/name"
        )
    words = _STABLE[refusal.reason]
    if refusal.resource == PENDING_UNITS:
        words = _TOO_MANY_PENDING
    if refusal.reason is Reason.EVICTION_RATE and not refusal.other:
        words = _TOO_MANY_EVICTIONS
    if refusal.reason is Reason.NO_QUEUE and not refusal.other:
        words = "has no queue: {detail}"
    if refusal.resource and not refusal.requested and refusal.missing:
        words = _NONE_REQUESTED.get(refusal.reason, words)
    elif refusal.is_least and refusal.resource:
        words += _EVEN_LEAST
    text = words.format(
        quota=_named(refusal),
        resource=refusal.resource or "resources",
        other=refusal.other or "another quota",
        detail=refusal.detail,
        time=refusal.detail or "once",
        quota_or_namespace=quota_or_namespace,
        window="" if refusal.window is None else _span(refusal.window),
    )
    return f"{text}{_PRESSED.format(pods=', '.join(refusal.pods))}" if refusal.pods else text


_TOO_MANY_PENDING: Final = (
    "is on hold until fewer units of {other} are pending in quota {quota} ({detail})"
)

_TOO_MANY_EVICTIONS: Final = (
    "may evict others when the scheduler's setting evictionsPerHour allows it again: from {time} on"
)

_PRESSED: Final = "; pods without a node that count: {pods}"


_OVER: Final = (
    "quota {quota} uses more {resource} than its %s: until that ends no unit starts in it, "
    "not even one that requests none"
)
_NONE_REQUESTED: Final[dict[Reason, str]] = {
    Reason.OVER_QUOTA_MAX: _OVER % "max",
    Reason.OVER_PARENT_MAX: _OVER % "max",
    Reason.OVER_RUNTIME: _OVER % "runtime",
    Reason.OVER_PARENT_RUNTIME: _OVER % "runtime",
    Reason.OVER_MIN: _OVER % "min",
    Reason.NON_PREEMPTIBLE_OVER_MIN: (
        "units and pods of quota {quota} that are not preemptible use more {resource} than its "
        "min: until that ends no other starts in it, not even one that requests none"
    ),
}
"""Used if the limit is exceeded without the unit, which asks for none of the resource."""


def _named(refusal: Refusal) -> str:
    """Return the quota's name, with its namespace if several quotas have that name."""
    if not refusal.quota_namespace:
        return refusal.quota
    return f"{refusal.quota} (the one in namespace {refusal.quota_namespace}, which is the oldest)"


_EVEN_LEAST: Final = ", even with its fewest pods (minCount)"


_OF_QUEUES: Final[dict[Reason, str]] = {
    Reason.NO_CAPACITY: "the cluster has no node; units wait until there is one",
    Reason.BROKEN_CHAIN: "quota {quota} cannot be used ({other}: {detail}); units wait",
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
    return words.format(quota=_named(refusal), other=refusal.other, detail=refusal.detail)


_BEHIND: Final = reasons_with(Trait.OTHER_UNIT)
"""Reasons that are about another unit."""
_BEHIND_USE: Final = frozenset({Reason.BEHIND_ACCOUNT, Reason.BEHIND_QUEUE})
"""The ones among them whose detail says what both have used."""
NAMES_UNIT: Final = _BEHIND | {Reason.ROOM_FOR_PREEMPTOR}
"""Reasons whose text names another unit (`Refusal.other`)."""


def full_message(refusal: Refusal) -> str:
    """Return why a unit is pending, with the present numbers."""
    text = stable_message(refusal)
    if refusal.reason in _BEHIND_USE and refusal.detail:
        return f"{text}: {refusal.detail} ({refusal.other} is first)"
    if refusal.reason in _BEHIND:
        return f"{text}: {refusal.other}"
    if refusal.window is not None:
        return f"{text}: {_window_numbers(refusal.window)}"
    if not refusal.resource:
        return text
    if refusal.budget is not None:
        return f"{text}: {_budget_numbers(refusal.budget)}"

    numbers = (refusal.missing, refusal.limit, refusal.used, refusal.requested)
    missing, limit, used, requested = for_people(refusal.resource, numbers)
    if refusal.reason is Reason.HURTS_OTHERS:
        # The numbers are of the other quota: what it uses, and what would be left for it.
        shown = f"{refusal.other} uses {used}, would get {limit}"
    else:
        shown = f"missing {missing} (limit {limit}, used {used}, requested {requested})"
    if refusal.reason is Reason.USER_LIMIT and refusal.requested > refusal.limit:
        shown += ", so it never starts as it is"
    return f"{text}: {shown}{_ROUNDED if refusal.is_rounded else ''}"


def _budget_numbers(lacks: BudgetShortage) -> str:
    """Return what a budget lacks for a unit, and what would let it start."""
    amounts = (lacks.needed, lacks.left, lacks.limit, lacks.spent, lacks.committed, lacks.missing)
    texts = [in_decimals(each, lacks.scale) for each in amounts]
    needed, left, limit, spent, committed, missing = texts
    asks = f"needs {needed}, " if lacks.needed else ""
    shown = f"{asks}left {left} (budget {limit}, spent {spent}, committed {committed})"
    if lacks.declares_nothing:
        shown += "; it declares no time to run (maximumExecutionTimeSeconds), which the budget asks"
    elif lacks.missing:
        shown += f"; it would start with {missing} more"
    if lacks.would_start_seconds:
        shown += f", or if it declares at most {seconds_in_words(lacks.would_start_seconds)}"
    if lacks.resets_at is not None:
        shown += f"; more may be left at {_time(lacks.resets_at)}"
    return shown


def _span(window: ReservedWindow) -> str:
    return f" ({_time(window.start)} to {_time(window.end)})"


def _window_numbers(window: ReservedWindow) -> str:
    """Return what would let a unit start before a window, or why nothing does."""
    would_start, most = window.would_start_seconds, window.longest_gap
    if window.declares_nothing:
        shown = "it declares no time to run (maximumExecutionTimeSeconds)"
    else:
        shown = "it declares too long a time to run"
    if would_start:
        shown += f"; it would start now if it declares at most {seconds_in_words(would_start)}"
    if most is not None:
        shown += "; it never starts as it is, since windows follow without end"
        if most:
            shown += f", and leave {seconds_in_words(most)} between two of them at most"
    return shown


def _time(second: int) -> str:
    return rfc3339(datetime.fromtimestamp(second, UTC))


_ROUNDED: Final = (
    "; the difference is no more than koord-scheduler up to 1.8 loses by rounding shares half up"
)


def pods_message(unit: QueueUnit) -> str:
    """Return why pods of a released unit do not run, for its condition; "" if they run."""
    if phase_of(unit) not in RELEASED_PHASES:
        return ""
    condition = find_condition(unit.status.conditions, PODS_READY)
    if condition is None or condition.reason not in _PODS_AWAITED:
        return ""
    return f"{condition.reason}: {condition.message}"


_PODS_AWAITED: Final = frozenset({NO_PODS, PODS_UNSCHEDULABLE, WAITED_FOR})
"""Reasons of the pods' condition that say what is missing."""


def eviction_message(decision: Preempt) -> str:
    """Return why a victim is evicted, with the numbers of the choice."""
    refusal = decision.refusal
    words = f"{for_whom_mark(decision.unit)}(priority {decision.priority}, queue {decision.queue}"
    if refusal.resource and refusal.missing:
        short = amount_for_people(refusal.resource, refusal.missing, Rounding.UP)
        words += f", quota {decision.quota}), which lacks {short} of {refusal.resource}"
    else:
        words += f", quota {decision.quota})"
    return words


def preemption_note(victims: Sequence[Victim]) -> str:
    """Return which units were evicted for a unit that needs room."""
    units = "1 unit is" if len(victims) == 1 else f"{len(victims)} units are"
    lost = sum(victim.lost_seconds for victim in victims)
    names = ", ".join(victim.unit for victim in victims[:MAX_NAMED])
    more = "" if len(victims) <= MAX_NAMED else ", ..."
    return (
        f"{units} evicted so that it can start, which it does when they have stopped: {names}{more}"
        f" ({lost} s of run time are lost)"
    )
