"""Answers why a unit waits, and what would start it, from copies of the engine."""

from __future__ import annotations

from queue_insight.debug_api.explain_views import ExplainView, view_explanation, with_changes
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.insight.explain import Verdict
from queue_scheduler.debug_api.state_answers import StateAnswers, found_or_unknown


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
