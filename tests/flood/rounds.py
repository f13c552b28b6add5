"""One flood: the search for the dearest answers, the flood, and the rest after it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from queue_insight.debug_api.forecast_routes import BUDGET_SECONDS
from tests.benchmarks.process_usage import Meter, usage
from tests.flood.bystanders import Asking, bystanders
from tests.flood.flood_world import STREAM, FloodWorld
from tests.flood.flooding import PARALLEL, SOURCE, Answers, Plan, flooding
from tests.flood.http_connection import NO_ANSWER, Asker, Connection, Endpoint, Question
from tests.flood.judgement import REST_SECONDS, Figures, Memory, Quiet, Window, faults, unrest
from tests.flood.questions import Port, User, questions
from tests.flood.steady_jobs import SteadyJobs

DEAREST: Final = 3
"""Of a port's answers, how many are asked at once."""
TRIES: Final = 3
"""Of each candidate; the median counts."""
DEAR_SECONDS: Final = 2.0
"""What takes so long is not asked again: it is among the dearest."""
LOOK_SECONDS: Final = 3.0
"""What is looked at to see whether all is at rest."""
CALM_SECONDS: Final = 180.0
"""How long the next flood is put off if the last one has left no rest."""
ANSWER_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 2.0
WITH_FORECASTS: Final = ("insight",)
"""What computes for up to a minute at a time, whether anybody asks or not."""


class Dear(NamedTuple):
    """A question, and what its answer takes without a flood."""

    question: Question
    seconds: float
    status: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """A flood and its figures.

    Attributes:
        port: Where.
        user: Who.
        dearest: What was asked.
        answers: What the flood was answered.
        figures: What others saw.
        errors: Lines that the programs have logged as errors meanwhile.
    """

    port: str
    user: str
    dearest: Sequence[Dear]
    answers: Answers
    figures: Figures
    errors: Sequence[str] = field(default_factory=tuple)

    @property
    def faults(self) -> list[str]:
        """What is wrong; nothing if all is well."""
        found = faults(self.figures)
        if not self.answers.statuses:
            found.append("the flood was not answered once")
        return found


