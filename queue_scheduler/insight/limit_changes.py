"""Raising a limit: by how much at least, so that a unit starts? Pure.

The amounts come from the engine: the unit is refused for what is missing, so that is added, and the
engine is asked again. Units ahead of it take their share first, so it may need more than is missing
now. The result is checked from below: with one grain less the unit must not start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from queue_scheduler.engine.engine import Engine
from queue_scheduler.insight.change import Change, ChangeKind, count_of
from queue_scheduler.insight.limit_edits import (
    Limit,
    find_limits,
    left_under,
    nodes_for,
    raise_limit,
)
from queue_scheduler.insight.question import Question, find_deciding
from queue_scheduler.insight.trials import Edit, Outcome
from shared_api.quantity import format_amount
from shared_api.resource_list import Amounts, add, scale

MAX_STEPS: Final = 10
"""Raises of one limit until the unit starts."""
SLOW_STEPS: Final = 2
"""Each later raise is twice the one before: many units may be ahead."""

RESERVE: Final = 50
"""Trials that a bisection leaves for other changes."""


def find_limit_changes(question: Question) -> Iterator[Change]:
    """Yield a change for each limit that keeps the unit from starting."""
    for limit, missing in _find_limits(question, question.engine).items():
        if limit.kind is ChangeKind.NODES:
            change = _add_nodes(question, missing)
        else:
            change = _raise(question, limit, missing)
        if change is not None:
            yield change


def _find_limits(question: Question, engine: Engine) -> dict[Limit, Amounts]:
    """Return the limits that refuse the unit, or the one that it waits behind."""
    deciding = find_deciding(engine, question.key, question.trials.wall)
    info = None if deciding is None else deciding.record.info
    return {} if deciding is None or info is None else find_limits(info, deciding.blockers)


def _raise(question: Question, limit: Limit, missing: Amounts) -> Change | None:
    raised = raise_limit(question.engine, limit, missing)
    if raised is None:
        return None
    more, outcome = missing, question.trials.attempt(raised.edit)
    for step in range(MAX_STEPS):
        if outcome.starts:
            return _least(question, limit, more, outcome)
        need = _find_limits(question, outcome.engine).get(limit, {})
        if not need:
            break  # another limit is too small as well
        more = add(more, scale(need, 2 ** max(0, step - SLOW_STEPS)))
        further = question.trials.proceed(outcome, _edit(question, limit, more))
        outcome = _attempt(question, limit, more) if further.starts else further
    return Change(
        kind=limit.kind,
        description=f"Raising {_name(limit)} alone does not start it.",
        sufficient=False,
        minimal=False,
    )


def _least(question: Question, limit: Limit, more: Amounts, outcome: Outcome) -> Change:
    """Return the change with the least amounts, from amounts with which the unit starts."""
    spare = {key: left_under(outcome.engine, limit, key) for key in more}
    if any(spare.values()):
        tighter = {key: max(1, amount - spare[key]) for key, amount in more.items()}
        tried = _attempt(question, limit, tighter)
        if tried.starts:
            more, outcome = tighter, tried
    minimal = _is_least(question, limit, more)
    if not minimal and question.trials.left > RESERVE:
        more, outcome = _shrink(question, limit, more, outcome)
        minimal = _is_least(question, limit, more)
    raised = raise_limit(question.engine, limit, more)
    assert raised is not None, f"{limit} was raised before"
    amounts = ", ".join(f"{format_amount(key, more[key])} of {key}" for key in sorted(more))
    return Change(
        kind=limit.kind,
        description=f"Raise {_name(limit)} by {amounts}, to {raised.text}.",
        sufficient=True,
        minimal=minimal,
        also_starts=outcome.also,
        patches=raised.patches,
        edits=(raised.edit,),
    )


def _is_least(question: Question, limit: Limit, more: Amounts) -> bool:
    """Return whether the unit does not start with one grain less of any resource."""
    return not any(
        _attempt(question, limit, {**more, key: amount - 1}).starts for key, amount in more.items()
    )


def _shrink(
    question: Question, limit: Limit, more: Amounts, outcome: Outcome
) -> tuple[Amounts, Outcome]:
    """Return smaller amounts that still suffice, one resource after the other, by bisection."""
    for key in sorted(more):
        low, high = 0, more[key]
        while high - low > 1 and question.trials.left > RESERVE:
            middle = (low + high) // 2
            tried = _attempt(question, limit, {**more, key: middle})
            if tried.starts:
                high, outcome = middle, tried
            else:
                low = middle
        more = {**more, key: high}
    return more, outcome


def _attempt(question: Question, limit: Limit, more: Amounts) -> Outcome:
    return question.trials.attempt(_edit(question, limit, more))


def _edit(question: Question, limit: Limit, more: Amounts) -> Edit:
    raised = raise_limit(question.engine, limit, more)
    assert raised is not None, f"{limit} was raised before"
    return raised.edit


def _name(limit: Limit) -> str:
    which = f"{limit.namespace}/{limit.quota}" if limit.namespace else limit.quota
    return f"the {'max' if limit.kind is ChangeKind.QUOTA_MAX else 'min'} of quota {which}"


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
        need = _find_limits(question, outcome.engine).get(Limit(ChangeKind.NODES), {})
        more = nodes_for(question.engine, need) if need else None
        copies = None if more is None else replace(copies, count=copies.count + more.count)
    return None
