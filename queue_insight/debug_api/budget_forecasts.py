"""When budgets are spent: the last forecast, as rows and as the route `/debug/budgets/forecast`.

A budget is a sum over the namespaces whose units were charged to its quota and below. Its row is
shown by the rule of sums (`hiding.may_sum`), quota by quota: not to a reader that may not read one
or two namespaces of any of these quotas, since a sum minus the others' sums is the one left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from fastapi import FastAPI, Query, Request

from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.question_caller import caller_of
from queue_insight.forecast.all_units import Forecast
from queue_insight.forecast.no_forecast import not_known_yet
from queue_insight.forecast.quantiles import Wait
from queue_scheduler.debug_api.hiding import MayRead, may_sum
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, Limit, Offset
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.budget_figures import read_figures_of
from queue_scheduler.tenants.budget_rules import BudgetRule
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from queue_scheduler.tenants.hours import in_decimals
from shared_api.debug_api.access import may_read_for
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import View
from shared_api.objects.quota_policy import QUOTA_LENGTH, BudgetFigures
from shared_api.timestamps import rfc3339

PATH: Final = "/debug/budgets/forecast"
EVERY: Final = "/debug/every-budget-forecast"
"""Route of the insight program that only the scheduler requests: it hides rows."""

NOT_PLAYED: Final = "not known yet: no future was played until the horizon in time"

Quota = Annotated[
    str, Query(max_length=QUOTA_LENGTH, description="only budgets of this quota; default: all")
]


class BudgetOutlook(StrEnum):
    """What can be told of when a budget is spent."""

    SPENT = "spent"
    """Nothing is left of it."""
    TIMES = "times"
    """When nothing will be left."""
    NOT_KNOWN_YET = "notKnownYet"
    """Too few runs have ended, or no future was played for as long."""


class BudgetForecastView(View):
    """When a budget is spent: nothing is left of it, apart from what is committed.

    `entry` is its place in the `budgets` of the QuotaPolicy `policy`, from 0; `resource` is
    `amount` where it has a price. `limit` has what was carried over; `spent`, `committed` and
    `left` are those of the forecast's beginning, in hours or in the unit of the amount.

    `outlook` is `times`, `spent` (since `spent_since`) or `notKnownYet` (`no_times` says why). A
    time that is null is beyond the horizon. It may lie in a later period than the present one,
    which ends at `resets_at`.
    """

    quota: str
    policy: str
    entry: int
    resource: str
    period: str
    time_zone: str
    enforce: str
    limit: str
    spent: str
    committed: str
    left: str
    resets_at: str | None
    outlook: BudgetOutlook
    no_times: str
    spent_since: str | None
    spent_p10: str | None
    spent_p50: str | None
    spent_p90: str | None


class BudgetForecastPage(View):
    """When budgets are spent, by quota, by the last forecast.

    `sample` is how many futures were played until the horizon, `computed_at` the time of the state
    that they begin with. `others` counts the budgets that the caller may not see: their sums would
    tell about one or two namespaces that it may not read.
    """

    total: int
    offset: int
    limit: int
    items: list[BudgetForecastView]
    others: int
    horizon_seconds: float
    sample: int
    computed_at: str
    age_seconds: float


class ReadableBudget(View):
    """A row, and the namespaces that its budget is a sum over, by quota that units name."""

    namespaces: list[list[str]]
    row: BudgetForecastView

    def is_readable(self, may_read: MayRead) -> bool:
        """Return whether a reader may see it."""
        return all(
            may_sum(each for each in of_quota if not may_read(each)) for of_quota in self.namespaces
        )


class EveryBudgetForecast(View):
    """All rows; the other fields are those of the page."""

    items: list[ReadableBudget]
    horizon_seconds: float
    sample: int
    computed_at: str
    age_seconds: float


class ForeseenBudget(msgspec.Struct, frozen=True):
    """A budget as a forecast has it.

    Attributes:
        quota: Its quota.
        rule: The budget.
        limit: What may be used in the present period, with what it has from the last one.
        figures: What was spent and left at the beginning of the forecast.
        spent_since: Since when nothing was left then, in seconds since the epoch; None: some was.
        spent: In how many seconds nothing is left; None: no future was played for as long.
        namespaces: The namespaces that it is a sum over, by quota that units name.
    """

    quota: str
    rule: BudgetRule
    limit: int
    figures: BudgetFigures
    spent_since: int | None
    spent: Wait | None
    namespaces: list[list[str]]


def foreseen_budgets(engine: Engine, found: Forecast) -> list[ForeseenBudget]:
    """Return the budgets of a forecast, by quota, as their policies state them.

    Args:
        engine: The state that the forecast began with; it is not changed.
        found: The forecast.
    """
    accounts = engine.fork().usage.budgets.accounts
    accounts.advance(int(found.moment.wall.timestamp()))  # at rest the engine is not told the time
    namespaces = _namespaces_of(engine)
    keyed = [(key, accounts.account(key)) for key, _ in accounts]
    keyed.sort(key=lambda each: (each[0].quota, each[1].rule.policy, each[1].rule.index))
    return [
        _foresee(account, accounts.second, found.budgets.get(key), namespaces.get(key, []))
        for key, account in keyed
    ]


def _foresee(
    account: BudgetAccount, second: int, spent: Wait | None, namespaces: list[list[str]]
) -> ForeseenBudget:
    return ForeseenBudget(
        quota=account.quota,
        rule=account.rule,
        limit=account.rule.limit + account.brought,
        figures=read_figures_of(account, second),
        spent_since=account.spent_since,
        spent=spent,
        namespaces=namespaces,
    )


def _namespaces_of(engine: Engine) -> Mapping[BudgetKey, list[list[str]]]:
    """Return the namespaces whose units were ever charged to what each budget counts, by quota."""
    usage = engine.usage
    by_quota: dict[str, set[str]] = {}
    for account, _ in usage.ledger or ():
        by_quota.setdefault(account.quota, set()).add(account.namespace)
    found: dict[BudgetKey, list[list[str]]] = {}
    for quota, namespaces in sorted(by_quota.items()):
        for key in usage.budgets.accounts.chains.levels(quota):
            found.setdefault(key, []).append(sorted(namespaces))
    return found


def view_budget(
    each: ForeseenBudget, wall: datetime, now: datetime, runs: int, least_runs: int
) -> BudgetForecastView:
    """Return a row.

    Args:
        each: The budget.
        wall: When the forecast began.
        now: The present: no time is told that has passed.
        runs: How many runs of any kind have ended, which the forecast follows from.
        least_runs: From how many on times are told.
    """
    rule, figures = each.rule, each.figures
    outlook, no_times = _outlook(each, runs, least_runs)
    times = each.spent if outlook is BudgetOutlook.TIMES else None
    return BudgetForecastView(
        quota=each.quota,
        policy=rule.policy,
        entry=rule.index,
        resource=rule.name,
        period=rule.period,
        time_zone=rule.time_zone,
        enforce=rule.enforce,
        limit=in_decimals(each.limit, rule.scale),
        spent=figures.spent,
        committed=figures.committed,
        left=figures.left,
        resets_at=figures.resets_at,
        outlook=outlook,
        no_times=no_times,
        spent_since=_second(each.spent_since),
        spent_p10=None if times is None else moment_text(times.p10, wall, now),
        spent_p50=None if times is None else moment_text(times.p50, wall, now),
        spent_p90=None if times is None else moment_text(times.p90, wall, now),
    )


def _outlook(each: ForeseenBudget, runs: int, least_runs: int) -> tuple[BudgetOutlook, str]:
    if each.spent_since is not None:
        return BudgetOutlook.SPENT, ""
    few = not_known_yet(runs, least_runs)
    if few is not None:
        return BudgetOutlook.NOT_KNOWN_YET, few.text
    if each.spent is None:
        return BudgetOutlook.NOT_KNOWN_YET, NOT_PLAYED
    return BudgetOutlook.TIMES, ""


def _second(second: int | None) -> str | None:
    return None if second is None else rfc3339(datetime.fromtimestamp(second, UTC))


def moment_text(seconds: float, wall: datetime, now: datetime) -> str | None:
    """Return a time as RFC 3339, or None if it is beyond the horizon.

    A forecast is minutes old when it is read: what was to happen meanwhile, and has not, is now.
    """
    return rfc3339(max(wall + timedelta(seconds=seconds), now)) if isfinite(seconds) else None


def add_budget_forecast_route(app: FastAPI, link: InsightLink, access: Guard) -> None:
    """Add the route of the scheduler, which asks the insight program.

    Args:
        app: The application; it calls `access` first.
        link: Asks the insight program.
        access: The application's guard.
    """

    @app.get(PATH, responses=problems(503))
    def budget_forecasts(
        request: Request, quota: Quota = "", offset: Offset = 0, limit: Limit = DEFAULT_PAGE
    ) -> BudgetForecastPage:
        """When budgets are spent, as of the last forecast of the insight program.

        A budget is counted, and not shown, where its sums would tell about one or two namespaces
        that the caller may not read.
        """
        target = f"{EVERY}?{urlencode({'quota': quota})}"
        found = link.ask_at(target, EveryBudgetForecast, caller=caller_of(request))
        return show_page(
            found, readable_budgets(found, may_read_for(access, request)), offset, limit
        )


def show_page(
    found: EveryBudgetForecast, shown: Sequence[BudgetForecastView], offset: int, limit: int
) -> BudgetForecastPage:
    """Return a page of the rows that a reader may see.

    Args:
        found: All rows.
        shown: Those that the reader may see.
        offset: Rows to leave out.
        limit: Rows at most.
    """
    return BudgetForecastPage(
        total=len(shown),
        offset=offset,
        limit=limit,
        items=list(shown[offset : offset + limit]),
        others=len(found.items) - len(shown),
        horizon_seconds=found.horizon_seconds,
        sample=found.sample,
        computed_at=found.computed_at,
        age_seconds=found.age_seconds,
    )


def readable_budgets(found: EveryBudgetForecast, may_read: MayRead) -> list[BudgetForecastView]:
    """Return the rows that a reader may see."""
    return [each.row for each in found.items if each.is_readable(may_read)]
