"""The metrics of forecasts, read from the last one at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class ForecastMetrics(Collector):
    """Shows how old the last forecast is, and how often earlier ones have come true.

    Args:
        coverage: Returns which share of units started by the p90 that was told, by horizon.
        of_day: Returns the same of all whose p90 has passed within a day; None: there are too few.
        age_seconds: Returns the age of the last forecast; None if there is none.
    """

    def __init__(
        self,
        coverage: Callable[[], Mapping[str, float]],
        of_day: Callable[[], float | None],
        age_seconds: Callable[[], float | None],
    ) -> None:
        self._coverage = coverage
        self._of_day = of_day
        self._age_seconds = age_seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; what is not known is left out."""
        coverage = GaugeMetricFamily(
            "koord_queue_forecast_coverage",
            "Share of units that started by the p90 told of them, of those whose p90 has passed.",
            labels=["horizon"],
        )
        for horizon, share in self._coverage().items():
            coverage.add_metric([horizon], share)
        yield coverage
        of_day = GaugeMetricFamily(
            "koord_queue_forecast_coverage_day",
            "Share of units that started by the p90 told of them, of those whose p90 has passed"
            " within the last day.",
        )
        share_of_day = self._of_day()
        if share_of_day is not None:
            of_day.add_metric([], share_of_day)
        yield of_day
        age = GaugeMetricFamily("koord_queue_forecast_age_seconds", "Age of the last forecast.")
        seconds = self._age_seconds()
        if seconds is not None:
            age.add_metric([], seconds)
        yield age
