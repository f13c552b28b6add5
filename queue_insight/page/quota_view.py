"""The view of one quota: its amounts, those above and below it, and its use over the last day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from queue_insight.page.hidden_sums import QuotaNode, show_trees
from queue_insight.page.known_state import KnownState
from queue_insight.page.visitors import Visitor
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError


class QuotaUse(View):
    """What a quota used at a time."""

    time: datetime
    used: dict[str, str]


class QuotaPage(View):
    """One quota, those above it from the root on, and those right below it.

    `history` is its use over the last day, of a young record since that began, and of now; null:
    nothing is recorded, an earlier time is shown, or the visitor may not see its sums. `recorded`:
    a record is kept.
    """

    leader: bool
    state_at: datetime
    quota: QuotaNode
    parents: list[QuotaNode]
    children: list[QuotaNode]
    history: list[QuotaUse] | None = None
    recorded: bool = False


def show_quota(
    state: KnownState,
    name: str,
    visitor: Visitor,
    past: Iterable[KnownState] = (),
    *,
    is_recorded: bool = False,
) -> QuotaPage:
    """Return one quota, as a visitor may see it.

    Args:
        state: What is known.
        name: Name of the quota.
        visitor: Who is shown it.
        past: What was known at the times of its history, in order.
        is_recorded: Whether a record is kept.

    Raises:
        QuestionError: NOT_FOUND: it is unknown.
    """
    trees = show_trees(state.trees, state.users, visitor)
    path = next((each for each in _paths(trees) if each[-1].name == name), None)
    if path is None:
        raise QuestionError(Code.NOT_FOUND, f"quota {name!r} is unknown")
    *parents, quota = path
    return QuotaPage(
        leader=state.leader,
        state_at=state.state_at,
        quota=_alone(quota),
        parents=[_alone(each) for each in parents],
        children=[_alone(each) for each in quota.children],
        history=list(_history(name, visitor, past)) or None,
        recorded=is_recorded,
    )


def _history(name: str, visitor: Visitor, past: Iterable[KnownState]) -> Iterator[QuotaUse]:
    for state in past:
        paths = _paths(show_trees(state.trees, state.users, visitor))
        found = next((each[-1] for each in paths if each[-1].name == name), None)
        if found is not None and not found.sums_hidden:
            yield QuotaUse(time=state.state_at, used=found.used)


def _paths(
    trees: Iterable[QuotaNode], above: tuple[QuotaNode, ...] = ()
) -> Iterator[tuple[QuotaNode, ...]]:
    for node in trees:
        path = (*above, node)
        yield path
        yield from _paths(node.children, path)


def _alone(node: QuotaNode) -> QuotaNode:
    return node.model_copy(update={"children": []})
