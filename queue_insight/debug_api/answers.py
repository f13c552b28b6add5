"""Answers to the questions of users, from copies of the engine."""

from __future__ import annotations

from collections.abc import Callable

from queue_insight.debug_api.dump_routes import Dumps
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import ExplainAnswers
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.try_routes import TryRoutes
from queue_insight.debug_api.what_if_routes import WhatIfAnswers, WhatIfQuestion, WhatIfView
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.debug_api.state_answers import StateAnswers, in_turn
from queue_scheduler.decision import Moment
from queue_scheduler.engine.settings import EngineSettings
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.process.clock import SystemClock


def bare_namespace(name: str) -> Namespace:
    """Return a namespace without labels and annotations, for an API that knows none."""
    return Namespace(metadata=ObjectMeta(name=name))


class Answers(ExplainAnswers):
    """Builds the answers to questions of all kinds; made once for a program.

    Attributes:
        state: Answers about the state.
        turn: What is held while an answer is built, as that of `state`.
        tries: Answers questions about manifests.

    Args:
        state: Answers about the state of the same engine.
        namespace: Returns a namespace; None if there is none of this name.
        settings: With what the program was started, for dumps.
        budget: How much computing questions of all kinds may take; None: the usual share.
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

        super().__init__(state, budget or QuestionBudget(clock))
        self.turn = state.turn
        self.tries = TryRoutes(shared.fork, now, is_leader, namespace, self.budget)
        self._what_if = WhatIfAnswers(copy, is_leader, self.budget)
        self._dumps = Dumps(copy, is_leader, settings or EngineSettings())

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
