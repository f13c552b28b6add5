"""What the run-time model has learned from runs that ended, and from those that go on."""

from __future__ import annotations

import random
from typing import Any

import pytest

from queue_insight.forecast import run_times
from queue_insight.forecast.run_times import (
    DAY,
    PRIOR_MEDIAN,
    Running,
    RunTimes,
    SurvivalRunTimes,
)
from queue_insight.forecast.traits import Traits, traits_of_run
from queue_insight.insight.finished_run import FinishedRun

NOW = 1_000_000.0
CHARGE = {"cpu": 1000}


def run(seconds: float, ended: float = NOW, **more: Any) -> FinishedRun:
    given: dict[str, Any] = {
        "quota": "blue",
        "charge": CHARGE,
        "unit": "blue/a",
        "uid": "a",
        **more,
    }
    return FinishedRun(created=ended - seconds, started=ended - seconds, ended=ended, **given)


def traits(**more: Any) -> Traits:
    return traits_of_run(run(1.0, **more))


def learned(*runs: FinishedRun, going: tuple[Running, ...] = ()) -> RunTimes:
    model = SurvivalRunTimes()
    for each in runs:
        model.learn(each)
    return model.at(NOW, going)


def test_a_fresh_installation_believes_the_prior() -> None:
    assert learned().seconds(traits(), 0.0, 0.5) == pytest.approx(PRIOR_MEDIAN, rel=0.02)


def test_groups_that_had_no_run_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_times, "MAX_GROUPS", 50)
    old = [run(10_000.0, NOW - 1000.0, user="ann") for _ in range(200)]
    others = [run(100.0, user=f"u{number}") for number in range(200)]
    assert learned(*old).seconds(traits(user="ann"), 0.0, 0.5) == pytest.approx(10_000.0, rel=0.2)
    found = learned(*old, *others)
    assert found.seconds(traits(user="ann"), 0.0, 0.5) < 9_000.0, "as anybody's of the quota"
    assert found.seconds(traits(user="u199"), 0.0, 0.5) < 9_000.0


def test_users_are_told_apart() -> None:
    rng = random.Random(4)
    runs = [
        run(rng.lognormvariate(0, 0.2) * seconds, user=user)
        for user, seconds in (("ann", 100.0), ("bob", 10_000.0))
        for _ in range(100)
    ]
    found = learned(*runs)
    assert found.seconds(traits(user="ann"), 0.0, 0.5) == pytest.approx(100.0, rel=0.25)
    assert found.seconds(traits(user="bob"), 0.0, 0.5) == pytest.approx(10_000.0, rel=0.25)
    between = found.seconds(traits(user="new"), 0.0, 0.5)
    assert 150.0 < between < 9000.0, "a user without history has that of the tenant"


def test_newer_runs_count_more() -> None:
    old = [run(100.0, NOW - 10 * DAY) for _ in range(300)]
    new = [run(5000.0, NOW) for _ in range(60)]
    assert learned(*old, *new).seconds(traits(), 0.0, 0.5) > 3000.0


def test_what_has_run_for_long_runs_on_for_longer() -> None:
    found = learned(*(run(100.0 * 1.2**number) for number in range(40)))
    left = [found.seconds(traits(), ran, 0.5) for ran in (0.0, 1000.0, 20_000.0)]
    assert left == sorted(left)


@pytest.mark.parametrize("ended_by", ["evicted", "deleted"])
def test_a_run_that_was_cut_lasts_longer_than_it_did(ended_by: str) -> None:
    short = [run(60.0, ended_by=ended_by) for _ in range(100)]
    long = [run(6000.0) for _ in range(20)]
    assert learned(*short, *long).seconds(traits(), 0.0, 0.3) > 3000.0


def test_runs_that_go_on_lengthen_the_estimate() -> None:
    ended = [run(60.0) for _ in range(30)]
    going = tuple(Running(traits(), 3000.0) for _ in range(60))
    assert learned(*ended, going=going).seconds(traits(), 0.0, 0.6) > 1000.0
    assert learned(*ended).seconds(traits(), 0.0, 0.6) < 100.0


def test_a_run_that_never_started_teaches_nothing() -> None:
    never = FinishedRun(unit="blue/a", uid="a", charge=CHARGE, created=0.0, ended=NOW)
    assert learned(*[never] * 50).seconds(traits(), 0.0, 0.5) == learned().seconds(
        traits(), 0.0, 0.5
    )


def declared_runs(user: str, *, is_right: bool) -> list[FinishedRun]:
    """Return runs of all lengths whose declared maxima are right, or always a day."""
    rng = random.Random(6)
    runs = []
    for _ in range(80):
        seconds = rng.lognormvariate(8.0, 1.5)
        most = seconds / rng.uniform(0.8, 0.95) if is_right else DAY
        runs.append(run(min(seconds, 0.9 * DAY), user=user, declared_seconds=most))
    return runs


def test_a_declared_maximum_is_an_estimate_where_history_shows_it() -> None:
    found = learned(*declared_runs("ann", is_right=True))
    for declared in (100.0, 50_000.0):
        got = found.seconds(traits(user="ann", declared_seconds=declared), 0.0, 0.5)
        assert got == pytest.approx(0.88 * declared, rel=0.1)


def test_and_else_it_is_none() -> None:
    found = learned(*declared_runs("bob", is_right=False))
    got = found.seconds(traits(user="bob", declared_seconds=DAY), 0.0, 0.5)
    assert got == pytest.approx(found.seconds(traits(user="bob"), 0.0, 0.5))
    few = learned(*declared_runs("ann", is_right=True)[:5])
    assert few.seconds(traits(user="ann", declared_seconds=9.0), 0.0, 0.5) > 60.0


def test_a_run_that_its_maximum_ended_might_have_lasted_longer() -> None:
    killed = [run(600.0, declared_seconds=600.0, ended_by="failed") for _ in range(50)]
    assert learned(*killed).seconds(traits(), 0.0, 0.5) > 1200.0
