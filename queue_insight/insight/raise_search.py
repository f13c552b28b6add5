"""By how much limits must be raised, so that a unit starts: one alone, or several together. Pure.

The amounts come from the engine: the unit is refused for what is missing, so that is added, and the
engine is asked again. Units ahead of it take their share first, so it may need more than is missing
now. What suffices is made smaller, and checked from below: with one grain less of any resource the
unit must not start.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from queue_insight.insight.change import ChangeKind
from queue_insight.insight.limit_edits import (
    Limit,
    Raises,
    find_limits,
    left_under,
    nodes_for,
    raise_limits,
)
from queue_insight.insight.question import Question, find_deciding
from queue_insight.insight.trials import Edit, Outcome, SpentError
from queue_scheduler.engine.engine import Engine
from shared_api.resource_list import Amounts, add, scale

MAX_STEPS: Final = 20
"""Raises until the unit starts; each starts more units, which the decisions bound."""
SLOW_STEPS: Final = 2
"""Each later raise is twice the one before: many units may be ahead."""
_NODES_FIRST: Final = (
    *(ChangeKind.NODES, ChangeKind.QUOTA_MIN, ChangeKind.QUOTA_MAX),
    ChangeKind.USER_LIMIT,
)
"""Which raises are dropped first, if another one makes up for them."""
RESERVE: Final = 50
"""Trials that a bisection leaves for other changes."""


class SufficientRaises(NamedTuple):
    """Raises with which the unit starts.

    Attributes:
        raises: By how much each limit is raised.
        outcome: What follows from them.
        base: Changes that are made with them.
        is_least: Whether it was seen that one grain less of any resource does not suffice.
    """

    raises: Raises
    outcome: Outcome
    base: tuple[Edit, ...] = ()
    is_least: bool = False


class NoRaiseReason(Enum):
    """Why there are no raises."""

    OTHERWISE = auto()
    """Something else than these limits keeps the unit from starting."""
    TOO_FAR = auto()
    """Units ahead take what was tried."""


def read_limits(question: Question, engine: Engine) -> Raises:
    """Return the limits that refuse the unit, or the one that it waits behind."""
    deciding = find_deciding(engine, question.key, question.trials.wall)
    info = None if deciding is None else deciding.record.info
    return {} if deciding is None or info is None else find_limits(engine, info, deciding.blockers)


def find_raises(
    question: Question, first: Raises, *, only: Limit | None = None, base: tuple[Edit, ...] = ()
) -> SufficientRaises | NoRaiseReason:
    """Return the least raises with which the unit starts, as far as the trials suffice.

    Args:
        question: The unit.
        first: What is missing at first, by limits that can be raised.
        only: The one limit that may be raised, or None for any that is in the way.
        base: Changes that are made with them.

    Raises:
        SpentError: There are no trials left, and no raises were found.
    """
    try:
        with question.trials.halved():
            best = _climb(question, first, only, base)
    except SpentError:
        if not question.trials.left:
            raise
        return NoRaiseReason.TOO_FAR
    return best if isinstance(best, NoRaiseReason) else _refine(question, best)


def _refine(question: Question, best: SufficientRaises) -> SufficientRaises:
    """Return the least raises, as far as the trials suffice."""
    try:
        with question.trials.halved():
            for step in (_drop_needless, _spare, _shrink):
                best = step(question, best)
            return best._replace(is_least=_is_least(question, best))
    except SpentError:
        return best


def _climb(
    question: Question, raises: Raises, only: Limit | None, base: tuple[Edit, ...]
) -> SufficientRaises | NoRaiseReason:
    """Return raises with which the unit starts, mostly larger than needed."""
    outcome = _attempt(question, raises, base)
    for step in range(MAX_STEPS):
        if outcome.starts:
            return SufficientRaises(raises, outcome, base)
        need = read_limits(question, outcome.engine)
        need = raisable(question, {key: need[key] for key in need if only in {None, key}})
        if not need:
            return NoRaiseReason.OTHERWISE
        factor = 2 ** max(0, step - SLOW_STEPS)
        more = {limit: scale(missing, factor) for limit, missing in need.items()}
        raises = {
            limit: add(raises.get(limit, {}), more.get(limit, {})) for limit in {**raises, **more}
        }
        further = question.trials.proceed(outcome, *edits_of(question, raises))
        outcome = _attempt(question, raises, base) if further.starts else further
    return NoRaiseReason.TOO_FAR


def raisable(question: Question, raises: Raises) -> Raises:
    """Return those of these limits that can be raised: their objects are known."""
    return {
        limit: more
        for limit, more in raises.items()
        if (
            nodes_for(question.engine, more)
            if limit.kind is ChangeKind.NODES
            else raise_limits(question.engine, {limit: more})
        )
        is not None
    }


def _drop_needless(question: Question, best: SufficientRaises) -> SufficientRaises:
    """Return the raises without limits that another one makes up for; nodes are dropped first."""
    if len(best.raises) == 1 and not best.base:
        return best
    for limit in sorted(best.raises, key=lambda each: _NODES_FIRST.index(each.kind)):
        fewer = {each: more for each, more in best.raises.items() if each != limit}
        best = _better(question, best, fewer)
    return best


def _spare(question: Question, best: SufficientRaises) -> SufficientRaises:
    """Return the raises without what is left under the limits when the unit has started."""
    left = {limit: _left(best, limit) for limit in best.raises}
    if not any(any(each.values()) for each in left.values()):
        return best
    less = {
        limit: {key: max(1, amount - left[limit][key]) for key, amount in more.items()}
        for limit, more in best.raises.items()
    }
    return _better(question, best, less)


def _left(best: SufficientRaises, limit: Limit) -> Amounts:
    return {key: left_under(best.outcome.engine, limit, key) for key in best.raises[limit]}


def _shrink(question: Question, best: SufficientRaises) -> SufficientRaises:
    """Return smaller amounts that still suffice, one resource after the other, by bisection."""
    if question.trials.left <= RESERVE or _is_least(question, best):
        return best
    for limit, key in _raised_amounts(best.raises):
        low, high = 0, best.raises[limit][key]
        while high - low > 1 and question.trials.left > RESERVE:
            middle = (low + high) // 2
            tried = _better(question, best, _with(best.raises, limit, key, middle))
            low, high = (low, middle) if tried is not best else (middle, high)
            best = tried
    return best


def _better(question: Question, best: SufficientRaises, raises: Raises) -> SufficientRaises:
    """Return these raises if the unit starts with them, otherwise those that were found."""
    outcome = _attempt(question, raises, best.base)
    return best._replace(raises=raises, outcome=outcome) if outcome.starts else best


def _is_least(question: Question, best: SufficientRaises) -> bool:
    """Return whether the unit does not start with one grain less of any resource."""
    return not any(
        _attempt(
            question, _with(best.raises, limit, key, best.raises[limit][key] - 1), best.base
        ).starts
        for limit, key in _raised_amounts(best.raises)
    )


def _raised_amounts(raises: Raises) -> Iterator[tuple[Limit, str]]:
    for limit, more in raises.items():
        for key in sorted(more):
            yield limit, key


def _with(raises: Raises, limit: Limit, key: str, amount: int) -> Raises:
    return {**raises, limit: {**raises[limit], key: amount}}


def _attempt(question: Question, raises: Raises, base: tuple[Edit, ...]) -> Outcome:
    return question.trials.attempt(*base, *edits_of(question, raises))


def edits_of(question: Question, raises: Raises) -> tuple[Edit, ...]:
    """Return the edits that apply raises to an engine."""
    edits: tuple[Edit, ...] = ()
    for limit, more in raises.items():
        if limit.kind is ChangeKind.NODES and any(more.values()):
            copies = nodes_for(question.engine, more)
            assert copies is not None, f"{more} was raisable"
            edits += (copies.edit,)
    raised = raise_limits(question.engine, of_quotas(raises))
    assert raised is not None, f"{raises} was raisable"
    return (*raised.edits, *edits)


def of_quotas(raises: Raises) -> Raises:
    """Return the raises of limits of quotas, without nodes."""
    return {limit: raises[limit] for limit in raises if limit.kind is not ChangeKind.NODES}
