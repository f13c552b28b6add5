"""The view of one quota: its amounts, and those above and below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from queue_insight.debug_api.budget_forecasts import (
    BudgetForecastView,
    EveryBudgetForecast,
    readable_budgets,
)
from queue_insight.page.hidden_sums import QuotaNode, show_trees
from queue_insight.page.known_state import KnownState
from queue_insight.page.stated_objects import ObjectName
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api.limit_views import UserLimitView, namespaces_of, view_user_limit
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError

MAX_USER_LIMITS: Final = 100
"""User limits of one answer; `/debug/user-limits` has pages of them."""


class QuotaPage(View):
    """One quota, those above it from the root on, and those right below it.

    `user_limits`: what users and groups have in it, where that is limited; at most
    `MAX_USER_LIMITS` of those that the visitor may read. `other_user_limits` counts the others.
    `budgets`: when its budgets are spent, by the last forecast, for now alone; none before the
    first one. `other_budgets` counts those that the visitor may not see.
    `stated_in` is the object that the quota is stated in, null: a plugin's own. `policy` is the
    QuotaPolicy that counts for it; null: none does, or the visitor may not read all units, since a
    policy names users.
    """

    leader: bool
    state_at: datetime
    quota: QuotaNode
    parents: list[QuotaNode]
    children: list[QuotaNode]
    user_limits: list[UserLimitView]
    other_user_limits: int
    budgets: list[BudgetForecastView]
    other_budgets: int
    horizon_seconds: float
    stated_in: ObjectName | None = None
    policy: ObjectName | None = None


def show_quota(
    state: KnownState, name: str, visitor: Visitor, budgets: EveryBudgetForecast | None = None
) -> QuotaPage:
    """Return one quota, as a visitor may see it.

    Args:
        state: What is known.
        name: Name of the quota.
        visitor: Who is shown it.
        budgets: When its budgets are spent; None: not known.

    Raises:
        QuestionError: NOT_FOUND: it is unknown.
    """
    trees = show_trees(state.trees, state.units.users, visitor)
    path = next((each for each in _paths(trees) if each[-1].name == name), None)
    if path is None:
        raise QuestionError(Code.NOT_FOUND, f"quota {name!r} is unknown")
    *parents, quota = path
    of_quota = [each for each in state.limit_uses if each.counted.quota == name]
    readable = {each for each in namespaces_of(of_quota) if visitor.may_read(each)}
    shown = [each for each in of_quota if visitor.reads_all or each.is_readable(readable)]
    foreseen = [] if budgets is None else readable_budgets(budgets, visitor.may_read)
    return QuotaPage(
        leader=state.leader,
        state_at=state.state_at,
        quota=_alone(quota),
        parents=[_alone(each) for each in parents],
        children=[_alone(each) for each in quota.children],
        user_limits=[view_user_limit(each) for each in shown[:MAX_USER_LIMITS]],
        other_user_limits=len(of_quota) - len(shown[:MAX_USER_LIMITS]),
        budgets=foreseen,
        other_budgets=0 if budgets is None else len(budgets.items) - len(foreseen),
        horizon_seconds=0.0 if budgets is None else budgets.horizon_seconds,
    )


def _paths(
    trees: Iterable[QuotaNode], above: tuple[QuotaNode, ...] = ()
) -> Iterator[tuple[QuotaNode, ...]]:
    for node in trees:
        path = (*above, node)
        yield path
        yield from _paths(node.children, path)


def _alone(node: QuotaNode) -> QuotaNode:
    return node.model_copy(update={"children": []})
