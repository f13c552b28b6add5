"""A shorter time to run, with which a unit starts now that budgets or windows refuse. Pure.

Each refusal says which time it would let pass. Another one may refuse that, so the engine is asked
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from queue_insight.insight.budget_changes import find_rule
from queue_insight.insight.change import Change
from queue_insight.insight.place_changes import declare_at_most
from queue_insight.insight.question import Question, find_deciding
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from shared_api.durations import seconds_in_words

MAX_STEPS: Final = 6
"""Shorter times until the unit starts; each is one trial."""

_REASONS: Final = {
    Reason.BUDGET_SPENT: "its budget has room",
    Reason.RESERVED_FOR: "it ends before the window",
}
"""Why units are refused for the time that they declare, and what a shorter one leads to."""


def find_time_changes(question: Question) -> Iterator[Change]:
    """Yield the longest time to declare with which the unit starts."""
    engine, declared = question.engine, None
    past = question.record.unit.status.accumulated_past_execution_time_seconds or 0
    led_to: dict[str, None] = {}
    for _ in range(MAX_STEPS):
        refused = _refused(question, engine)
        led_to |= dict.fromkeys(_REASONS[each.reason] for each in refused)
        seconds = min((_longest(question, engine, each) for each in refused), default=0)
        if seconds <= 0 or (declared is not None and seconds >= declared):
            return
        declared = seconds
        text = f"Declare that it runs for at most {seconds_in_words(seconds)}"
        text += f": then {' and '.join(led_to)}."
        change = declare_at_most(question, seconds + past, text)
        if isinstance(change, Change):
            yield change
            return
        engine = change


def _refused(question: Question, engine: Engine) -> list[Refusal]:
    """Return what refuses the unit, or the one that it waits behind, for its declared time."""
    found = find_deciding(engine, question.key, question.trials.wall)
    blockers = () if found is None else found.blockers
    return [each for each in blockers if each.reason in _REASONS]


def _longest(question: Question, engine: Engine, refusal: Refusal) -> int:
    """Return the longest time to declare that a budget or window lets pass; 0: none."""
    if refusal.window is not None:
        return refusal.window.would_start_seconds
    lacks, rule, info = refusal.budget, find_rule(engine, refusal), question.info
    if lacks is None or rule is None or info is None or not rule.is_reserved:
        return 0
    if not lacks.declares_nothing:
        return lacks.would_start_seconds
    return max(0, lacks.left) // max(1, rule.rate_of(info.demand.total))
