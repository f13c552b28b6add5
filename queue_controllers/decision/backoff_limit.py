"""When a unit reaches its backoff limit, and how it becomes inactive then. Pure.

How it stays inactive, and how it becomes active again, is in `deactivation`.
"""

from __future__ import annotations

from queue_controllers.decision.deactivation import deactivate, mark_of
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.unit_status_patches import is_put_back_when_freed
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import backoffs_of
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from shared_api.well_known_labels import LIMIT_REACHED


def reach_limit(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a pending unit whose limit was lowered to its count of requeues; else None."""
    if mark_of(unit) or occupies_quota(unit) or not _is_limit(view, backoffs_of(unit)):
        return None
    return deactivate(view, job, unit, LIMIT_REACHED)


def reach_limit_when_freed(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a unit whose eviction would requeue it once too often; None if it would not.

    This comes before the unit is freed, so that it is never free and active.
    """
    is_new = not mark_of(unit) and reaches_limit(view, unit)
    return deactivate(view, job, unit, LIMIT_REACHED) if is_new else None


def reaches_limit(view: JobView, unit: QueueUnit) -> bool:
    """Return whether the eviction in progress brings the unit to its backoff limit."""
    return is_put_back_when_freed(unit) and _is_limit(view, backoffs_of(unit) + 1)


def _is_limit(view: JobView, count: int) -> bool:
    limit = view.settings.backoff_limit
    return limit > 0 and count >= limit
