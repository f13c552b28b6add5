"""Whether koord-scheduler still counts a pod that is being deleted.

Which rule is in force depends on its gates ElasticQuotaIgnoreTerminatingPod (`GRACE`) and
ElasticQuotaImmediateIgnoreTerminatingPod. This project's scheduler counts every pod until it is
gone, whatever the gates: it expects more demand than koord-scheduler then sees, and what is
covered whole is covered in part.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never


class TerminatingPods(StrEnum):
    """When a pod with a deletionTimestamp stops to count."""

    COUNT = "count"
    GRACE = "grace"
    IMMEDIATE = "immediate"


def does_terminating_pod_count(
    rule: TerminatingPods, *, seconds_since_deletion: int, grace_seconds: int
) -> bool:
    """Return whether a pod with a deletionTimestamp counts.

    `seconds_since_deletion` is counted from the deletionTimestamp, to which the API server has
    added the grace period already: koord-scheduler waits for it twice, and so does this.
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
