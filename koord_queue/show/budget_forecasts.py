"""When budgets are spent, in the words of the wall's clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord_queue.answers.budget_forecasts import BudgetForecast, BudgetForecastPage
from koord_queue.show.forecasts import Wall
from koord_queue.show.paragraphs import Line
from koord_queue.show.times import ago, until
from koord_queue.show.words import counted
from shared_api.durations import human_duration

_OF_A_PRICE: Final = "amount"
"""The resource of a budget that counts money."""

_PERIODS: Final = {
    "Day": "each day",
    "Week": "each week",
    "Month": "each month",
    "Rolling 30d": "in any 30 days",
    "None": "in all",
}


def budget_lines(page: BudgetForecastPage, wall: Wall) -> Iterator[Line]:
    """Yield what is left of each budget, when it is spent, and what that is based on."""
    for each in page.items:
        yield Line(f"{_name_of(each)}:", "bold")
        yield Line(
            f"  {each.spent} spent, {each.committed} committed to what runs, {each.left} left.",
            hang=2,
        )
        text = f"{spent_in_words(each, page.horizon_seconds, wall)}.{_reset_in_words(each, wall)}"
        yield Line(f"  {text}", hang=2)
    if page.others:
        yield Line(f"{counted(page.others, 'budget')} more that you may not read.", "dim")
    if page.items and page.sample:
        futures = f"{counted(page.sample, 'future')} played {ago(page.computed_at, wall.now)} ago"
        yield Line(f"Based on {futures}.", "dim")


def _name_of(each: BudgetForecast) -> str:
    what = each.limit if each.resource == _OF_A_PRICE else f"{each.limit} hours of {each.resource}"
    often = _PERIODS.get(each.period, each.period)
    entry = f"QuotaPolicy {each.policy}, budgets {each.entry}, {each.enforce}"
    return f"{what} {often} in quota {each.quota} ({entry})"


def spent_in_words(each: BudgetForecast, horizon_seconds: float, wall: Wall) -> str:
    """Return when nothing is left of a budget, as a sentence without its period."""
    if each.outlook == "spent":
        return f"Nothing has been left since {wall.clock(each.spent_since)}"
    if each.no_times:
        return f"When it is spent is {each.no_times}"
    far = f"within the next {human_duration(horizon_seconds)}"
    first, middle, last = (
        wall.clock(time) for time in (each.spent_p10, each.spent_p50, each.spent_p90)
    )
    if not first:
        return f"It is not spent {far}"
    if not middle:
        return f"It is not spent {far}, more likely than not; in one of ten futures by {first}"
    if wall.is_past(each.spent_p50):
        late = f"after {last}" if last else f"not {far}"
        return f"It may be spent at any moment; in one of ten futures {late}"
    soon = f"in {until(each.spent_p50, wall.now)}"
    if first == middle == last:
        return f"It is spent at about {middle} ({soon})"
    rest = f"in half of the futures by {middle} ({soon})"
    if not last:
        return f"It is spent after {first}, {rest}; in one of ten futures not {far}"
    return f"It is spent between {first} and {last}, {rest}"


def _reset_in_words(each: BudgetForecast, wall: Wall) -> str:
    reset = wall.clock(each.resets_at)
    return f" It begins anew at {reset}." if reset else ""
