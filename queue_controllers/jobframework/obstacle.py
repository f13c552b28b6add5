"""Why a job in line will not start until somebody acts, for the user who looks at his job. Pure.

The scheduler says in the unit's condition `QuotaReserved` why a unit waits, and mostly that passes
by itself. What does not is told on the job as well, in the same words and with the way out. At the
backoff limit that is the condition which says so: "Inactive" would be half of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import BACKOFF_LIMIT_REACHED, QUOTA_RESERVED
from shared_api.well_known_labels import ACTIVE, QUEUE_NAME, QUOTA_NAME

WAYS_OUT: Final[Mapping[str, str]] = {
    "NoQuota": f"Name one that exists in the job's label {QUOTA_NAME}, or have it made",
    "NoQueue": f"Name one that exists in the job's label {QUEUE_NAME}, or have it made",
    "QuotaNotInQueue": f"Or take {QUEUE_NAME} off the job: it then waits in the queue of its quota",
    "ExceedsQuota": "Make the job again with less, or have the quota raised",
    "InvalidDemand": "Make the job again with requests that can be read",
    "Inactive": f'To have it wait in the queue, annotate the job {ACTIVE}: "true"',
    "BrokenChain": "Whoever administers the quotas must mend them",
    "AdmissionChecksNotServed": "Name another queue, or have the check taken off this one",
    "QueuePolicyNotServed": "Name another queue, or have the policy of this one changed",
}
"""By the condition's reason, a word of the scheduler's."""


class Obstacle(msgspec.Struct, frozen=True):
    """What is in the way, as an event says it."""

    reason: str
    message: str


def find_obstacle(unit: QueueUnit) -> Obstacle | None:
    """Return what keeps a waiting unit until somebody acts; None for what passes by itself."""
    reached = find_condition(unit.status.conditions, BACKOFF_LIMIT_REACHED)
    if reached is not None and reached.status == "True":
        return Obstacle(reached.reason, reached.message)
    waits = find_condition(unit.status.conditions, QUOTA_RESERVED)
    if waits is None or waits.status != "False" or waits.reason not in WAYS_OUT:
        return None
    message = f"It can not start: {waits.message}. {WAYS_OUT[waits.reason]}"
    return Obstacle(waits.reason, message)
