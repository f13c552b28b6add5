"""What is kept of runs that have ended: a bounded number, and from when on it is complete."""

from __future__ import annotations

from typing import Any

import pytest

from queue_insight.forecast import learned as learned_runs
from queue_insight.forecast.learned import KEPT_SECONDS, MAX_KEPT, Learned
from queue_insight.forecast.traits import traits_of_run, unit_of_run
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.decision import Moment
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.virtual_clock import EPOCH
from tests.queue_insight.forecast.forecast_kit import ExactModel
from tests.queue_insight.insight.virtual_town import town_engine

NOW = Moment(0.0, EPOCH)
SINCE = EPOCH.timestamp() - 100_000.0


def run(number: int, **more: Any) -> FinishedRun:
    """Return a run that was created ten seconds before it ended, one a second."""
    ended = SINCE + number
    given: dict[str, Any] = {"quota": "gold", "charge": {"cpu": 1000}, **more}
    return FinishedRun(
        unit=f"ns/{number}",
        uid=str(number),
        created=ended - 10.0,
        started=ended - 5.0,
        ended=ended,
        **given,
    )


def learned(count: int, most: int = MAX_KEPT) -> Learned:
    found = Learned(ExactModel(), SINCE - 1000.0, most)
    for number in range(count):
        found.learn(run(number))
    return found


def test_the_newest_runs_are_kept() -> None:
    found = learned(8, most=5)
    assert [each.uid for each in found.ended] == ["3", "4", "5", "6", "7"]
    assert found.alike(traits_of_run(run(0))) == 5
    assert found.count == 8, "all of them have taught the model"


def test_what_came_with_a_run_that_is_not_kept_is_not_known_any_more() -> None:
    last_dropped = SINCE + 2 - 10.0
    assert learned(8, most=5).seconds_known(NOW) == EPOCH.timestamp() - last_dropped
    assert learned(5, most=5).seconds_known(NOW) == 101_000.0


def test_runs_of_long_ago_are_not_kept() -> None:
    found = learned(3)
    found.learn(run(int(KEPT_SECONDS) + 1))
    assert [each.uid for each in found.ended] == ["1", "2", str(int(KEPT_SECONDS) + 1)]


def test_one_unit_stands_for_all_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each renewal of the forecasts would make a unit for each run that is kept."""
    made: list[FinishedRun] = []

    def note(each: FinishedRun) -> QueueUnit:
        made.append(each)
        return unit_of_run(each)

    monkeypatch.setattr(learned_runs, "unit_of_run", note)
    found = learned(3)
    others: list[dict[str, Any]] = [{"user": "ann"}, {"charge": {"cpu": 2000}}, {"priority": 7}]
    for number, more in enumerate(others):
        found.learn(run(3 + number, **more))
    found.history(town_engine(), NOW)
    assert [each.uid for each in made] == ["0", "3", "4", "5"]
