"""What a scrape shows of forecasts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from queue_insight.insight_program.forecast_metrics import ForecastMetrics


def scrape(coverage: dict[str, float], age: float | None, of_day: float | None = None) -> str:
    registry = CollectorRegistry()
    registry.register(ForecastMetrics(lambda: coverage, lambda: of_day, lambda: age))
    return generate_latest(registry).decode()


def test_coverage_and_age_are_shown() -> None:
    text = scrape({"<1h": 0.9, "1-6h": 0.875}, 41.0, 0.5)
    assert "koord_queue_forecast_coverage_day 0.5" in text
    assert 'koord_queue_forecast_coverage{horizon="<1h"} 0.9' in text
    assert 'koord_queue_forecast_coverage{horizon="1-6h"} 0.875' in text
    assert "koord_queue_forecast_age_seconds 41.0" in text


def test_without_a_forecast_there_is_no_age() -> None:
    text = scrape({}, None)
    assert "\nkoord_queue_forecast_age_seconds" not in text
    assert "koord_queue_forecast_coverage{" not in text
    assert "\nkoord_queue_forecast_coverage_day" not in text
