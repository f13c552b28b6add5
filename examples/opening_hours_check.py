"""An admission check of one's own: jobs start only at certain hours (UTC).

The AdmissionCheck names the hours; a Queue whose `spec.admissionChecks` lists it waits for them:

    metadata: {name: nights, annotations: {example.com/open-hours: 22-6}}
    spec: {controllerName: example.com/opening-hours}

It runs as `python examples/opening_hours_check.py --leader-elect=false`.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from shared_api.admission_check_kit.judging import ACTIVE, Activity
from shared_api.admission_check_kit.serving import serve
from shared_api.admission_check_kit.verdicts import CheckState, Verdict
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock, SystemClock

OPEN_HOURS: Final = "example.com/open-hours"
LOOK_SECONDS: Final = 60.0


class OpeningHours:
    """Lets units start from one hour of the day until another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def judge_check(self, check: AdmissionCheck) -> Activity:
        """Say so where the hours make no sense."""
        if self._hours_of(check) is None:
            return Activity(is_active=False, reason="BadHours", message=f"{OPEN_HOURS}: not 22-6")
        return ACTIVE

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> Verdict:
        """Judge by the clock alone, and again every minute while it is closed."""
        hours = self._hours_of(check)
        if hours is None:
            return Verdict(CheckState.PENDING, f"{OPEN_HOURS} of the check makes no sense")
        opens, closes = hours
        if (self._clock.now().hour - opens) % 24 < (closes - opens) % 24:
            return Verdict(CheckState.READY, f"open from {opens} to {closes} h")
        return Verdict(CheckState.PENDING, f"opens at {opens} h", look_again_seconds=LOOK_SECONDS)

    def _hours_of(self, check: AdmissionCheck) -> tuple[int, int] | None:
        found = re.fullmatch(r"(\d\d?)-(\d\d?)", check.metadata.annotations.get(OPEN_HOURS, ""))
        return None if found is None else (int(found[1]), int(found[2]))


if __name__ == "__main__":
    sys.exit(serve("example.com/opening-hours", OpeningHours(SystemClock())))
