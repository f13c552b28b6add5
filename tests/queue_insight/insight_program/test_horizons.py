"""Horizons are played on the model of the forecasts, with the same luck on both sides."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.debug_api.engine_state import State
from queue_insight.forecast import arrivals, paths
from queue_insight.forecast.learned import Learned
from queue_insight.forecast.traits import Traits, traits_of_record
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_program import horizons
from queue_insight.insight_program.horizons import DrawnPaths, Horizons
from queue_insight.what_if.edit import Edit
from queue_insight.what_if.horizon import Horizon
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.virtual_clock import EPOCH, VirtualClock
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import QUOTA_NAME
from tests.queue_insight.forecast.forecast_kit import RUN, ExactModel, town_at
from tests.queue_insight.insight.virtual_town import job

HOUR = 3600.0
LARGER = Edit(kind="ElasticQuota", name="a", patch={"spec": {"max": {"cpu": 9}}})


def town(policy: str = "FIFO") -> State:
    """Return four cores, of which four jobs have one each; five more wait."""
    engine, moment = town_at(300.0, policy=policy)
    return State(engine.fork(), moment)


def ended(number: int, *, quota: str = "a", cores: int = 4, priority: int = 9) -> FinishedRun:
    """Return a large run of higher priority; one has come every ten minutes."""
    created = EPOCH.timestamp() - 600.0 * number
    return FinishedRun(
        unit=f"a/old-{number}",
        uid=f"old-{number}",
        queue="a",
        quota=quota,
        priority=priority,
        charge={"cpu": 1000 * cores},
        created=created,
        started=created,
        ended=created + RUN,
    )


def build(
    *runs: FinishedRun,
    clock: VirtualClock | None = None,
    model: Any = None,
    since: datetime = EPOCH - timedelta(days=2),
) -> Horizons:
    found = Horizons(model or ExactModel(), since, clock or VirtualClock(), least_runs=2)
    for run in runs:
        found.learn(run)
    return found


def ask(found: Horizons, *edits: Edit, state: State | None = None, seed: int = 1) -> Horizon:
    return found.answer(state or town(), edits, 6 * HOUR, seed)


def test_waits_are_those_of_the_model() -> None:
    """Each runs for a thousand seconds: four start after 700, the last one a thousand later."""
    found = ask(build(), LARGER)
    wait = found.comparisons["queue/a", "waitP90"]
    assert (found.paths, wait.is_clear) == (horizons.PATHS, True)
    assert wait.before.p50 is not None
    assert wait.after.p50 is not None
    assert wait.before.p50 - wait.after.p50 > 699.0


def test_units_arrive_on_both_sides_as_they_have_before() -> None:
    found = ask(build(*(ended(number) for number in range(280, 0, -1))))
    completed = found.comparisons["", "completed"]
    assert completed.before == completed.after
    assert completed.before.p50 is not None
    assert completed.before.p50 > 9
    assert "280 runs that have ended; arrivals like those of the last 48.1 hours" in found.basis


@pytest.mark.parametrize(
    ("runs", "want"),
    [(0, "not known yet: 0 of 2 runs"), (1, "not known yet: 1 of 2 runs"), (2, "")],
)
def test_over_a_time_nothing_is_told_before_so_many_runs(runs: int, want: str) -> None:
    found = build(*(ended(number, quota=f"q{number}") for number in range(runs, 0, -1)))
    assert found.why_no_forecast() == want


def test_a_short_time_is_said_in_minutes() -> None:
    found = Horizons(ExactModel(), EPOCH - timedelta(seconds=60), VirtualClock())
    assert ask(found).basis.endswith("; arrivals like those of the last 6 minutes")


def test_nothing_known_is_said() -> None:
    found = Horizons(ExactModel(), EPOCH + timedelta(seconds=299), VirtualClock())
    assert ask(found).basis == (
        "no run has ended yet: run times are a guess, 20 minutes in the median;"
        " no arrivals, as none are known yet"
    )


def test_the_same_seed_gives_the_same_answer_and_another_does_not() -> None:
    assert ask(build(), LARGER) == ask(build(), LARGER)
    assert ask(build(), LARGER) != ask(build(), LARGER, seed=2)


class OfTenant:
    """Beliefs by tenant and request, which an edit may change."""

    def seconds(self, traits: Traits, ran: float, luck: float) -> float:
        return len(traits.tenant) * 100.0 + len(traits.kind) + luck - ran


class TenantModel(ExactModel):
    def at(self, epoch: float, running: Any) -> Any:
        return OfTenant()


def test_an_edit_of_a_unit_does_not_change_how_long_it_runs() -> None:
    state = town()
    learned = Learned(TenantModel(), 0.0)
    (path,) = DrawnPaths(state, learned, HOUR, seed=1, count=1).paths()
    waiting = state.engine.record("ns/j8")
    assert waiting is not None
    unit = waiting.unit
    before = path.runs_in(state.engine)(unit, 0.0)
    edited = state.engine.fork()
    labels = {**unit.metadata.labels, QUOTA_NAME: "another"}
    newer = replace(unit.metadata, labels=labels, resource_version="99")
    edited.on_queue_unit(replace(unit, metadata=newer))
    record = edited.record(unit.metadata.key)
    assert record is not None
    assert traits_of_record(record).tenant != "a"
    assert path.runs_in(edited)(record.unit, 0.0) == before


def test_each_path_has_arrivals_of_its_own() -> None:
    state, learned = town(), Learned(ExactModel(), (EPOCH - timedelta(days=2)).timestamp())
    for number in range(280, 0, -1):
        learned.learn(ended(number, cores=1 + number % 5))
    first, *_, last = DrawnPaths(state, learned, 24 * HOUR, seed=1, count=4).paths()
    assert list(first.arrivals()) == list(first.arrivals())
    assert list(first.arrivals()) != list(last.arrivals())
    for path in (first, last):
        run_seconds = path.runs_in(engine_with(state.engine, path.arrivals()))
        assert all(run_seconds(each.unit, 0.0) > 0 for each in path.arrivals())


def engine_with(engine: Engine, arrivals: Any) -> Engine:
    """Return a fork in which these units have arrived."""
    fork = engine.fork()
    for each in arrivals:
        meta = replace(each.unit.metadata, resource_version="1")
        fork.on_queue_unit(replace(each.unit, metadata=meta))
    return fork


class Slow(ExactModel):
    """Each look at the beliefs of a path takes some time."""

    def __init__(self, clock: VirtualClock, seconds: float = 0.5) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def at(self, epoch: float, running: Any) -> Any:
        clock, taken, exact = self._clock, self._seconds, super().at(epoch, running)

        class Beliefs:
            def seconds(self, traits: Traits, ran: float, luck: float) -> float:
                clock.advance(taken)
                return exact.seconds(traits, ran, luck)

        return Beliefs()


def test_paths_end_with_the_budget_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path asks for nine runs on each side: nine seconds."""
    monkeypatch.setattr(arrivals, "_campaign_seconds", lambda _piece, _luck: 0.0)
    clock = VirtualClock()
    began = clock.monotonic()
    found = ask(build(clock=clock, model=Slow(clock)), LARGER)
    assert found.paths == 1
    assert clock.monotonic() - began < horizons.BUDGET_SECONDS + 10.0


