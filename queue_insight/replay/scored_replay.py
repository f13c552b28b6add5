"""Walks a trace with the engine that decides, and asks for forecasts on the way.

What is asked at a moment has seen nothing that happens later: the model learns from runs when they
end, arrivals are drawn from those before, and forecasts are calibrated by those that have come
true. Each question is put to the controls, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Final

import msgspec

from queue_insight.forecast.arrivals import ArrivalHistory, PastArrival
from queue_insight.forecast.calibration import FEW, Calibration
from queue_insight.forecast.draws import uniform
from queue_insight.forecast.paths import DrawnRuns, Extent, find_running, play
from queue_insight.forecast.quantiles import Wait, summarize
from queue_insight.forecast.run_times import RunTimeModel
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight.virtual_cluster import (
    Arrival,
    Event,
    EventKind,
    Outside,
    RunSeconds,
    VirtualCluster,
)
from queue_insight.replay.jobs import Job
from queue_insight.replay.replayed_world import BEGINNING, UnitMaker, build_engine
from queue_insight.replay.scored_world import ScoredWorld
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.framework.queue_unit_info import OrderKey
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts

WEEK: Final = 7 * 86_400.0
LAST: Final = 200
"""Waits of a queue that the first control looks at."""
RECENT_SECONDS: Final = 6 * 3600.0
"""For how long admissions count in the rate of the third control."""

PLACES: Final = (3, 10, 30, 100)
"""Bounds of the places in their queues of the jobs that are asked about: some of each, so that long
and short waits are among them. A place is known when it is asked; how long the wait is, is not."""
DEEP_EVERY: Final = 4
"""At one moment of so many, jobs beyond the last of these places are asked about, too. Their paths
last for days; one moment with many such questions costs no more than with one."""


class ScoringSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which forecasts are made and scored.

    Attributes:
        seed: Seed of the random numbers of questions and paths.
        paths: How many paths each forecast has.
        forecasts: About how many are scored; a quarter more only calibrate.
        per_moment: How many jobs at most are asked about at one moment.
        begin: From which part of the trace on, from 0 to 1; before that it is only learned.
        score_from: From which part on forecasts are scored; those before only calibrate.
        end: Until which part.
        is_oracle: Whether true run times and true later arrivals are given.
    """

    seed: int = 0
    paths: int = 40
    forecasts: int = 400
    per_moment: int = 20
    begin: float = 0.4
    score_from: float = 0.5
    end: float = 0.95
    is_oracle: bool = False


class Question(msgspec.Struct, kw_only=True):
    """One job at one moment.

    Attributes:
        number: The number of the job in the trace.
        tenant: Its tenant.
        now: When it is asked, in seconds of the trace.
        age: For how long it has waited.
        raw: What the paths say.
        calibrated: What users are told.
        controls: What the controls say, or None if they say nothing.
        is_scored: Whether it counts.
        true: How many more seconds it waited, or None if that is not known yet.
    """

    number: int
    tenant: str
    now: float
    age: float
    raw: Wait
    calibrated: Wait
    controls: dict[str, Wait | None]
    is_scored: bool
    true: float | None = None

    @property
    def total(self) -> float:
        """How long it waited in all."""
        return self.age + (inf if self.true is None else self.true)


