"""When the units end whose pods run. Pure."""

from __future__ import annotations

from collections.abc import Callable

from queue_insight.forecast.paths import ran_seconds
from queue_insight.forecast.quantiles import MIDDLE
from queue_insight.forecast.run_times import RunTimes
from queue_insight.forecast.traits import traits_of_record
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.queue_unit_phases import Phase


def likely_ends(
    engine: Engine,
    moment: Moment,
    beliefs: RunTimes,
    is_told: Callable[[CachedUnit], bool],
) -> dict[str, float]:
    """Return in how many seconds running units end, by uid: half of such runs last for so long.

    A declared maximum ends a run at the latest.

    Args:
        engine: The state.
        moment: Its time.
        beliefs: How long runs last.
        is_told: Returns whether users are told the times of a unit.
    """
    found: dict[str, float] = {}
    for record in engine.units:
        if record.unit.status.phase == Phase.RUNNING and is_told(record):
            traits, ran = traits_of_record(record), ran_seconds(record.unit, moment.wall)
            left = beliefs.seconds(traits, ran, MIDDLE)
            declared = traits.declared
            found[record.uid] = left if declared is None else min(left, max(0.0, declared - ran))
    return found
