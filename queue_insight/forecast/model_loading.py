"""The model of run times: ours, or the one that an installed package offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from queue_insight.forecast.run_times import RunTimeModel, SurvivalRunTimes
from queue_scheduler.framework.installed_packages import load_offered, offered_by_name
from shared_api.program_flags import ConfigurationError

RUN_TIME_GROUP: Final = "koord_queue.run_time_models"


def load_run_time_model() -> Callable[[], RunTimeModel]:
    """Return what makes the run-time model of forecasts: the one that a package offers, or ours.

    Raises:
        ConfigurationError: More than one is offered, or it cannot be loaded.
    """
    others = offered_by_name(RUN_TIME_GROUP)
    if len(others) > 1:
        msg = f"more than one package offers {RUN_TIME_GROUP}: {', '.join(others)}"
        raise ConfigurationError(msg)
    return next((load_offered(point) for point in others.values()), SurvivalRunTimes)
