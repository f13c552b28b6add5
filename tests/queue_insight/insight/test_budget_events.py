"""Budgets in virtual time: when they are spent, who starts at a reset, who is evicted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queue_insight.insight.virtual_cluster import VirtualCluster
from queue_scheduler.decision import Moment
from tests.properties.engine_kit import declaring
from tests.queue_insight.insight.budget_town import EVENING, HOUR, of_cores, story_of, town
from tests.queue_insight.insight.virtual_town import Story, job


def spent_hours(cluster: VirtualCluster, moment: Moment = EVENING) -> list[float]:
    """Return after how many hours each budget that is spent was spent."""
    return [(at - moment.now) / HOUR for at in cluster.budgets.spent_at.values()]


def hours_of(story: Story, name: str, moment: Moment = EVENING) -> list[str]:
    """Return what happened to a job, with the hours after the beginning."""
    found = [(float(line.split(" ")[0]), line.split(" ")[1]) for line in story.of(name)]
    return [f"{(at - moment.now) / HOUR:g} {what}" for at, what in found]


def test_what_a_spent_budget_refuses_starts_when_the_period_ends() -> None:
    """Ten core hours a day: x takes eight for two hours, so y starts at midnight, and runs."""
    first, second = declaring(job("x", 4), 7200), declaring(job("y", 4), 7200)
    story = story_of(town(of_cores(10)), (0, first), (1, second), x=2 * HOUR, y=HOUR)
    story.run()
    assert hours_of(story, "x") == ["0 arrived", "0 admitted", "0 started", "2 finished"]
    assert hours_of(story, "y") == ["1 arrived", "4 admitted", "4 started", "5 finished"]


def test_hours_that_a_short_run_gives_back_are_used_at_once() -> None:
    """Job x declares two hours and ends after one: four of its eight hours are given back."""
    first, second = declaring(job("x", 4), 7200), declaring(job("y", 4), 5400)
    story = story_of(town(of_cores(10)), (0, first), (0, second), x=HOUR, y=HOUR)
    story.run()
    assert hours_of(story, "y")[1] == "1 admitted"


@pytest.mark.parametrize(
    ("hours", "runs", "want"),
    [
        pytest.param(10, 3 * HOUR, [2.5], id="within the period"),
        pytest.param(16, 6 * HOUR, [], id="all of it, as the period ends"),
        pytest.param(18, 8 * HOUR, [], id="what the first day leaves is not the next day's"),
        pytest.param(18, 9 * HOUR, [8.5], id="in the next period"),
        pytest.param(0, HOUR, [0.0], id="at the beginning"),
    ],
)
def test_when_a_budget_is_spent(hours: int, runs: float, want: list[float]) -> None:
    warn = of_cores(hours, enforce="Warn")
    story = story_of(town(warn), (0, job("x", 4)), x=runs)
    story.run()
    assert spent_hours(story.cluster) == want


def test_a_rolling_budget_gets_hours_back_and_is_not_looked_at_for_ever() -> None:
    rolling = of_cores(8, period="Rolling 30d", reserve="None")
    story = story_of(town(rolling), (0, job("x", 4)), (3, job("y", 4)), x=2 * HOUR, y=HOUR)
    story.run()
    assert spent_hours(story.cluster) == [2.0]
    at, what = hours_of(story, "y")[1].split(" ")
    assert (what, 720 <= float(at) <= 722) == ("admitted", True)


def test_a_budget_that_stops_evicts_after_its_grace_and_lets_start_at_the_reset() -> None:
    """Ten core hours: x has used them after 2.5 hours, and ten minutes later it is evicted."""
    stop = of_cores(10, enforce="Stop", reserve="None", grace="30m")
    story = story_of(town(stop), (0, job("x", 4)), x=5 * HOUR)
    story.run(EVENING.now + 5 * HOUR)
    assert hours_of(story, "x")[3:] == ["3 evicted", "3 freed", "4 admitted", "4 started"]


def test_what_was_to_be_stopped_already_is_stopped_at_once() -> None:
    engine = town(of_cores(10, enforce="Stop", reserve="None"))
    story_of(engine, (0, job("x", 4)), x=9 * HOUR).run(EVENING.now + 2.6 * HOUR)
    late = Moment(EVENING.now + 3 * HOUR, EVENING.wall + timedelta(hours=3))
    story = story_of(engine, moment=late, x=9 * HOUR)
    story.run(late.now + 1.0)
    assert hours_of(story, "x", late) == ["0 evicted", "0 freed"]
    assert spent_hours(story.cluster, late) == [-0.5]


def test_without_budgets_nothing_is_planned() -> None:
    cluster = story_of(town()).cluster
    cluster.run(EVENING.now)
    assert cluster.agenda.next_at == float("inf")
    assert cluster.budgets.spent_at == {}
