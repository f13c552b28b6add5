"""Several changes together, where none of them starts a unit alone. Pure.

A child and its parent may both be short, a min and a max, or a queue may be stopped whose quota is
full. What is needed and not enough alone is made together; limits are raised that turn out to be in
the way only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from queue_insight.insight.change import Change, ChangeKind, count_of, merge_patches
from queue_insight.insight.limit_edits import name_raise, nodes_for, raise_limits
from queue_insight.insight.question import Question
from queue_insight.insight.raise_search import (
    SufficientRaises,
    edits_of,
    find_raises,
    of_quotas,
    raisable,
    read_limits,
)

_LIMITS: Final = frozenset(
    {ChangeKind.QUOTA_MAX, ChangeKind.QUOTA_MIN, ChangeKind.USER_LIMIT, ChangeKind.NODES}
)


def find_combined_change(question: Question, found: Sequence[Change]) -> Change | None:
    """Return the changes that are not enough alone as one that is; None if there is no such change.

    Args:
        question: The unit.
        found: All changes that were found.
    """
    if any(each.sufficient and is_part(each) for each in found):
        return None
    parts = [each for each in found if is_part(each)]
    base = [each for each in parts if each.action]
    if not base and not any(each.kind in _LIMITS for each in parts):
        return None
    edits = tuple(edit for each in base for edit in each.edits)
    first = raisable(question, read_limits(question, question.engine))
    raises = find_raises(question, first, base=edits)
    return _describe(question, base, raises) if isinstance(raises, SufficientRaises) else None


def is_part(change: Change) -> bool:
    """Return whether a change may be needed with others: it makes room, or ends a hold."""
    return change.kind in {*_LIMITS, ChangeKind.SEVERAL} or bool(change.action)


def _describe(question: Question, base: Iterable[Change], found: SufficientRaises) -> Change:
    raised = raise_limits(question.engine, of_quotas(found.raises))
    assert raised is not None, f"{found.raises} was raisable"
    actions = [each.action for each in base]
    limits = [name_raise(raised, limit) for limit in raised.raises]
    actions += [f"raise {', and '.join(limits)}"] if limits else []
    for limit, more in found.raises.items():
        if limit.kind is ChangeKind.NODES and (copies := nodes_for(question.engine, more)):
            actions.append(f"add {count_of(copies.count, 'node')} like {copies.like.metadata.name}")
    text = ", and ".join(actions)
    return Change(
        kind=ChangeKind.SEVERAL,
        description=f"{text[0].upper()}{text[1:]}.",
        sufficient=True,
        minimal=found.is_least,
        also_starts=found.outcome.also,
        patches=merge_patches(
            [patch for each in base for patch in each.patches] + [*raised.patches]
        ),
        units=found.outcome.victims,
        edits=(*found.base, *edits_of(question, found.raises)),
    )
