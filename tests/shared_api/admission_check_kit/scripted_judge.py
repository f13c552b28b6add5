"""A judge whose verdicts a test sets."""

from __future__ import annotations

from collections.abc import Callable, Collection

from shared_api.admission_check_kit.judging import ACTIVE, Activity, CheckContext
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue_unit import QueueUnit


class ScriptedJudge:
    """Has every capability that a judge may have."""

    def __init__(self, verdict: CheckVerdict | Exception | None = None) -> None:
        self.verdict = CheckVerdict(CheckState.READY, "yes") if verdict is None else verdict
        self.of_check: dict[str, CheckVerdict] = {}
        self.of_admitted: CheckVerdict | None = None
        self.activity: Activity = ACTIVE
        self.asked: list[tuple[str, str]] = []
        self.cared_for: list[tuple[str, bool, tuple[str, ...]]] = []
        self.holds: set[str] = set()
        self.context: CheckContext | None = None
        self.on_ask: Callable[[], None] = lambda: None

    def attach(self, context: CheckContext) -> None:
        self.context = context

    def judge(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict:
        self.asked.append((unit.metadata.name, check.metadata.name))
        self.on_ask()
        verdict = self.of_check.get(check.metadata.name, self.verdict)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def judge_admitted(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict | None:
        return self.of_admitted

    def judge_check(self, check: AdmissionCheck) -> Activity:
        return self.activity

    def units_to_clean_up(self) -> Collection[str]:
        return self.holds

    def clean_up(self, key: str, unit: QueueUnit | None, checks: Collection[str]) -> None:
        self.cared_for.append((key, unit is not None, tuple(checks)))
