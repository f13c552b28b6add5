"""Budgets as policies state them: what is read, and the place of each mistake."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.tenants.budget_reading import BudgetError, read_budgets
from queue_scheduler.tenants.budget_rules import BudgetRule, Enforce
from queue_scheduler.tenants.calendars import Calendars
from queue_scheduler.tenants.periods import Period, find_calendars
from shared_api.objects.quota_policy import MAX_BUDGETS, Budget
from tests.budget_world import HOUR, at, budget

NOW = at("2026-11-30T20:00")


def read(*budgets: Budget) -> tuple[BudgetRule, ...]:
    calendars = Calendars()
    calendars.put(find_calendars(budgets, NOW))
    return read_budgets(budgets, "p", calendars)


def test_the_defaults() -> None:
    (rule,) = read(budget(100))
    assert rule == BudgetRule(
        name="cpu",
        weights={"cpu": 1},
        limit=100 * 1000 * HOUR,
        scale=1000 * HOUR,
        period=Period.MONTH,
        policy="p",
    )
    assert (rule.time_zone, rule.enforce, rule.is_reserved) == ("UTC", Enforce.HOLD, True)
    assert (rule.undeclared, rule.grace) == (24 * HOUR, 600)
    assert (rule.carry_over, rule.is_debt_counted) == (0, True)


def test_units_are_those_of_the_report() -> None:
    memory, gpus = read(budget(2, resource="memory"), budget("1500m", resource="nvidia.com/gpu"))
    assert memory.limit == 2 * 2**30 * HOUR
    assert gpus.limit == 3 * HOUR // 2


def test_a_price_is_exact() -> None:
    (rule,) = read(Budget(amount="0.3", price={"cpu": "0.1", "memory": "0.2"}, period="Day"))
    assert rule.rate_of({"cpu": 1000, "memory": 2**30}) * HOUR == rule.limit
    assert rule.rate_of({"cpu": 3000}) * HOUR == rule.limit


def test_alike_budgets_are_told_apart() -> None:
    rules = read(budget(80, enforce="Warn"), budget(10, period="Day"), budget(100, enforce="Stop"))
    assert [each.number for each in rules] == [0, 0, 1]
    assert [each.index for each in rules] == [0, 1, 2]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"period": ""}, "period: '' is none of Day, Week, Month, Rolling 30d, None"),
        pytest.param({"period": "Year"}, "period: 'Year' is none of Day, Week, Month"),
        pytest.param({"hours": None}, ": set either hours or amount"),
        pytest.param({"amount": 1}, ": set either hours or amount"),
        pytest.param({"resource": ""}, ": hours are of one resource, and have no price"),
        pytest.param({"price": {"cpu": 1}}, ": hours are of one resource, and have no price"),
        pytest.param({"hours": None, "amount": 1}, ": an amount needs a price, and no resource"),
        pytest.param({"hours": -1}, ".hours: must not be negative"),
        pytest.param({"hours": "many"}, ".hours: 'many' is not a quantity"),
        pytest.param({"hours": "1e300"}, ".hours: '1e300' is larger than"),
        pytest.param(
            {"hours": None, "resource": "", "amount": 1, "price": {"cpu": -1}},
            ".price.cpu: must not be negative",
        ),
        pytest.param({"time_zone": "Mars"}, ".timeZone: there is no time zone 'Mars'"),
        pytest.param({"time_zone": "../../etc/passwd"}, ".timeZone: there is no time zone"),
        pytest.param({"time_zone": ""}, ".timeZone: there is no time zone ''"),
        pytest.param({"enforce": "Kill"}, ".enforce: 'Kill' is none of Hold, Warn, Stop"),
        pytest.param({"reserve": "Half"}, ".reserve: 'Half' is none of Declared, None"),
        pytest.param({"undeclared": "soon"}, ".undeclared: "),
        pytest.param({"undeclared": "0"}, ".undeclared: must be more than 0, or Refuse"),
        pytest.param({"grace": "-1m"}, ".grace: "),
        pytest.param({"carry_over": 101}, ".carryOver: must be between 0 and 100"),
        pytest.param({"carry_over": -1}, ".carryOver: must be between 0 and 100"),
        pytest.param({"debt": "Sell"}, ".debt: 'Sell' is none of Count, Forgive"),
        pytest.param({"period": "None", "carry_over": 1}, ": timeZone, carryOver and debt need"),
        pytest.param({"period": "Rolling 30d", "debt": "Forgive"}, ": timeZone, carryOver and"),
        pytest.param({"period": "None", "time_zone": "Europe/Berlin"}, ": timeZone, carryOver"),
    ],
)
def test_bad_settings_are_named_with_their_place(fields: dict[str, Any], want: str) -> None:
    with pytest.raises(BudgetError) as found:
        read(budget(1), budget(**fields))
    assert str(found.value).startswith(f"budgets[1]{want}" if want[0] in ":." else "budgets[1].")
    assert want in str(found.value)


def test_there_are_not_too_many() -> None:
    with pytest.raises(BudgetError, match="at most 8"):
        read(*[budget(1)] * (MAX_BUDGETS + 1))
