"""Why a pending job will not start until a person acts, for its user. Pure.

The scheduler writes into the unit's condition `QuotaReserved` why a unit waits; most reasons pass
by themselves. Those that do not are reported on the job as well, in the same words and with the way
out. For a unit that the controllers deactivated, that is the condition that says why: "Inactive"
alone would be half of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import DEACTIVATION_CONDITIONS, QUOTA_RESERVED
from shared_api.well_known_labels import ACTIVE, QUEUE_NAME, QUOTA_NAME, TREE_QUOTA_NAME

WAYS_OUT: Final[Mapping[str, str]] = {
    "NoQuota": f"Name one that exists in the job's label {QUOTA_NAME}, or have it made",
    "NoQueue": f"Name one that exists in the job's label {QUEUE_NAME}, or have it made",
    "AmbiguousQuota": f"Or name another in the job's label {TREE_QUOTA_NAME}",
    "QuotaNotInNamespace": "Or name one in the job's label that its namespace may use",
    "QuotaNotInQueue": f"Or take {QUEUE_NAME} off the job: it then waits in the queue of its quota",
    "ExceedsQuota": "Make the job again with less, or have the quota raised",
    "InvalidDemand": "Make the job again with requests that can be read",
    "PodsRefused": "It is set aside, and queued again by itself once they would be accepted",
    "RequestsMissing": "Make the job again with them in resources.requests of its containers",
    "Inactive": f'To have it wait in the queue, annotate the job {ACTIVE}: "true"',
    "StoppedQueue": "Whoever administers the queue must let it go on, or name another",
    "BrokenChain": "An administrator of the quotas must correct them",
    "AdmissionCheckInactive": "An administrator of the queue's admission checks must repair it",
}
"""Keyed by the condition's reason, as the scheduler writes it: one for each of
`shared_api.waiting_reasons.TO_MEND`. A reason that is not written yet is not among them."""


class BlockingReason(msgspec.Struct, frozen=True):
    """A blocking reason, as an event reports it."""

    reason: str
    message: str


def find_blocking_reason(unit: QueueUnit) -> BlockingReason | None:
    """Return what blocks a pending unit until a person acts; None for what passes by itself."""
    for condition_type in DEACTIVATION_CONDITIONS:
        why = find_condition(unit.status.conditions, condition_type)
        if why is not None and why.status == "True":
            return BlockingReason(why.reason, why.message)
    waits = find_condition(unit.status.conditions, QUOTA_RESERVED)
    if waits is None or waits.status != "False" or waits.reason not in WAYS_OUT:
        return None
    message = f"It cannot start: {waits.message}. {WAYS_OUT[waits.reason]}"
    return BlockingReason(waits.reason, message)
