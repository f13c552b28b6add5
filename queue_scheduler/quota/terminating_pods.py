"""Whether a pod that is being deleted still counts against its quota.

Source: elasticquota.md 4.3; which rule is in force depends on two feature gates of koord-scheduler.
"""

from __future__ import annotations

from typing import assert_never

from queue_scheduler.quota.quota_settings import TerminatingPods


def does_terminating_pod_count(
    rule: TerminatingPods, *, seconds_since_deletion: int, grace_seconds: int
) -> bool:
    """Say whether a pod with a deletionTimestamp counts.

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
