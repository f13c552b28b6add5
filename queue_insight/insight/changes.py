"""The smallest changes after which a unit would start now, each tried on a copy. Pure.

Where no single one makes room, several are made together. A change that does not start the unit
alone, and is not found to with others, is named as well, and says so.
What a change is, and what "starts" means, is in `change` and `trials`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from queue_insight.insight.budget_changes import find_budget_changes
from queue_insight.insight.change import Change, ChangeKind
from queue_insight.insight.combined_changes import find_combined_change, is_part
from queue_insight.insight.demand_changes import find_demand_changes
from queue_insight.insight.end_changes import find_end_changes
from queue_insight.insight.explain import Verdict, explain
from queue_insight.insight.limit_changes import find_limit_changes
from queue_insight.insight.place_changes import find_place_changes
from queue_insight.insight.question import Question
from queue_insight.insight.queue_changes import find_queue_changes
from queue_insight.insight.time_changes import find_time_changes
from queue_insight.insight.trials import SpentError, Trials, never_late
from queue_insight.insight.wait_change import find_wait
from queue_scheduler.engine.engine import Engine

_WAITS: Final = frozenset({Verdict.WAITING, Verdict.HELD})


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that were found.

    Attributes:
        found: The sufficient ones first; the last is to wait. One after which the unit requests
            nothing is left out where waiting is enough.
        are_complete: Whether every kind was looked for. False: the trials, the decisions or the
            time of an answer did not suffice.
    """

    found: tuple[Change, ...]
    are_complete: bool


def find_changes(
    engine: Engine, key: str, wall: datetime, is_late: Callable[[], bool] = never_late
) -> Changes | None:
    """Return what would start a unit now, or None if it is unknown, or does not wait.

    Args:
        engine: A fork; it must not be used afterwards.
        key: `namespace/name` of the unit.
        wall: The time.
        is_late: Returns whether the answer must end with what was found.
    """
    changes: list[Change] = []
    complete = True
    try:
        trials = Trials(engine, key, wall, is_late)
        if trials.rested.starts:
            return Changes(found=(_starts_by_itself(trials),), are_complete=True)
        reader = trials.copy()
        record, explanation = reader.record(key), explain(reader, key, wall)
        if record is None or explanation is None or explanation.verdict not in _WAITS:
            return None
        question = Question(trials=trials, engine=reader, record=record, explanation=explanation)
        for find in _FINDERS:
            for change in find(question):
                changes.append(change)  # noqa: PERF402 - what was found before it raises is kept
        combined = find_combined_change(question, changes)
        if combined is not None:
            changes = [combined, *(each for each in changes if not is_part(each))]
    except SpentError:
        complete = False
    if any(each.sufficient and each.kind is ChangeKind.WAIT for each in changes):
        # A unit that just waits would be told that nothing is left for it.
        changes = [each for each in changes if each.practical]
    changes.sort(key=lambda each: (not each.sufficient, each.kind is ChangeKind.WAIT))
    return Changes(found=tuple(changes), are_complete=complete)


def _starts_by_itself(trials: Trials) -> Change:
    evicts = "after the evictions that it asks for" if trials.rested.victims else "by itself"
    return Change(
        kind=ChangeKind.WAIT,
        description=f"It starts {evicts}; nothing has to be changed.",
        sufficient=True,
        also_starts=trials.rested.also,
        units=trials.rested.victims,
    )


_FINDERS: Final[tuple[Callable[[Question], Iterator[Change]], ...]] = (
    find_wait,
    find_limit_changes,
    find_budget_changes,
    find_time_changes,
    find_end_changes,
    find_demand_changes,
    find_place_changes,
    find_queue_changes,
)
