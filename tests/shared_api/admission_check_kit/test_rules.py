"""Functions as a judge: the rule gets the parameters, and invalid ones keep the units waiting."""

from __future__ import annotations

from shared_api.admission_check_kit.judging import ACTIVE
from shared_api.admission_check_kit.rules import BadParameters, RuleJudge, read_all
from shared_api.admission_check_kit.verdicts import CheckState, CheckVerdict
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit

UNIT = QueueUnit(metadata=ObjectMeta(name="unit"))


def check_with(**annotations: str) -> AdmissionCheck:
    return AdmissionCheck(metadata=ObjectMeta(name="check", annotations=annotations))


def read_limit(check: AdmissionCheck) -> int:
    given = check.metadata.annotations.get("limit", "")
    if not given.isdecimal():
        raise BadParameters("BadLimit", f"limit: {given!r} is no number")
    return int(given)


def within(unit: QueueUnit, limit: int) -> CheckVerdict:
    return CheckVerdict(CheckState.READY, f"{unit.metadata.name} of {limit}")


def test_the_rule_gets_the_unit_and_the_parameters() -> None:
    judge = RuleJudge(within, read_limit)
    assert judge.judge(UNIT, check_with(limit="7")) == CheckVerdict(CheckState.READY, "unit of 7")
    assert judge.judge_check(check_with(limit="7")) == ACTIVE


def test_with_bad_parameters_the_check_is_not_active_and_its_units_wait() -> None:
    judge, check = RuleJudge(within, read_limit), check_with(limit="many")
    activity = judge.judge_check(check)
    assert (activity.is_active, activity.reason) == (False, "BadLimit")
    assert activity.message == "limit: 'many' is no number"
    assert judge.judge(UNIT, check) == CheckVerdict(
        CheckState.PENDING, "limit: 'many' is no number"
    )


def test_a_rule_may_take_the_whole_check() -> None:
    def named(_unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict:
        return CheckVerdict(CheckState.READY, check.metadata.name)

    judge = RuleJudge(named, read_all)
    assert judge.judge(UNIT, check_with()).message == "check"
    assert judge.judge_check(check_with()) == ACTIVE
