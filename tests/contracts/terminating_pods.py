"""Whether koord-scheduler counts a pod that is being deleted.

The rule depends on its gates ElasticQuotaIgnoreTerminatingPod (`GRACE`) and
ElasticQuotaImmediateIgnoreTerminatingPod. This project's scheduler counts every pod until it is
deleted, whatever the gates: it then expects at least the demand that koord-scheduler sees.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never


class TerminatingPods(StrEnum):
    """When a pod with a deletionTimestamp stops counting."""

    COUNT = "count"
    GRACE = "grace"
    IMMEDIATE = "immediate"


def does_terminating_pod_count(
    rule: TerminatingPods, *, seconds_since_deletion: int, grace_seconds: int
) -> bool:
    """Return whether a pod with a deletionTimestamp counts.

    `seconds_since_deletion` is counted from the deletionTimestamp, which includes the grace period:
    koord-scheduler waits for it twice, and so does this function.
    """
    match rule:
        case TerminatingPods.COUNT:
            return True
        case TerminatingPods.GRACE:
            return seconds_since_deletion <= grace_seconds
        case TerminatingPods.IMMEDIATE:
            return False
        case _:
            assert_never(rule)
