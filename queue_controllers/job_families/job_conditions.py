"""The conditions that many kinds of jobs have in common. Pure."""

from __future__ import annotations

from queue_controllers.jobframework.generic_job import Outcome
from shared_api.objects.meta import Condition, Timestamp, find_condition, is_condition_true


def read_outcome(conditions: tuple[Condition, ...], success: str) -> Outcome | None:
    """Return how a job ended: well by the condition `success`, else by `Failed`; else None."""
    if is_condition_true(conditions, success):
        return Outcome(succeeded=True)
    failed = find_condition(conditions, "Failed")
    if failed is not None and failed.status == "True":
        return Outcome(succeeded=False, message=failed.message or failed.reason)
    return None


def read_suspended(conditions: tuple[Condition, ...]) -> tuple[bool, Timestamp | None]:
    """Return whether `Suspended` is true, and since when it has its value."""
    condition = find_condition(conditions, "Suspended")
    if condition is None:
        return False, None
    return condition.status == "True", condition.last_transition_time


def true_since(conditions: tuple[Condition, ...], *names: str) -> Timestamp | None:
    """Return since when the first of these conditions is true, "" for no time; None for none."""
    for each in conditions:
        if each.type in names and each.status == "True":
            return each.last_transition_time or Timestamp("")
    return None
