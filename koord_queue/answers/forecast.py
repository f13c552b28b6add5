"""When units start and end.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Times(Answer, frozen=True):
    """When a unit starts, as quantiles, and the median of its end; null: beyond the horizon."""

    start_p10: str | None = None
    start_p50: str | None = None
    start_p90: str | None = None
    end_p50: str | None = None


class Forecast(Answer, frozen=True):
    """When a unit starts.

    `without_arrivals` is the same if nothing arrived any more. `sample` is how many futures were
    played, `computed_at` the time of the state that they begin with; no time is told that has
    passed since. `similar_runs` is how many runs of the same quota, user, kind and request have
    ended by themselves in the last eight days.
    """

    start_p10: str | None = None
    start_p50: str | None = None
    start_p90: str | None = None
    end_p50: str | None = None
    without_arrivals: Times = Times()
    outlook: str = "times"
    no_times: str = ""
    similar_runs: int = 0
    needed_runs: int = 0
    namespace: str = ""
    name: str = ""
    queue: str = ""
    sample: int = 0
    seed: int = 0
    computed_at: str = ""
    age_seconds: float = 0.0


class QueueForecast(Answer, frozen=True):
    """A page of the units that wait in a queue, in its order.

    `others` counts those of the page whose namespaces the caller may not read.
    """

    queue: str = ""
    total: int = 0
    offset: int = 0
    limit: int = 0
    units: tuple[Forecast, ...] = ()
    others: int = 0
