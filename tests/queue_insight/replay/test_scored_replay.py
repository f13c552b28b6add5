"""Forecasts on a made trace: with the truth given they are exact; else they know nothing of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from queue_insight.forecast.quantiles import Wait
from queue_insight.forecast.run_times import SurvivalRunTimes
from queue_insight.replay.forecast_scores import score
from queue_insight.replay.jobs import Job
from queue_insight.replay.replay_run import Settings, replay
from queue_insight.replay.scored_replay import Question, ScoredReplay, ScoringSettings
from queue_insight.replay.scored_world import (
    BACKFILL,
    FAR,
    NEAR,
    NONE,
    ScoredWorld,
    build_scored_world,
)
from tests.queue_insight.replay.replay_kit import made_trace

JOBS = 300
TRUTH = ScoringSettings(is_oracle=True, begin=0.1, forecasts=100)
LEARNED = ScoringSettings(forecasts=40, paths=5, begin=0.3, seed=2)


def build(policy: str = "FIFO", declared: str = FAR, jobs: int = JOBS) -> ScoredWorld:
    return build_scored_world(made_trace(jobs), load=0.9, policy=policy, declared=declared, seed=3)


def ask(world: ScoredWorld, asking: ScoringSettings) -> list[Question]:
    return ScoredReplay(world, asking, SurvivalRunTimes()).run()


@pytest.mark.parametrize("policy", ["FIFO", "Priority", BACKFILL])
def test_with_the_truth_given_every_forecast_is_exact(policy: str) -> None:
    questions = ask(build(policy), TRUTH)
    assert len(questions) > 50
    assert max(question.true or 0.0 for question in questions) > 3600
    for question in questions:
        assert question.raw.p50 == question.true, question


def test_a_forecast_does_not_know_what_comes_after_it() -> None:
    """The last third of the jobs is changed: earlier forecasts stay as they were."""
    world = build()
    middle = 2 * JOBS // 3
    jobs = [
        job if line < middle else replace(job, run=3 * job.run, limit=None)
        for line, job in enumerate(world.trace.jobs)
    ]
    other = replace(world, trace=replace(world.trace, jobs=tuple(jobs)))
    changed_at = world.trace.jobs[middle].submit - world.trace.jobs[0].submit
    asking = replace(LEARNED, begin=0.2)
    one, two = (
        [
            (each.number, each.now, each.calibrated)
            for each in ask(some, asking)
            if each.now < changed_at
        ]
        for some in (world, other)
    )
    assert len(one) >= 10
    assert one == two


def test_a_run_that_goes_on_is_not_known_either() -> None:
    """What runs at a moment lasts twice as long: forecasts of that moment stay as they were."""
    world, asking = build(declared=NONE), replace(LEARNED, forecasts=1)
    first = ask(world, asking)
    began = {
        life.job.line: life.began or 0.0
        for life in replay(world.world, world.trace, Settings(path="made"), lambda _: None).lives
    }
    now = first[0].now

    def runs(job: Job) -> bool:
        return began[job.line] <= now < began[job.line] + job.run

    jobs = tuple(replace(job, run=2 * job.run) if runs(job) else job for job in world.trace.jobs)
    assert sum(map(runs, world.trace.jobs)) > 5
    again = ask(replace(world, trace=replace(world.trace, jobs=jobs)), asking)
    assert [each.raw for each in again if each.now == now] == [
        each.raw for each in first if each.now == now
    ]


def test_declared_times_that_are_right_make_forecasts_right() -> None:
    found = score(ask(build(declared=NEAR), replace(LEARNED, forecasts=80, paths=9)))
    every = found["horizons"]["all"]
    assert every["n"] >= 20
    assert every["forecast"]["medianRelativeError"] <= 0.2
    assert every["forecast"]["coverageP90"] >= 0.7
    assert 0.5 <= every["forecast"]["coverageBand"] <= 0.98
    assert every["position"]["skill"] > 0.1


def test_the_same_seed_gives_the_same_forecasts() -> None:
    one, two = (ask(build(), LEARNED) for _ in range(2))
    assert one == two
    three = ask(build(), replace(LEARNED, seed=9))
    assert [each.raw for each in three] != [each.raw for each in one]


def test_quantiles_of_a_forecast_are_in_order() -> None:
    for question in ask(build(), LEARNED):
        calibrated: Wait = question.calibrated
        assert 0 <= calibrated.p10 <= calibrated.p50 <= calibrated.p90, question


def test_moments_are_spread_over_the_jobs_that_wait() -> None:
    """Between two moments there are about as many jobs that wait as between any other two."""
    world = build(policy="FIFO", declared=NONE)
    asking = replace(TRUTH, begin=0.1, score_from=0.1, forecasts=8 * 20)
    moments = sorted({question.now for question in ask(world, asking)})
    lives = replay(world.world, world.trace, Settings(path="made"), lambda _: None).lives
    submits = [life.submit for life in lives if life.wait > 0 and life.submit >= moments[0]]
    between = [sum(a <= at < b for at in submits) for a, b in pairwise(moments)]
    assert len(moments) == 8
    assert max(between) - min(between) <= 1
    assert min(between) >= len(submits) / 10


def test_first_and_last_in_line_are_asked_about() -> None:
    questions = ask(build(), replace(TRUTH, per_moment=4))
    by_moment: dict[float, list[float]] = {}
    for question in questions:
        by_moment.setdefault(question.now, []).append(question.true or 0.0)
    long = [max(waits) - min(waits) > 3600 for waits in by_moment.values() if len(waits) == 4]
    assert sum(long) >= len(long) / 2 > 0
