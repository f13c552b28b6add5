"""A small town whose forecasts can be computed by hand: four cores, jobs of one core."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from queue_insight.debug_api.forecast_routes import Forecasts
from queue_insight.forecast.run_times import Running
from queue_insight.forecast.traits import Traits
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.testing.virtual_clock import EPOCH
from tests.properties.engine_kit import build_queue
from tests.queue_insight.insight.virtual_town import START, Story, job, town_engine

RUN = 1000.0


class Exact:
    """Beliefs that each run lasts `RUN` seconds; with `spread`, up to twice that."""

    def __init__(self, spread: float = 0.0) -> None:
        self.spread = spread
        self.asked: list[tuple[Traits, float]] = []

    def seconds(self, traits: Traits, ran: float, luck: float) -> float:
        self.asked.append((traits, ran))
        return max(0.0, RUN * (1 + self.spread * luck) - ran)


class ExactModel:
    """A model that believes that, and keeps what it learns."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.running: list[Running] = []

    def learn(self, run: Any) -> None:
        self.runs.append(run)

    def at(self, epoch: float, running: Any) -> Exact:
        self.running = list(running)
        return Exact()


def town_at(seconds: float, jobs: int = 9, policy: str = "FIFO") -> tuple[Engine, Moment]:
    """Return a town in which four jobs run, and the others wait, and its time."""
    engine = town_engine(build_queue("a", policy))
    story = Story(
        engine,
        [(0.0, job(f"j{number}")) for number in range(jobs)],
        seconds={f"j{number}": RUN for number in range(jobs)},
    )
    story.run(seconds)
    return engine, Moment(START.now + seconds, EPOCH + timedelta(seconds=seconds))


def renew(forecasts: Forecasts) -> float:
    """Make a forecast, path by path; return for how long to rest then."""
    while not (rest := forecasts.step()):
        pass
    return rest


def uid_of(engine: Engine, name: str) -> str:
    """Return the uid of a job."""
    return next(r.uid for r in engine.units.records.values() if r.unit.metadata.name == name)


def shared(engine: Engine) -> SharedEngine:
    """Return the engine behind its lock."""
    return SharedEngine(engine, lambda _: None)
