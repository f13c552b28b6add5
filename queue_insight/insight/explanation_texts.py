"""Why an admitted unit is not evicted, and why it is not known what it was admitted on, as text."""

from __future__ import annotations

from typing import Final

from queue_insight.insight.admitted import Admitted
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.preemption.protection import Kept
from shared_api.timestamps import rfc3339

_KEPT: Final[dict[Kept, str]] = {
    Kept.NOT_PREEMPTIBLE: "it may not be preempted: a label of it says so",
    Kept.BEING_DELETED: "it is being deleted",
    Kept.LEAVING: "it is being evicted already",
    Kept.SETTLING: "its admission is being written",
    Kept.PROTECTED: "it was admitted not long ago, and is protected until {until}",
    Kept.LEFT_ALONE: "it was evicted before, and is left alone until {until}",
    Kept.MIN_RUNTIME: "it was admitted not long ago, and is spared until {until}",
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
    reclaims it, or from when they may.
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
    elif admitted.queue_spares_until is not None:
        words = f"units of its queue may evict it from {rfc3339(admitted.queue_spares_until)} on"
        found.append((Kept.MIN_RUNTIME.value, words))
    if admitted.loan is None:
        found.append(("NothingToReclaim", "its quota does not borrow"))
    elif not admitted.loan.borrowed:
        words = "its quota uses no more than it is guaranteed of what the unit holds"
        found.append(("WithinGuarantee", words))
    elif not admitted.reclaimers:
        words = "no quota that reclaims has an unused guarantee of what its quota borrows"
        found.append(("NoQuotaReclaims", words))
    for quota, at in sorted(admitted.reclaimed_from.items()):
        words = f"quota {quota} may reclaim from it from {rfc3339(at)} on"
        found.append((Kept.MIN_RUNTIME.value, words))
    return found