def test_a_new_unit_starts_after_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four run until 1000, the next four until 2000, and the last one of the town goes with it."""
    monkeypatch.setattr(paths, "DRIFT", 0.0)
    runs = [replace(ended(number, cores=1), priority=0) for number in range(3, 0, -1)]
    found = build(*runs, since=EPOCH + timedelta(seconds=299))
    new = submitted(job("new"))
    (got,) = found.foresee(town(), [new]).units.values()
    assert got.start_p50 == rfc3339(EPOCH + timedelta(seconds=2000))
    assert got.without_arrivals.end_p50 == rfc3339(EPOCH + timedelta(seconds=3000))
    assert (got.sample, got.similar_runs) == (horizons.PATHS, 3)
    assert got.computed_at == rfc3339(EPOCH + timedelta(seconds=300))


def submitted(unit: QueueUnit) -> QueueUnit:
    """Return a unit as it is tried."""
    created = rfc3339(EPOCH + timedelta(seconds=300))
    meta = replace(unit.metadata, resource_version="9", creation_timestamp=created)
    return replace(unit, metadata=meta)


def test_new_units_are_foreseen_in_bounded_time() -> None:
    clock = VirtualClock()
    new = submitted(job("new"))
    began = clock.monotonic()
    found = build(clock=clock, model=Slow(clock, seconds=3.0)).foresee(town(), [new])
    assert found.units == {}
    assert clock.monotonic() - began < horizons.FORESEE_SECONDS + 30.0


def test_a_program_that_ends_plays_no_more() -> None:
    found = build()
    found.end()
    assert ask(found).paths == 0
    assert found.foresee(town(), [submitted(job("new"))]).units == {}


def test_runs_are_learned_before_they_become_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizons, "MAX_UNREAD", 10)
    model = ExactModel()
    found = build(*(ended(number) for number in range(25, 0, -1)), model=model)
    assert len(model.runs) == 20
    ask(found)
    assert len(model.runs) == 25
