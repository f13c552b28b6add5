"""When units start and end. Times are RFC 3339; null is beyond the horizon."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Times(Answer, frozen=True):
    """When a unit starts, as quantiles, and the median of its end."""

    start_p10: str | None = None
    start_p50: str | None = None
    start_p90: str | None = None
    end_p50: str | None = None


class Forecast(Times, frozen=True):
    """When a unit starts, and what that is based on.

    `without_arrivals` is the same if nothing arrived any more. `outlook` is `times`; or
    `notKnownYet` or `neverAsIs`, and then there are no times, and `no_times` says why, as the rest
    of a sentence about the unit.
    """

    outlook: str = "times"
    no_times: str = ""
    needed_runs: int = 0
    namespace: str = ""
    name: str = ""
    queue: str = ""
    without_arrivals: Times = Times()
    similar_runs: int = 0
    sample: int = 0
    seed: int = 0
    computed_at: str = ""


class QueueForecast(Answer, frozen=True):
    """A page of the units that wait in a queue; `others` counts those that may not be read."""

    queue: str = ""
    total: int = 0
    offset: int = 0
    limit: int = 0
    units: tuple[Forecast, ...] = ()
    others: int = 0
