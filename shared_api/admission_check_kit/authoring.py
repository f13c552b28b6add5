"""Every name that authors of checks need, in a single import.

from shared_api.admission_check_kit import authoring as kit
"""

from __future__ import annotations

from shared_api.admission_check_kit.judging import ACTIVE, Activity, CheckContext, Judge
from shared_api.admission_check_kit.rules import BadParameters
from shared_api.admission_check_kit.serving import serve
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import PodSetUpdate, QueueUnit
from shared_api.process.clock import Clock, SystemClock

__all__ = [
    "ACTIVE",
    "Activity",
    "AdmissionCheck",
    "BadParameters",
    "CheckContext",
    "CheckState",
    "CheckVerdict",
    "Clock",
    "Judge",
    "PodSetUpdate",
    "QueueUnit",
    "SystemClock",
    "serve",
]
