"""Explanations as text: where a unit stands, and why an admitted one is not evicted.

The reasons in them are worded by `queue_scheduler.refusal_texts`.
"""

from __future__ import annotations

from typing import Final

from queue_insight.insight.admitted import Admitted
from queue_insight.insight.explain import Explanation, Verdict
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.preemption.candidates import Kept
from queue_scheduler.refusal_texts import full_message, pods_message
from shared_api.timestamps import rfc3339


def summarize(explanation: Explanation) -> str:
    """Return in one sentence where a unit stands, and what keeps it there."""
    record, info = explanation.record, explanation.record.info
    if explanation.verdict is Verdict.FINISHED:
        return "Its job has ended."
    if explanation.verdict is Verdict.ADMITTED:
        quota = info.quota if info is not None and info.quota else "no quota"
        names = ", ".join(explanation.open_checks)
        waits = f"admission checks are not ready: {names}" if names else pods_message(record.unit)
        rest = f"; {waits}" if waits else ""
        return f"It is admitted: queue {record.queue_name}, quota {quota}{rest}."
    start = "It is on hold"
    if explanation.verdict is Verdict.WAITING:
        place = f", at position {explanation.position}" if explanation.position else ""
        start = f"It waits in queue {record.queue_name}{place}"
    if not explanation.blockers:
        return f"{start}, and starts when it is its turn."
    why = full_message(explanation.blockers[0])
    more = len(explanation.blockers) - 1
    rest = f" ({more} more {'reason' if more == 1 else 'reasons'})" if more else ""
    never = ". Waiting does not help" if explanation.never_starts else ""
    return f"{start}: {why}{rest}{never}."


_KEPT: Final[dict[Kept, str]] = {
    Kept.NOT_PREEMPTIBLE: "it may not be preempted: a label of it says so",
    Kept.BEING_DELETED: "it is being deleted",
    Kept.LEAVING: "it is being evicted already",
    Kept.SETTLING: "its admission is being written",
    Kept.PROTECTED: "it was admitted not long ago, and is protected until {until}",
    Kept.LEFT_ALONE: "it was evicted before, and is left alone until {until}",
}

ADMISSION_UNKNOWN: Final = (
    "It is not known: this process has not admitted the unit. Another replica did, or this one "
    "before it was restarted, or the unit ran before it was queued."
)
NOT_NOTED: Final = "It is charged to no quota."


def unknown_admission_text(record: CachedUnit) -> str:
    """Return why it is not known what a unit was admitted on."""
    return ADMISSION_UNKNOWN if record.info is not None and record.info.quota else NOT_NOTED


def spared_texts(record: CachedUnit, admitted: Admitted) -> list[tuple[str, str]]:
    """Return why an admitted unit is not evicted: for each reason a word, and a sentence.

    First what keeps it from any eviction, then why its queue does not preempt it, and why no quota
    reclaims it.
    """
    found = []
    if admitted.kept is not None:
        until = "" if admitted.kept_until is None else rfc3339(admitted.kept_until)
        found.append((admitted.kept.value, _KEPT[admitted.kept].format(until=until)))
    if not admitted.queue_preempts:
        words = f"queue {record.queue_name} evicts no units for others of higher priority"
        found.append(("QueueDoesNotPreempt", words))
    elif not admitted.is_in_reach:
        words = f"its pods run, and queue {record.queue_name} evicts only units whose pods do not"
        found.append(("PodsRun", words))
    if admitted.loan is None:
        found.append(("NothingToReclaim", "its quota does not borrow"))
    elif not admitted.loan.borrowed:
        words = "its quota uses no more than it is guaranteed of what the unit holds"
        found.append(("WithinGuarantee", words))
    elif not admitted.reclaimers:
        words = "no quota reclaims that is guaranteed what its quota borrows, and does not use it"
        found.append(("NoQuotaReclaims", words))
    return found