class ScoredReplay:
    """One walk.

    Args:
        scored: The world, and the jobs.
        asking: What is asked.
        model: Learns run times; new.
        on_progress: Takes which share is done.

    Attributes:
        questions: All questions so far, in order.
    """

    def __init__(
        self,
        scored: ScoredWorld,
        asking: ScoringSettings,
        model: RunTimeModel,
        on_progress: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.questions: list[Question] = []
        self._scored = scored
        self._jobs: Sequence[Job] = scored.trace.jobs
        self._asking = asking
        self._model = model
        self._on_progress = on_progress
        self._zero = self._jobs[0].submit
        self._span = self._jobs[-1].submit - self._zero
        self._maker = UnitMaker()
        self._engine = build_engine(scored.world, scored.trace.began or BEGINNING)
        self._began: dict[str, float] = {}
        self._admitted: dict[str, float] = {}
        self._past: list[PastArrival] = []
        self._charges: dict[str, Amounts] = {}
        self._waits: dict[str, deque[tuple[float, float]]] = {}
        self._open: dict[str, list[int]] = {}
        self._calibration = Calibration()
        self._beginning = moment = Moment(0.0, scored.trace.began or BEGINNING)
        self._epoch = moment.wall.timestamp()
        outside = Outside(run_seconds=self._run_seconds)
        self._cluster = VirtualCluster(
            self._engine, moment, outside, self._arrivals(0), self._on_event
        )

    def run(self) -> list[Question]:
        """Walk until all answers are known; return the questions."""
        moments = self._choose()
        for place, now in enumerate(moments):
            self._cluster.run(now)
            self._ask(is_deep=place % DEEP_EVERY == 0)
            self._on_progress(place / len(moments))
        while self._open and self._cluster.agenda.next_at < inf:
            self._cluster.run(self._cluster.agenda.now + 86_400.0)
        self._on_progress(1.0)
        return self.questions

    # --- the walk -----------------------------------------------------------------------------

    def _choose(self) -> list[float]:
        """Return the times at which forecasts are requested: when waiting jobs are submitted.

        Each such job has the same chance, and the chosen are spread evenly over them, so that few
        are of the same hours. Which jobs wait is seen in a walk without questions.
        """
        asking = self._asking
        submits = self._find_waits()
        parts = (
            (asking.begin, asking.score_from, asking.forecasts / 4),
            (asking.score_from, asking.end, asking.forecasts),
        )
        chosen = []
        for first, last, wanted in parts:
            some = [now for now in submits if first * self._span <= now < last * self._span]
            count = min(len(some), ceil(wanted / asking.per_moment))
            luck = uniform(asking.seed, int(first * 100), "moments")
            chosen += [some[int((place + luck) * len(some) / count)] for place in range(count)]
        return sorted(set(chosen))

    def _find_waits(self) -> list[float]:
        """Return when jobs were submitted that did not start at once, in order."""
        found: dict[str, float] = {}

        def note(event: Event) -> None:
            uid = event.unit.metadata.uid
            if event.kind is EventKind.ARRIVED:
                found[uid] = event.now
            elif event.kind is EventKind.ADMITTED and found.get(uid) == event.now:
                del found[uid]

        engine = build_engine(self._scored.world, self._beginning.wall)
        outside = Outside(run_seconds=self._run_seconds)
        walk = VirtualCluster(engine, self._beginning, outside, self._arrivals(0), note)
        walk.run(self._asking.end * self._span)
        return list(found.values())

    def _arrivals(self, first: int) -> Iterator[Arrival]:
        for number in range(first, len(self._jobs)):
            job = self._jobs[number]
            yield Arrival(job.submit - self._zero, self._maker.make(number, job))

    def _run_seconds(self, unit: QueueUnit, ran: float) -> float:
        return self._jobs[int(unit.metadata.uid)].run - ran

    def _on_event(self, event: Event) -> None:
        uid, now = event.unit.metadata.uid, event.now
        match event.kind:
            case EventKind.ARRIVED:
                unit = self._maker.make(int(uid), self._jobs[int(uid)])
                self._past.append(PastArrival(self._epoch + now, unit))
            case EventKind.ADMITTED:
                if uid not in self._admitted:
                    self._admit(uid, now)
            case EventKind.STARTED:
                self._began[uid] = now
                record = self._engine.record(event.unit.metadata.key)
                if record is not None and record.info is not None:
                    self._charges[uid] = record.info.demand.total
            case EventKind.FREED | EventKind.FINISHED:
                self._learn(event)
            case EventKind.EVICTED:
                pass

    def _admit(self, uid: str, now: float) -> None:
        self._admitted[uid] = now
        job = self._jobs[int(uid)]
        waits = self._waits.setdefault(job.tenant, deque(maxlen=LAST))
        waits.append((now, now - (job.submit - self._zero)))
        for number in self._open.pop(uid, ()):
            question = self.questions[number]
            question.true = now - question.now
            self._calibration.come_true(number, question.true)

    def _learn(self, event: Event) -> None:
        uid = event.unit.metadata.uid
        began = self._began.pop(uid, None)
        job = self._jobs[int(uid)]
        is_over = event.kind is EventKind.FINISHED
        self._model.learn(
            FinishedRun(
                unit=event.unit.metadata.key,
                uid=uid,
                user=job.user,
                queue=job.tenant,
                quota=job.tenant,
                charge=self._charges.pop(uid, {}),
                created=self._epoch + job.submit - self._zero,
                started=None if began is None else self._epoch + began,
                ended=self._epoch + event.now,
                declared_seconds=job.limit,
                ended_by="finished" if is_over else "evicted",
            )
        )

    # --- questions ----------------------------------------------------------------------------

    def _ask(self, *, is_deep: bool) -> None:
        moment = Moment(self._cluster.agenda.now, self._cluster.wall)
        places = self._positions()
        picked = self._pick(places, is_deep=is_deep)
        uids: set[str] = {record.uid for record in picked}
        raws = self._forecast(moment, uids)
        limits = self._by_limits(moment, uids)
        adjustment = self._calibration.at(moment.now)
        calibrated = {uid: adjustment.adjust(raw) for uid, raw in raws.items()}
        for record in picked:
            tenant = self._job_of(record.uid).tenant
            age = moment.now - (self._job_of(record.uid).submit - self._zero)
            raw = raws[record.uid]
            number = len(self.questions)
            self.questions.append(
                Question(
                    number=int(record.uid),
                    tenant=tenant,
                    now=moment.now,
                    age=age,
                    raw=raw,
                    calibrated=calibrated[record.uid],
                    controls={
                        "last200": self._by_waits(tenant, age),
                        "declared": limits.get(record.uid),
                        "position": self._by_rate(tenant, places[record.uid], moment.now),
                    },
                    is_scored=moment.now >= self._asking.score_from * self._span,
                )
            )
            self._open.setdefault(record.uid, []).append(number)
            self._calibration.add(number, moment.now, raw)

    def _job_of(self, uid: str) -> Job:
        return self._jobs[int(uid)]

    def _positions(self) -> dict[str, int]:
        """Return the places of all jobs that wait, by uid; the first one of a queue has 1."""
        lines: dict[str, list[CachedUnit]] = {}
        for record in self._engine.units:
            if record.state is UnitState.WAITING and record.info is not None:
                lines.setdefault(self._job_of(record.uid).tenant, []).append(record)
        found: dict[str, int] = {}
        for line in lines.values():
            line.sort(key=self._order_of)
            found.update({record.uid: place for place, record in enumerate(line, start=1)})
        return found

    def _pick(self, places: Mapping[str, int], *, is_deep: bool) -> list[CachedUnit]:
        """Return jobs of each range of places in turns."""
        now, seed = int(self._cluster.agenda.now), self._asking.seed
        shelves: list[list[CachedUnit]] = [[] for _ in range(len(PLACES) + 1)]
        for record in self._engine.units:
            if (place := places.get(record.uid)) is not None:
                shelves[bisect_right(PLACES, place)].append(record)
        if not is_deep and any(shelves[:-1]):
            shelves.pop()
        for shelf in shelves:
            shelf.sort(key=lambda record: uniform(seed, now, record.uid))
        found: list[CachedUnit] = []
        while len(found) < self._asking.per_moment and any(shelves):
            for shelf in shelves:
                if shelf and len(found) < self._asking.per_moment:
                    found.append(shelf.pop())
        return found

    def _forecast(self, moment: Moment, uids: set[str]) -> dict[str, Wait]:
        asking = self._asking
        if asking.is_oracle:
            oracle = self._engine.fork()
            arrivals = self._arrivals_after(moment.now)
            played = play(
                oracle,
                moment,
                self._truth(moment),
                arrivals,
                watched=uids,
                extent=Extent(100 * WEEK),
            )
            return _waits_of([played.starts], uids, moment)
        beliefs = self._model.at(moment.wall.timestamp(), find_running(self._engine, moment))
        history = ArrivalHistory(self._past, self._epoch)
        starts = []
        for path in range(asking.paths):
            fork = self._engine.fork()
            played = play(
                fork,
                moment,
                DrawnRuns(fork, beliefs, asking.seed, path),
                history.sample(moment, WEEK, asking.seed, path),
                watched=uids,
                extent=Extent(WEEK),
            )
            starts.append(played.starts)
        return _waits_of(starts, uids, moment)

    def _arrivals_after(self, now: float) -> Iterator[Arrival]:
        later = bisect_right(self._jobs, now + self._zero, key=lambda job: job.submit)
        return self._arrivals(later)

    def _truth(self, moment: Moment) -> RunSeconds:
        """Return the true run times; those of running units from when they began, exactly."""
        left = {
            uid: began + self._job_of(uid).run - moment.now for uid, began in self._began.items()
        }
        return lambda unit, _: (
            left.pop(unit.metadata.uid, None) or self._job_of(unit.metadata.uid).run
        )

    # --- controls -----------------------------------------------------------------------------

    def _by_waits(self, tenant: str, age: float) -> Wait | None:
        """Quantiles of the last waits of the queue that were longer than this one is already."""
        waits = [wait for _, wait in self._waits.get(tenant, ())]
        longer = [wait - age for wait in waits if wait > age]
        chosen = longer if len(longer) >= FEW else waits
        return summarize(chosen) if chosen else None

    def _by_limits(self, moment: Moment, uids: set[str]) -> dict[str, Wait]:
        """What a batch system's `--start` does: all runs end as declared, and nothing arrives."""
        if any(job.limit is None for job in self._jobs[:1]):
            return {}

        def declared(unit: QueueUnit, ran: float) -> float:
            most = unit.spec.maximum_execution_time_seconds
            return WEEK if most is None else max(0.0, most - ran)

        fork = self._engine.fork()
        played = play(fork, moment, declared, (), watched=uids, extent=Extent(WEEK))
        return _waits_of([played.starts], uids, moment)

    def _order_of(self, record: CachedUnit) -> OrderKey:
        assert record.info is not None, "it waits in a queue"
        queue = self._engine.queues.find(record.info.queue)
        assert queue is not None, "its queue exists"
        return queue.place(record.info.order_key)

    def _by_rate(self, tenant: str, position: int, now: float) -> Wait:
        """Return the place in the queue, divided by how many of it were admitted in an hour."""
        recent = sum(at >= now - RECENT_SECONDS for at, _ in self._waits.get(tenant, ()))
        wait = position * RECENT_SECONDS / recent if recent else inf
        return Wait(wait, wait, wait)


def _waits_of(
    starts: Sequence[Mapping[str, float]], uids: set[str], moment: Moment
) -> dict[str, Wait]:
    return {uid: summarize([each.get(uid, inf) - moment.now for each in starts]) for uid in uids}
