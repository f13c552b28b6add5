"""A judge made of two functions: a rule, and a reader of the rule's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from shared_api.admission_check_kit.judging import ACTIVE, Activity
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit

P = TypeVar("P")

Rule = Callable[[QueueUnit, P], CheckVerdict]
"""Returns whether a unit may start, by the parameters of its check; see `judging.Judge.judge`."""

Reader = Callable[[AdmissionCheck], P]
"""Returns the parameters of a check; raises BadParameters. May only read, as `JudgesChecks`."""


class BadParameters(Exception):
    """A check cannot be performed with its parameters.

    Args:
        reason: One CamelCase word for programs.
        message: What is wrong, for users; shown in the check's condition Active and in the units
            that wait for it.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class RuleJudge(Generic[P]):
    """Judges by a rule. A check with bad parameters is not active, and its units stay pending."""

    def __init__(self, rule: Rule[P], read: Reader[P]) -> None:
        self._rule = rule
        self._read = read

    def judge_check(self, check: AdmissionCheck) -> Activity:
        """Return whether the parameters are valid."""
        try:
            self._read(check)
        except BadParameters as bad:
            return Activity(is_active=False, reason=bad.reason, message=bad.message)
        return ACTIVE

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict:
        """Return the verdict of the rule; Pending if the parameters are not valid."""
        try:
            parameters = self._read(check)
        except BadParameters as bad:
            return CheckVerdict(CheckState.PENDING, bad.message)
        return self._rule(unit, parameters)


def read_all(check: AdmissionCheck) -> AdmissionCheck:
    """Return the check itself: the `Reader` of a rule that takes the whole check."""
    return check
