"""When budgets are spent.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class BudgetForecast(Answer, frozen=True):
    """When a budget is spent: nothing is left of it, apart from what is committed.

    `entry` is its place in the `budgets` of the QuotaPolicy `policy`, from 0; `resource` is
    `amount` where it has a price. `limit` has what was carried over; `spent`, `committed` and
    `left` are those of the forecast's beginning, in hours or in the unit of the amount.

    `outlook` is `times`, `spent` (since `spent_since`) or `notKnownYet` (`no_times` says why). A
    time that is null is beyond the horizon. It may lie in a later period than the present one,
    which ends at `resets_at`.
    """

    quota: str = ""
    policy: str = ""
    entry: int = 0
    resource: str = ""
    period: str = ""
    time_zone: str = ""
    enforce: str = ""
    limit: str = ""
    spent: str = ""
    committed: str = ""
    left: str = ""
    resets_at: str | None = None
    outlook: str = ""
    no_times: str = ""
    spent_since: str | None = None
    spent_p10: str | None = None
    spent_p50: str | None = None
    spent_p90: str | None = None


class BudgetForecastPage(Answer, frozen=True):
    """When budgets are spent, by quota, by the last forecast.

    `sample` is how many futures were played until the horizon, `computed_at` the time of the state
    that they begin with. `others` counts the budgets that the caller may not see: their sums would
    tell about one or two namespaces that it may not read.
    """

    total: int = 0
    offset: int = 0
    limit: int = 0
    items: tuple[BudgetForecast, ...] = ()
    others: int = 0
    horizon_seconds: float = 0.0
    sample: int = 0
    computed_at: str = ""
    age_seconds: float = 0.0
