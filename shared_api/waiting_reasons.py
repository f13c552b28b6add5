"""Why a unit waits, as far as both programs use it: which reasons need action.

The scheduler writes a reason into the unit's condition `QuotaReserved`; the controllers tell those
that do not pass by themselves on the job, with the way out.
"""

from __future__ import annotations

from typing import Final

NOT_WRITTEN: Final = "Waiting"
"""What a unit's message reads until a reason is written: the CRD's default, it costs no write."""

TO_MEND: Final = frozenset(
    {
        "NoQuota",
        "NoQueue",
        "AmbiguousQuota",
        "QuotaNotInNamespace",
        "QuotaNotInQueue",
        "ExceedsQuota",
        "InvalidDemand",
        "PodsRefused",
        "RequestsMissing",
        "Inactive",
        "StoppedQueue",
        "BrokenChain",
        "AdmissionCheckInactive",
    }
)
"""Reasons that stay until a user changes the job, its quota or its queue."""
