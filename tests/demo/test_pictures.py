"""The pictures: which jobs make a sweep, and which unit is shown."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.demo.load_plan import GPU, REAL_GPUS, RUN_SECONDS, build_plan
from tests.demo.make_slice import SLICE, read_rows
from tests.demo.pictures import (
    LEAST_FUTURES,
    LEAST_RUNS,
    SWEEP_JOBS,
    borrowers,
    choose_unit,
    sweep,
)

EARLY, MIDDLE, LATE = (f"2026-11-29T10:00:{second}Z" for second in ("00", "30", "50"))
GOOD = {
    "name": "good",
    "outlook": "times",
    "similarRuns": LEAST_RUNS,
    "sample": LEAST_FUTURES,
    "startP10": EARLY,
    "startP50": MIDDLE,
    "startP90": LATE,
    "computedAt": EARLY,
    "ageSeconds": 15.0,
}


def test_the_sweep_is_alike_and_of_a_tenant_that_may_borrow() -> None:
    plan = build_plan(read_rows(SLICE), shape=REAL_GPUS)
    jobs = list(sweep(plan, random.Random(1)))
    names = {job["metadata"]["name"] for job in jobs}
    (namespace,) = {job["metadata"]["namespace"] for job in jobs}
    (tenant,) = (each for each in plan.tenants if each.name == namespace)
    assert len(names) == SWEEP_JOBS
    assert tenant.max_gpus > tenant.min_gpus
    assert not names & {job.name for job in plan.jobs}
    templates = [job["spec"]["template"] for job in jobs]
    assert len({str(each["spec"]) for each in templates}) == 1
    assert len({each["metadata"]["annotations"][RUN_SECONDS] for each in templates}) > 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"outlook": "notKnownYet", "startP10": None}, id="no times"),
        pytest.param({"similarRuns": LEAST_RUNS - 1}, id="too few runs"),
        pytest.param({"sample": LEAST_FUTURES - 1}, id="a forecast that was cut short"),
        pytest.param({"ageSeconds": 25.0}, id="it may have started"),
        pytest.param({"startP90": None}, id="beyond the horizon"),
    ],
)
def test_a_weak_forecast_is_not_shown(change: dict[str, Any]) -> None:
    weak = {**GOOD, "name": "weak", **change}
    assert choose_unit([weak, GOOD, weak]) == GOOD
    assert choose_unit([weak]) is None


def test_a_unit_that_starts_early_but_not_first_is_shown() -> None:
    units = [{**GOOD, "name": name} for name in "dacb"]
    found = choose_unit(units)
    assert found is not None
    assert found["name"] == "b"


def test_who_uses_more_than_it_is_guaranteed_borrows() -> None:
    def quota(name: str, used: str, least: str) -> dict[str, Any]:
        return {"name": name, "used": {GPU: used, "cpu": "900"}, "min": {GPU: least, "cpu": "1"}}

    none: dict[str, Any] = {"name": "none", "used": {}, "min": {}}
    assert borrowers([quota("a", "10", "9"), quota("b", "4", "4"), none]) == ["a"]
