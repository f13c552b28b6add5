"""Answers to the questions of users, from copies of the engine."""

from __future__ import annotations

from collections.abc import Callable

from queue_insight.debug_api.dump_routes import Dumps
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explain_views import ExplainView, view_explanation, with_changes
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.try_routes import TryRoutes
from queue_insight.debug_api.what_if_routes import WhatIfAnswers, WhatIfQuestion, WhatIfView
from queue_insight.insight.explain import Verdict
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.debug_api.state_answers import StateAnswers, found_or_unknown, in_turn
from queue_scheduler.decision import Moment
from queue_scheduler.engine.settings import EngineSettings
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.process.clock import SystemClock


def bare_namespace(name: str) -> Namespace:
    """Return a namespace without labels and annotations, for an API that knows none."""
    return Namespace(metadata=ObjectMeta(name=name))


class Answers:
    """Builds the answers to questions, in turn with those about the state.

    Attributes:
        state: Answers about the state.
        turn: What is held while an answer is built, as that of `state`.
        tries: Answers questions about manifests.

    Args:
        state: Answers about the state of the same engine.
        namespace: Returns a namespace; None: there is none of this name.
        settings: With what the program was started, for dumps.
        budget: How much computing questions of all kinds may take; None: one of this object alone.
            Whoever makes these answers anew for each question has to keep it.
    """

    def __init__(
        self,
        state: StateAnswers,
        namespace: Callable[[str], Namespace | None] = bare_namespace,
        settings: EngineSettings | None = None,
        budget: QuestionBudget | None = None,
    ) -> None:
        shared, now, is_leader, clock = state.shared, state.now, state.is_leader, SystemClock()

        def copy() -> State:
            return State(shared.fork(), Moment(clock.monotonic(), now()))

        self.state = state
        self.turn = state.turn
        budget = self._budget = budget or QuestionBudget(clock)
        self.tries = TryRoutes(shared.fork, now, is_leader, namespace, budget)
        self._explanations = Explanations(shared, now)
        self._what_if = WhatIfAnswers(copy, is_leader, budget)
        self._dumps = Dumps(copy, is_leader, settings or EngineSettings())

    @in_turn
    def explain(self, namespace: str, name: str) -> ExplainView:
        """Why a unit waits; of an admitted one, what it was admitted on and what could evict it.

        Raises:
            QuestionError: NOT_FOUND: there is none.
        """
        key = f"{namespace}/{name}"
        found = found_or_unknown(self._explanations.explain(key), f"queue unit {key}")
        is_admitted = found.verdict is Verdict.ADMITTED
        admitted = self._explanations.admitted(key) if is_admitted else None
        return view_explanation(found, admitted, leader=self.state.is_leader())

    def explain_with_changes(self, namespace: str, name: str, caller: str) -> ExplainView:
        """Why a unit waits, and the smallest changes that would start it now.

        Not in turn with others: it takes longer. It is charged to the caller's share of the budget
        (`question_caller.caller_of`).

        Raises:
            QuestionError: NOT_FOUND: there is none; RESOURCE_EXHAUSTED: the budget is spent.
        """
        view = self.explain(namespace, name)
        with self._budget.spend(caller):
            changes = self._explanations.changes(f"{namespace}/{name}")
        return with_changes(view, changes)

    def what_if(self, question: WhatIfQuestion, caller: str) -> WhatIfView:
        """What edits would change now. Not in turn with others: it is charged to the budget.

        Raises:
            QuestionError: As `WhatIfAnswers.answer`.
        """
        return self._what_if.answer(question, caller)

    @in_turn
    def dump(self, runs: tuple[FinishedRun, ...] = (), *, compress: bool = False) -> bytes:
        """Everything that the engine believes, as a file."""
        return self._dumps.take(runs, compress=compress)
