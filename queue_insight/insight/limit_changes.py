"""Raising one limit: by how much at least, so that a unit starts? Pure.

How the amounts are found is in `raise_search`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from queue_insight.insight.change import Change, ChangeKind, count_of
from queue_insight.insight.limit_edits import Limit, name_limit, name_raise, nodes_for, raise_limits
from queue_insight.insight.question import Question
from queue_insight.insight.raise_search import (
    NoRaiseReason,
    SufficientRaises,
    find_raises,
    raisable,
    read_limits,
)
from shared_api.resource_list import Amounts

MAX_STEPS: Final = 10
"""Times that nodes are added until the unit starts."""


def find_limit_changes(question: Question) -> Iterator[Change]:
    """Yield a change for each limit that keeps the unit from starting."""
    for limit, missing in read_limits(question, question.engine).items():
        if limit.kind is ChangeKind.NODES:
            change = _add_nodes(question, missing)
        else:
            change = _raise(question, limit, missing)
        if change is not None:
            yield change


def _raise(question: Question, limit: Limit, missing: Amounts) -> Change | None:
    if not raisable(question, {limit: missing}):
        return None
    found = find_raises(question, {limit: missing}, only=limit)
    if isinstance(found, SufficientRaises):
        return _describe(question, found)
    text = f"Raising {name_limit(limit)} alone does not start it."
    if found is NoRaiseReason.TOO_FAR:
        text = (
            f"It is not known whether raising {name_limit(limit)} alone starts it: the units ahead "
            "of it take more than was tried."
        )
    return Change(
        kind=limit.kind,
        description=text,
        sufficient=False,
        verified=found is NoRaiseReason.OTHERWISE,
        minimal=False,
    )


def _describe(question: Question, found: SufficientRaises) -> Change:
    raised = raise_limits(question.engine, found.raises)
    assert raised is not None, f"{found.raises} was raisable"
    texts = [name_raise(raised, limit) for limit in raised.raises]
    ((limit, _), *more) = raised.raises.items()
    return Change(
        # A min cannot be raised above its max without that.
        kind=ChangeKind.SEVERAL if more else limit.kind,
        description=f"Raise {', and '.join(texts)}.",
        sufficient=True,
        minimal=found.is_least,
        also_starts=found.outcome.also,
        patches=raised.patches,
        edits=raised.edits,
    )


def _add_nodes(question: Question, missing: Amounts) -> Change | None:
    copies = nodes_for(question.engine, missing)
    for _ in range(MAX_STEPS):
        if copies is None:
            return None
        outcome = question.trials.attempt(copies.edit)
        if outcome.starts:
            fewer = replace(copies, count=copies.count - 1)
            what, like = count_of(copies.count, "node"), copies.like.metadata.name
            return Change(
                kind=ChangeKind.NODES,
                description=f"Add {what} like {like}.",
                sufficient=True,
                minimal=not question.trials.attempt(fewer.edit).starts,
                also_starts=outcome.also,
                edits=(copies.edit,),
            )
        need = read_limits(question, outcome.engine).get(Limit(ChangeKind.NODES), {})
        more = nodes_for(question.engine, need) if need else None
        copies = None if more is None else replace(copies, count=copies.count + more.count)
    return None
