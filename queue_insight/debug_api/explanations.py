"""Why one unit waits, and what would start or evict it: asked of an engine, and as an answer.

`Explanations` asks the engine. `ExplainAnswers` does so in turn with other answers, charges what
takes long to whoever asks, and makes views of what is found.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from queue_insight.debug_api.explain_views import ExplainView, view_explanation, with_changes
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.insight.admitted import Admitted, describe_admitted, find_evictors
from queue_insight.insight.changes import Changes, find_changes
from queue_insight.insight.explain import Explanation, Verdict, explain, needs_fork
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.debug_api.state_answers import StateAnswers, found_or_unknown
from queue_scheduler.engine.engine import Engine

MAX_TRYING: Final = timedelta(seconds=3)
"""How long changes are tried for one answer. Mostly some tenths of a second suffice; where each of
10,000 waiting units asks for another amount, a decision takes milliseconds."""


class Explanations:
    """Answers questions about single units of an engine.

    Args:
        shared: The engine.
        now: Returns the time.
    """

    def __init__(self, shared: EngineReader, now: Callable[[], datetime]) -> None:
        self._shared = shared
        self._now = now

    def explain(self, key: str) -> Explanation | None:
        """Return why a unit waits; None if it is unknown.

        Asked under the engine's lock, some dozen microseconds, since a fork takes milliseconds.
        """
        wall = self._now()
        must_fork, explanation = self._shared.ask(_explain_unless_fork_needed, key, wall)
        return explain(self._shared.fork(), key, wall) if must_fork else explanation

    def admitted(self, key: str) -> Admitted | None:
        """Return what is known of an admitted unit; None if it is not admitted.

        Which units would evict it is asked of a fork, and only if any may.
        """
        wall = self._now()
        found = self._shared.ask(describe_admitted, key, wall)
        if found is None or not found.is_possible_victim:
            return found
        evictors, has_more = find_evictors(self._shared.fork(), key, wall)
        return replace(found, evictors=evictors, has_more=has_more)

    def changes(self, key: str) -> Changes | None:
        """Return what would start a unit now; None if it is unknown, or does not wait.

        Some dozen copies of the engine are made, from one that is made under the lock.
        """
        wall = self._now()
        until = wall + MAX_TRYING
        return find_changes(self._shared.fork(), key, wall, lambda: self._now() >= until)


def _explain_unless_fork_needed(
    engine: Engine, key: str, wall: datetime
) -> tuple[bool, Explanation | None]:
    """Return whether a fork must be asked, and the answer if not."""
    return (True, None) if needs_fork(engine) else (False, explain(engine, key, wall))


def explain_unit(state: StateAnswers, namespace: str, name: str) -> ExplainView:
    """Why a unit waits; of an admitted one, what it was admitted on and what could evict it.

    In turn with the answers about the state.

    Raises:
        QuestionError: NOT_FOUND: there is none.
    """
    key = f"{namespace}/{name}"
    explanations = Explanations(state.shared, state.now)
    with state.turn:
        found = found_or_unknown(explanations.explain(key), f"queue unit {key}")
        is_admitted = found.verdict is Verdict.ADMITTED
        admitted = explanations.admitted(key) if is_admitted else None
        return view_explanation(found, admitted, leader=state.is_leader())


class ExplainAnswers:
    """Builds the answers about single units.

    Args:
        state: Answers about the state of the same engine.
        budget: How much computing questions of all kinds may take. It is the program's: these
            answers are made anew for an engine of the past.
    """

    def __init__(self, state: StateAnswers, budget: QuestionBudget) -> None:
        self.state = state
        self.budget = budget

    def explain(self, namespace: str, name: str) -> ExplainView:
        """Why a unit waits. See `explain_unit`."""
        return explain_unit(self.state, namespace, name)

    def explain_with_changes(self, namespace: str, name: str, caller: str) -> ExplainView:
        """Why a unit waits, and the smallest changes that would start it now.

        Not in turn with others: it takes longer. It is charged to the caller's share of the budget
        (`question_caller.caller_of`).

        Raises:
            QuestionError: NOT_FOUND: there is none; RESOURCE_EXHAUSTED: the budget is spent.
        """
        view = self.explain(namespace, name)
        explanations = Explanations(self.state.shared, self.state.now)
        with self.budget.spend(caller):
            changes = explanations.changes(f"{namespace}/{name}")
        return with_changes(view, changes)
