"""Windows in virtual time: what still runs when one begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared_api.testing.virtual_clock import EPOCH
from shared_api.timestamps import rfc3339
from tests.properties.engine_kit import running
from tests.queue_insight.insight.virtual_town import Story, job, town_engine
from tests.reserved_world import build_reservation, build_spec, schedules_at


def story(seconds: int, *, runs: bool = False, **fields: Any) -> Story:
    """Return a job that runs for 500 s, with a window of 100 s; `runs`: it runs already."""
    engine = town_engine()
    start = f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
    spec = build_spec(start, duration="100s", **{"margin": "0", "grace": "10s", **fields})
    reservation = build_reservation(spec=spec)
    engine.on_schedules(schedules_at(reservation, int(EPOCH.timestamp())))
    engine.on_reservation(reservation)
    if runs:
        engine.on_queue_unit(running(job("x"), 1, since=rfc3339(EPOCH)))
    return Story(engine, [] if runs else [(0.0, job("x"))], seconds={"x": 500.0})


def test_what_still_runs_is_evicted_and_starts_again_after_it() -> None:
    played = story(100, at_start="Evict", undeclared="Start")
    played.run()
    assert played.of("x") == [
        "0 arrived",
        "0 admitted",
        "0 started",
        "90 evicted",
        "90 freed",
        "200 admitted",
        "200 started",
        "700 finished",
    ]


def test_what_runs_in_a_window_as_it_begins_is_evicted_at_once() -> None:
    played = story(5, at_start="Evict", runs=True)
    played.run()
    assert played.of("x")[:2] == ["0 evicted", "0 freed"]


def test_it_runs_on_where_that_is_not_asked_for() -> None:
    played = story(100, undeclared="Start")
    played.run()
    assert played.of("x")[-1] == "500 finished"


def test_no_further_window_is_waited_for_once_all_has_ended() -> None:
    played = story(100_000, at_start="Evict", undeclared="Start", rrule="FREQ=DAILY")
    played.run()
    assert played.of("x")[-1] == "500 finished"
    assert played.cluster.agenda.now <= 100_000 - 10
