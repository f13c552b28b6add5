"""Days of a trace through the engine in virtual time, with a look at all that it keeps.

How much an engine keeps follows how many units wait and run. So what is judged is what a linear fit
by these two leaves over. At the end every job has ended, and nothing of them may be left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from queue_insight.insight.virtual_cluster import Arrival, Outside, VirtualCluster
from queue_insight.replay.jobs import Trace
from queue_insight.replay.replayed_world import BEGINNING, UnitMaker, build_engine
from queue_insight.replay.scored_world import NEAR, build_scored_world
from queue_scheduler.cache.gone_units import GONE_REMEMBERED
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.engine.audit import Caches, judge_charges, judge_units, list_charged
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from tests.benchmarks.process_usage import own_rss_mb
from tests.benchmarks.soak.engine_entries import count_entries
from tests.benchmarks.soak.growth import Point, Soaked, Track, judge
from tests.benchmarks.soak.linear_fit import without_fit

DAY: Final = 86_400.0
HOUR: Final = 3_600.0
LOAD: Final = 0.9
POLICY: Final = "Priority"
"""It evicts units, so that the books have rounds of eviction as well."""
SAMPLES: Final = 240
RSS_FLOOR_MB: Final = 2.0
ENTRY_FLOOR: Final = 20.0
"""Entries that mean nothing, beside thousands of jobs."""
BOUNDED: Final = {"units.gone._newer": GONE_REMEMBERED, "units.gone._older": GONE_REMEMBERED}
"""What remembers past units, and how many at most."""
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 30.0


def soak(trace: Trace, days: float, *, samples: int = SAMPLES) -> Soaked:
    """Play the first days of a trace, and then until everything has ended."""
    zero = trace.jobs[0].submit
    jobs = tuple(takewhile(lambda job: job.submit < zero + days * DAY, trace.jobs))
    cut = replace(trace, jobs=jobs)
    world = build_scored_world(cut, load=LOAD, policy=POLICY, declared=NEAR, seed=1)
    return VirtualSoak(build_engine(world.world), world.trace, samples).run()


class VirtualSoak:
    """One soak.

    Args:
        engine: With its quotas and queues, and without units.
        trace: What arrives.
        samples: How often it is looked at.
    """

    def __init__(self, engine: Engine, trace: Trace, samples: int) -> None:
        self._engine = engine
        self._count = samples
        self._jobs = trace.jobs
        self._zero = trace.jobs[0].submit
        self._maker = UnitMaker()
        outside = Outside(
            run_seconds=lambda unit, ran: self._jobs[int(unit.metadata.uid)].run - ran,
            start_seconds=START_SECONDS,
            stop_seconds=STOP_SECONDS,
        )
        self._cluster = VirtualCluster(engine, Moment(0.0, BEGINNING), outside, self._arrivals())
        self._loads: list[tuple[float, float]] = []
        self._samples: list[tuple[float, dict[str, int]]] = []
        self._rss: list[Point] = []
        self._complaints: list[str] = []

    def run(self) -> Soaked:
        """Play everything."""
        before = count_entries(self._engine)
        last = self._jobs[-1].submit - self._zero
        for number in range(1, self._count + 1):
            self._cluster.run(until=last * number / self._count)
            self._sample()
        self._cluster.run()
        self._audit()
        self._look_for_rest(before)
        mean = sum(waiting for waiting, _ in self._loads) / self._count
        return Soaked(
            verdicts=[judge(track) for track in self._tracks()],
            counts={"jobs": len(self._jobs), "days": last / DAY, "waiting on average": mean},
            complaints=self._complaints,
        )

    def _arrivals(self) -> Iterator[Arrival]:
        for number, job in enumerate(self._jobs):
            yield Arrival(job.submit - self._zero, self._maker.make(number, job))

    def _sample(self) -> None:
        hours = self._cluster.agenda.now / HOUR
        states = [record.state for record in self._engine.units.records.values()]
        waiting = states.count(UnitState.WAITING)
        self._loads.append((float(waiting), float(len(states) - waiting)))
        self._samples.append((hours, count_entries(self._engine)))
        self._rss.append((hours, own_rss_mb()))
        self._audit()

    def _tracks(self) -> Iterator[Track]:
        ways = sorted({way for _, counts in self._samples for way in counts})
        for way in (each for each in ways if each not in BOUNDED):
            points = [(hours, float(counts.get(way, 0))) for hours, counts in self._samples]
            yield self._track(way, "entries", ENTRY_FLOOR, points)
        yield self._track("rss", "MB", RSS_FLOOR_MB, self._rss)

    def _track(self, name: str, unit: str, floor: float, points: Sequence[Point]) -> Track:
        left = without_fit(points, self._loads)
        return Track(name=name, unit=unit, floor=floor, points=left)

    def _audit(self) -> None:
        """Recompute what is derived, and judge all units and charges as the self-audit does."""
        engine = self._engine
        engine.validate()

        def unit(key: str) -> QueueUnit | None:
            record = engine.record(key)
            return None if record is None else record.unit

        caches = Caches(unit=unit, pod=lambda _: None)
        found = judge_units(engine, list(engine.units.records), caches)
        of_units = {record.uid for record in engine.units.records.values()}
        found += judge_charges(engine, (uid for uid in list_charged(engine) if uid not in of_units))
        if found and not self._complaints:
            self._complaints.append(f"the self-audit found {found[0]}")

    def _look_for_rest(self, before: dict[str, int]) -> None:
        left = count_entries(self._engine)
        for way, count in sorted(left.items()):
            if count > before.get(way, 0) + BOUNDED.get(way, ENTRY_FLOOR):
                self._complaints.append(f"{way} has {count} entries after the last job")
