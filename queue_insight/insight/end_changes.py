"""The fewest admitted units after whose ends a unit starts; of as few, those that end first. Pure.

Sets of up to three are searched completely: units with equal charges, of one quota and queue, are
alike, so one of them stands for all. The filters rule out most sets without a trial, since whatever
the units ahead take makes the room only smaller. Beyond that, units end in the order in which they
are expected to until the unit starts; then those that are not needed are left out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

from queue_insight.insight.change import Change, ChangeKind, count_of
from queue_insight.insight.lookahead import competes_with, expected_order
from queue_insight.insight.question import Question, find_deciding
from queue_insight.insight.trials import Outcome, end
from queue_scheduler.cache.known_units import occupying_units
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least

MAX_SEARCHED: Final = 3
"""Units of a set that is searched for completely."""
MAX_KINDS: Final = 12
"""Kinds of units of which sets of three are made: 364 sets."""
MAX_TRIALS: Final = 4
"""Sets of one size that pass the filters and are tried."""
MAX_ENDS: Final = 512
"""Units that may end in one answer."""


class _Candidate(NamedTuple):
    """A unit that may end: (its place in the order in which units are expected to; its key)."""

    ends: tuple[int, str, str]
    key: str
    record: CachedUnit


class _Found(NamedTuple):
    """Units that may end, what follows, and whether all smaller sets were ruled out."""

    keys: tuple[str, ...]
    outcome: Outcome
    is_least: bool


def find_end_changes(question: Question) -> Iterator[Change]:
    """Yield the fewest ends of units that start the unit."""
    deciding = _deciding(question)
    candidates = [] if deciding is None else _find_candidates(question, deciding)
    if not candidates or deciding is None:
        return
    found = _search(question, at_least(deciding), candidates)
    found = found or _end_in_order(question, candidates)
    if found is None:
        return
    chosen, outcome, is_least = found
    what = count_of(len(chosen), "admitted unit")
    yield Change(
        kind=ChangeKind.UNITS_END,
        description=f"It starts when {what} {'has' if len(chosen) == 1 else 'have'} ended.",
        sufficient=True,
        minimal=is_least,
        also_starts=outcome.also,
        units=chosen,
        edits=(end(chosen),),
    )


def _deciding(question: Question) -> QueueUnitInfo | None:
    """Return the unit whose start is waited for: this one, or the one that it waits behind."""
    found = find_deciding(question.engine, question.key, question.trials.wall)
    return None if found is None else found.record.info


def _find_candidates(question: Question, info: QueueUnitInfo) -> list[_Candidate]:
    """Return the admitted units whose ends may make room, those that end first in front."""
    engine = question.engine
    place = expected_order(engine, int(question.trials.wall.timestamp()))
    competes = competes_with(engine, info)
    found = (
        _Candidate(place(record), record.key, record)
        for record in occupying_units(engine.units)
        if competes(record)
    )
    return nsmallest(MAX_ENDS, found, key=lambda each: each.ends)


def _search(
    question: Question, info: QueueUnitInfo, candidates: Sequence[_Candidate]
) -> _Found | None:
    """Return the smallest set of up to three."""
    kinds = _by_kind(question, candidates)
    complete = True
    for size in range(1, MAX_SEARCHED + 1):
        complete = complete and (size < MAX_SEARCHED or len(kinds) <= MAX_KINDS)
        tried = 0
        for chosen in _sets(kinds[: MAX_KINDS if size == MAX_SEARCHED else None], size):
            uids = [each.record.uid for each in chosen]
            if question.engine.plugins.check_without(info, uids) is not None:
                continue
            if tried == MAX_TRIALS:
                complete = False
                break
            tried += 1
            keys = tuple(each.key for each in chosen)
            outcome = question.trials.attempt(end(keys))
            if outcome.starts:
                return _Found(keys, outcome, complete)
    return None


def _by_kind(question: Question, candidates: Sequence[_Candidate]) -> list[list[_Candidate]]:
    """Return the candidates by what their ends change, each kind in order of its ends."""
    kinds: dict[tuple[object, ...], list[_Candidate]] = {}
    for each in candidates:
        charge = question.engine.usage.charge_of(each.record.uid)
        if charge is None:
            continue
        kind = (
            each.record.queue_name,
            charge.quota,
            charge.non_preemptible,
            charge.pods,
            each.record.unit.status.phase,
            tuple(sorted(charge.amounts.items())),
        )
        kinds.setdefault(kind, []).append(each)
    return list(kinds.values())


def _sets(kinds: Sequence[Sequence[_Candidate]], size: int) -> list[tuple[_Candidate, ...]]:
    """Return one set for each choice of kinds, those that have ended first in front."""
    found = []
    for chosen in combinations_with_replacement(range(len(kinds)), size):
        taken: list[_Candidate] = []
        for kind in dict.fromkeys(chosen):
            taken += kinds[kind][: chosen.count(kind)]
        if len(taken) == size:
            found.append(tuple(taken))
    return sorted(found, key=lambda each: sorted((c.ends for c in each), reverse=True))


def _end_in_order(question: Question, candidates: Sequence[_Candidate]) -> _Found | None:
    """Return the units that end until the unit starts, without those that are not needed."""
    needed = [each.key for each in candidates]
    outcome = question.trials.attempt(end(needed))
    if not outcome.starts:
        return None
    low, high = 0, len(needed)
    while high - low > 1:
        middle = (low + high) // 2
        tried = question.trials.attempt(end(needed[:middle]))
        if tried.starts:
            high, outcome = middle, tried
        else:
            low = middle
    needed = needed[:high]
    for key in needed[:MAX_TRIALS]:
        fewer = [each for each in needed if each != key]
        tried = question.trials.attempt(end(fewer))
        if tried.starts:
            needed, outcome = fewer, tried
    return _Found(tuple(needed), outcome, is_least=False)
