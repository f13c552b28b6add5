"""The reasons of pending units that both programs use: those that need action.

The scheduler writes a reason into the unit's condition `QuotaReserved`; the controllers report the
reasons that do not resolve by themselves on the job, with a remedy.
"""

from __future__ import annotations

from typing import Final

NOT_WRITTEN: Final = "Waiting"
"""The message of a unit until a reason is written: the CRD's default, which costs no write."""

NEEDS_ACTION: Final = frozenset(
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
"""Reasons that last until a user changes the job, its quota or its queue."""
