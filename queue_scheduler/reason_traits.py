"""What is true of each reason: one row for a reason, whichever module asks.

A new reason gets a row here, so each question about reasons has to be answered for it.
"""

from __future__ import annotations

from enum import Flag, auto
from typing import Final

from queue_scheduler.decision import Reason


class Trait(Flag):
    """One question about reasons; a reason has the trait if the answer is yes."""

    OTHER_UNIT = auto()
    """It is about another unit, which `Refusal.other` names."""
    BACKFILL = auto()
    """The unit would delay the head of a queue that backfills; it fitted when it was asked."""
    PAST_FILTERS = auto()
    """The unit passes the filters; it is considered again when the cause ends."""
    NO_HEAD = auto()
    """A unit refused so is no head: others may pass it without delaying it."""
    NOT_BY_EVICTION = auto()
    """No eviction ends it, or only evictions that the refused unit may not ask for."""
    NEEDS_CORRECTION = auto()
    """The unit, its quota or its queue must be corrected: waiting does not help."""
    TOO_LARGE = auto()
    """The unit is larger than a limit, whatever is free: it does not start as it is."""
    FIXED_LIMIT = auto()
    """The limit is written in a quota, and does not depend on other quotas."""
    SUM = auto()
    """A sum of charges is compared with a limit: what is left is known (`limit_checks.room`)."""
    RUNTIME = auto()
    """Runtimes are compared, which follow from the requests of other quotas."""


_NONE: Final = Trait(0)
_BEHIND_HEAD: Final = Trait.OTHER_UNIT | Trait.BACKFILL | Trait.PAST_FILTERS | Trait.NO_HEAD
_UNUSABLE: Final = Trait.NO_HEAD | Trait.NOT_BY_EVICTION

TRAITS: Final[dict[Reason, Trait]] = {
    Reason.WAITING: _NONE,
    Reason.BEHIND_REFUSED_UNIT: Trait.OTHER_UNIT,
    Reason.BEHIND_HIGHER_BAND: Trait.OTHER_UNIT,
    Reason.BEYOND_MAX_DEPTH: _NONE,
    Reason.WOULD_DELAY_HEAD: _BEHIND_HEAD,
    Reason.NO_MAX_EXECUTION_TIME: _BEHIND_HEAD,
    Reason.WAITING_FOR_PODS_RUNNING: Trait.PAST_FILTERS,
    Reason.WAITING_FOR_NODES_OF_OTHERS: _NONE,
    Reason.WRITE_FAILED: _NONE,
    Reason.STOPPED_QUEUE: _NONE,
    Reason.GROWS_AFTER_OTHERS: Trait.OTHER_UNIT,
    Reason.EXCEEDS_QUOTA: _UNUSABLE | Trait.NEEDS_CORRECTION | Trait.TOO_LARGE,
    Reason.OVER_QUOTA_MAX: Trait.SUM | Trait.FIXED_LIMIT,
    Reason.OVER_PARENT_MAX: Trait.SUM | Trait.FIXED_LIMIT,
    Reason.OVER_RUNTIME: Trait.RUNTIME,
    Reason.OVER_PARENT_RUNTIME: Trait.RUNTIME,
    Reason.OVER_MAX_JOBS: _NONE,
    Reason.OVER_MIN: Trait.SUM | Trait.FIXED_LIMIT,
    Reason.NON_PREEMPTIBLE_OVER_MIN: Trait.SUM,
    Reason.HURTS_OTHERS: Trait.RUNTIME,
    Reason.GUARANTEE_OF_OTHERS: _NONE,
    Reason.ROOM_FOR_PREEMPTOR: Trait.PAST_FILTERS | Trait.NOT_BY_EVICTION,
    Reason.NO_CAPACITY: Trait.SUM,
    Reason.BROKEN_CHAIN: _UNUSABLE,
    Reason.UNKNOWN_QUOTA: _UNUSABLE,
    Reason.REFUSED_BY_PLUGIN: _NONE,
    Reason.NO_QUOTA: Trait.NEEDS_CORRECTION,
    Reason.AMBIGUOUS_QUOTA: Trait.NEEDS_CORRECTION,
    Reason.QUOTA_NOT_IN_NAMESPACE: Trait.NEEDS_CORRECTION,
    Reason.QUOTA_NOT_IN_QUEUE: Trait.NEEDS_CORRECTION,
    Reason.NO_QUEUE: Trait.NEEDS_CORRECTION,
    Reason.INVALID_DEMAND: Trait.NEEDS_CORRECTION,
    Reason.PODS_REFUSED: _NONE,
    Reason.REQUESTS_MISSING: Trait.NEEDS_CORRECTION,
    Reason.INACTIVE: _NONE,
    Reason.IN_BACKOFF: _NONE,
    Reason.BLOCKED_FOR_TEST: _NONE,
    Reason.ADMISSION_CHECK_INACTIVE: _NONE,
}
"""Each reason has a row (a test sees to it)."""


def reasons_with(trait: Trait) -> frozenset[Reason]:
    """Return the reasons that have the trait."""
    return frozenset(reason for reason, traits in TRAITS.items() if trait in traits)
