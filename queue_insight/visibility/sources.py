"""What the application of the aggregated API answers from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from queue_insight.debug_api.answers import bare_namespace
from queue_insight.debug_api.forecast_routes import Forecasts
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.try_routes import Foresee
from queue_insight.visibility.snapshots import KeptSnapshots
from queue_scheduler.cycles.engine_reader import EngineReader
from shared_api.objects.namespace import Namespace
from shared_api.process.clock import Clock


class VisibilitySources(NamedTuple):
    """What is known, and who computes.

    Attributes:
        shared: The engine.
        check_state: Raises NoStateError while the engine knows nothing.
        is_leader: Returns whether this replica decides.
        clock: The time.
        forecasts: The last forecast.
        kept: States of the engine for the further pages of lists.
        foresee: Computes when units start that are not submitted yet; None if nothing does.
        namespace: Returns a namespace; None if there is none of this name.
        questions: How much computing questions may take; None: there is a budget of this API's own.
    """

    shared: EngineReader
    check_state: Callable[[], object]
    is_leader: Callable[[], bool]
    clock: Clock
    forecasts: Forecasts
    kept: KeptSnapshots
    foresee: Foresee | None = None
    namespace: Callable[[str], Namespace | None] = bare_namespace
    questions: QuestionBudget | None = None