class Rounds:
    """Floods one world; jobs start and bystanders ask all the time.

    Args:
        world: The world.
        asking: The bystanders.
        stream: The jobs.
        seconds: How long each flood is.
        awaits_rest: Whether all must be as before when a round ends.
    """

    def __init__(
        self,
        world: FloodWorld,
        asking: Asking,
        stream: SteadyJobs,
        seconds: float,
        *,
        awaits_rest: bool = True,
    ) -> None:
        self._world = world
        self._asking = asking
        self._stream = stream
        self._seconds = seconds
        self._awaits_rest = awaits_rest
        self._pids = {name: each.pid for name, each in world.programs.items()}
        self._is_at_rest = True

    def watch(self, seconds: float) -> Window:
        """Return what is seen without a flood."""
        return self._seen_during(lambda: time.sleep(seconds))

    def flood(self, port: Port, user: User, quiet: Window, tries: int = TRIES) -> Round:
        """Flood a port as a user; return when all is at rest, or should be.

        Args:
            port: Where.
            user: Who.
            quiet: What is seen without it.
            tries: How often each candidate is asked in the search for the dearest answers.
        """
        if not self._is_at_rest:
            self._await_rest(quiet, CALM_SECONDS)  # else this flood would be charged with the last
        dearest = self._dearest(port, user, tries)
        endpoint = self._world.endpoints[port]
        return self._flood(endpoint, (port, user), dearest, quiet)

    def control(self, still: Endpoint, quiet: Window) -> Round:
        """Flood a server that does nothing: what the flood itself costs."""
        dear = Dear(Question("/", "/", {}), 0.0, 200)
        return self._flood(still, ("(control)", "(a still server)"), [dear], quiet)

    def _flood(
        self, endpoint: Endpoint, names: tuple[str, str], dearest: Sequence[Dear], quiet: Window
    ) -> Round:
        time.sleep(SETTLE_SECONDS)  # what was tried has spent its budgets, and is over
        before = self._memory()
        logged = len(self._errors())
        for pid in self._pids.values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        asked = [each.question for each in dearest]
        plan = Plan(endpoint, asked, self._seconds, self._world.since, PARALLEL)
        answers = Answers()

        def flood() -> None:
            nonlocal answers
            with flooding(plan) as going:
                answers = going.answers(self._seconds)

        flooded = self._seen_during(flood)
        rest, missing = self._await_rest(quiet, REST_SECONDS) if self._awaits_rest else (0.0, [])
        self._is_at_rest = rest is not None
        errors = self._errors()[logged:]
        figures = Figures(
            quiet=Quiet([quiet]),
            flooded=flooded,
            memory=self._memory_since(before),
            rest_seconds=rest,
            unrest=missing,
        )
        if self._awaits_rest and faults(figures):
            again = self.watch(self._seconds)
            figures = replace(figures, quiet=Quiet([quiet, again]))
        return Round(
            port=names[0],
            user=names[1],
            dearest=dearest,
            answers=answers,
            figures=figures,
            errors=errors,
        )

    def _dearest(self, port: Port, user: User, tries: int) -> list[Dear]:
        """Return the dearest answers, the dearest first; refusals count where nothing else is."""
        asker = Asker(random.Random(1), self._world.since)
        endpoint = self._world.endpoints[port]
        asked = questions(port, self._world.asked_by(user, port))
        with Connection(endpoint, ANSWER_SECONDS, SOURCE) as connection:
            found = [_measured(each, connection, asker, endpoint.name, tries) for each in asked]
        found = [each for each in found if each.status != NO_ANSWER] or found
        return sorted(found, key=lambda each: -each.seconds)[:DEAREST]

    def _seen_during(self, act: Callable[[], None]) -> Window:
        meter, began = Meter.start(self._pids), time.monotonic()
        act()
        now = time.monotonic()
        cores = {name: used / (now - began) for name, used in meter.read().items()}
        return Window(
            seconds=now - began,
            samples=self._asking.between(began, now),
            starts=[each.waited for each in self._stream.between(began, now)],
            cores={name: cores[name] for name in self._pids},
        )

    def _await_rest(self, quiet: Window, seconds: float) -> tuple[float | None, list[str]]:
        """Return after how long all was as before; None after so many seconds, and what was not.

        The insight program may be renewing its forecast, as it does without a flood as well.
        """
        began, rested = time.monotonic(), None
        while True:
            since = time.monotonic() - began
            before, seen = Quiet([quiet]), self.watch(LOOK_SECONDS)
            missing = unrest(before, seen, apart_from=WITH_FORECASTS)
            if not missing:
                rested = since if rested is None else rested
                missing = unrest(before, seen)
            if not missing:
                return rested, []
            patience = seconds if rested is None else seconds + BUDGET_SECONDS
            if time.monotonic() - began > patience:
                return None, missing

    def _memory(self) -> dict[str, float]:
        return {name: usage(pid).rss_mb for name, pid in self._pids.items()}

    def _memory_since(self, before: Mapping[str, float]) -> dict[str, Memory]:
        found = {name: usage(pid) for name, pid in self._pids.items()}
        return {
            name: Memory(
                before=before[name],
                peak=each.peak_rss_mb,
                after=each.rss_mb,
                limit=self._world.limits[name],
            )
            for name, each in found.items()
        }

    def _errors(self) -> list[str]:
        """Return what the programs have logged as errors, the latest last."""
        found = [line for each in self._world.programs.values() for line in each.errors()]
        return sorted(found)  # each begins with its time


def _measured(
    question: Question, connection: Connection, asker: Asker, host: str, tries: int
) -> Dear:
    took, status = [], NO_ANSWER
    for _ in range(tries):
        began = time.monotonic()
        status = connection.ask(asker.encode(question, host))
        took.append(time.monotonic() - began)
        if took[-1] > DEAR_SECONDS:
            break
    return Dear(question, median(took), status)


@contextmanager
def rounds(
    world: FloodWorld,
    *,
    seconds: float,
    per_second: float,
    interval: float,
    awaits_rest: bool = True,
) -> Iterator[Rounds]:
    """Let jobs start and bystanders ask; yield what floods.

    Args:
        world: The world.
        seconds: How long each flood is.
        per_second: Jobs that are created in a second.
        interval: Seconds between two questions of a bystander.
        awaits_rest: Whether all must be as before when a round ends.
    """
    kubeconfig = world.world.plane.kubeconfig
    with (
        SteadyJobs(kubeconfig, STREAM, per_second) as stream,
        Asking(bystanders(world, interval)) as asking,
    ):
        yield Rounds(world, asking, stream, seconds, awaits_rest=awaits_rest)
