"""Walks a trace with the engine that decides, and asks for forecasts on the way.

What is asked at a moment has seen nothing that happens later: the model learns from runs when they
end, arrivals are drawn from those before, and forecasts are calibrated by those that have come
true. Each question is put to the controls, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

import msgspec

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.forecast.arrivals import ArrivalHistory, PastArrival
from queue_scheduler.forecast.calibration import FEW, Calibration
from queue_scheduler.forecast.draws import uniform
from queue_scheduler.forecast.paths import DrawnRuns, find_running, play
from queue_scheduler.forecast.quantiles import Wait, summarize
from queue_scheduler.forecast.run_times import RunTimeModel
from queue_scheduler.insight.finished_run import FinishedRun
from queue_scheduler.insight.virtual_cluster import (
    Arrival,
    Event,
    EventKind,
    Outside,
    RunSeconds,
    VirtualCluster,
)
from queue_scheduler.replay.jobs import Job
from queue_scheduler.replay.replay_run import BEGINNING, Settings, replay
from queue_scheduler.replay.replayed_world import UnitMaker, build_engine
from queue_scheduler.replay.scored_world import ScoredWorld
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts

WEEK: Final = 7 * 86_400.0
LAST: Final = 200
"""Waits of a queue that the first control looks at."""
RECENT_SECONDS: Final = 6 * 3600.0
"""For how long admissions count in the rate of the third control."""

AGES: Final = (600.0, 3600.0, 21_600.0)
"""Bounds of the ages of the jobs that are asked about beside the newest: some of each."""


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked.

    Attributes:
        seed: Of the questions and the paths.
        paths: Of each forecast.
        forecasts: About how many are scored; a quarter more only calibrate.
        per_moment: How many jobs at most are asked about at one moment: the one that was submitted
            then, and others that wait.
        begin: From which part of the trace on, from 0 to 1; before that it is only learned.
        score_from: From which part on forecasts are scored; those before only calibrate.
        end: Until which part.
        is_oracle: Whether true run times and true later arrivals are given.
    """

    seed: int = 0
    paths: int = 40
    forecasts: int = 300
    per_moment: int = 5
    begin: float = 0.4
    score_from: float = 0.5
    end: float = 0.95
    is_oracle: bool = False


class Question(msgspec.Struct, kw_only=True):
    """One job at one moment.

    Attributes:
        number: Of the job.
        tenant: Its tenant.
        now: When it is asked, in seconds of the trace.
        age: For how long it has waited.
        raw: What the paths say.
        told: What is told, calibrated.
        controls: What the controls say; None: nothing.
        is_scored: Whether it counts.
        true: How much longer it waited; None: not known yet.
    """

    number: int
    tenant: str
    now: float
    age: float
    raw: Wait
    told: Wait
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
        told: Takes which share is done.

    Attributes:
        questions: All questions so far, in order.
    """

    def __init__(
        self,
        scored: ScoredWorld,
        asking: Asking,
        model: RunTimeModel,
        told: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.questions: list[Question] = []
        self._scored = scored
        self._jobs: Sequence[Job] = scored.trace.jobs
        self._asking = asking
        self._model = model
        self._told = told
        self._zero = self._jobs[0].submit
        self._span = self._jobs[-1].submit - self._zero
        self._maker = UnitMaker()
        self._engine = build_engine(scored.world)
        self._began: dict[str, float] = {}
        self._admitted: dict[str, float] = {}
        self._past: list[PastArrival] = []
        self._charges: dict[str, Amounts] = {}
        self._waits: dict[str, deque[tuple[float, float]]] = {}
        self._open: dict[str, list[int]] = {}
        self._calibration = Calibration()
        moment = Moment(0.0, scored.trace.began or BEGINNING)
        self._epoch = moment.wall.timestamp()
        outside = Outside(run_seconds=self._run_seconds)
        self._cluster = VirtualCluster(
            self._engine, moment, outside, self._arrivals(0), self._on_event
        )

    def run(self) -> list[Question]:
        """Walk until all answers are known; return the questions."""
        numbers = self._choose()
        for place, number in enumerate(numbers):
            job = self._jobs[number]
            self._cluster.run(job.submit - self._zero)
            record = self._engine.record(self._maker.make(number, job).metadata.key)
            assert record is not None, f"job {number} was to wait then"
            self._ask(record)
            self._told(place / len(numbers))
        while self._open and self._cluster.agenda.next_at < inf:
            self._cluster.run(self._cluster.agenda.now + 86_400.0)
        self._told(1.0)
        return self.questions

    # --- the walk -----------------------------------------------------------------------------

    def _choose(self) -> list[int]:
        """Return at whose submissions is asked, in order: a seeded sample of the jobs that wait.

        Which jobs wait is seen in a replay without questions.
        """
        asking = self._asking
        outcome = replay(self._scored.world, self._scored.trace, Settings(path=""), lambda _: None)
        lives = outcome.tally.lives
        submits = [life.submit for life in outcome.lives]
        starts = sorted(
            life.submit + life.wait for life in outcome.lives if life.admitted is not None
        )
        parts = (
            (asking.begin, asking.score_from, asking.forecasts / 4),
            (asking.score_from, asking.end, asking.forecasts),
        )
        chosen = []
        for first, last, wanted in parts:
            numbers = [
                int(uid)
                for uid, life in lives.items()
                if life.wait > 0 and first * self._span <= life.submit < last * self._span
            ]
            numbers.sort(key=lambda number: uniform(asking.seed, number, "asked"))
            left = wanted
            for number in numbers:
                if left <= 0:
                    break
                now = self._jobs[number].submit - self._zero
                waiting = bisect_right(submits, now) - bisect_right(starts, now)
                left -= min(asking.per_moment, waiting)
                chosen.append(number)
        return sorted(chosen)

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

    def _ask(self, newest: CachedUnit) -> None:
        moment = Moment(self._cluster.agenda.now, self._cluster.wall)
        by_tenant: dict[str, list[CachedUnit]] = {}
        for record in self._engine.units.records.values():
            if _waits(record):
                by_tenant.setdefault(self._job_of(record.uid).tenant, []).append(record)
        asked = self._pick(newest, [each for some in by_tenant.values() for each in some])
        uids: set[str] = {record.uid for record in asked}
        raws = self._forecast(moment, uids)
        limits = self._by_limits(moment, uids)
        adjustment = self._calibration.at(moment.now)
        for record in asked:
            tenant = self._job_of(record.uid).tenant
            position = _position(record, by_tenant[tenant])
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
                    told=adjustment.adjust(raw),
                    controls={
                        "last200": self._by_waits(tenant, age),
                        "declared": limits.get(record.uid),
                        "position": self._by_rate(tenant, position, moment.now),
                    },
                    is_scored=moment.now >= self._asking.score_from * self._span,
                )
            )
            self._open.setdefault(record.uid, []).append(number)
            self._calibration.add(number, moment.now, raw)

    def _job_of(self, uid: str) -> Job:
        return self._jobs[int(uid)]

    def _pick(self, newest: CachedUnit, waiting: list[CachedUnit]) -> list[CachedUnit]:
        """Return the newest job, and others of each age in turns."""
        now, seed = self._cluster.agenda.now, self._asking.seed
        shelves: list[list[CachedUnit]] = [[] for _ in range(len(AGES) + 1)]
        for record in waiting:
            if record.uid != newest.uid:
                age = now - (self._job_of(record.uid).submit - self._zero)
                shelves[sum(age >= bound for bound in AGES)].append(record)
        for shelf in shelves:
            shelf.sort(key=lambda record: uniform(seed, int(now), record.uid))
        found = [newest]
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
                oracle, moment, self._truth(moment), arrivals, watched=uids, seconds=100 * WEEK
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
                seconds=WEEK,
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
        played = play(fork, moment, declared, (), watched=uids, seconds=WEEK)
        return _waits_of([played.starts], uids, moment)

    def _by_rate(self, tenant: str, position: int, now: float) -> Wait:
        """Return the place in the queue, divided by how many of it were admitted in an hour."""
        recent = sum(at >= now - RECENT_SECONDS for at, _ in self._waits.get(tenant, ()))
        wait = position * RECENT_SECONDS / recent if recent else inf
        return Wait(wait, wait, wait)


def _waits(record: CachedUnit) -> bool:
    return record.state is UnitState.WAITING


def _position(record: CachedUnit, others: Sequence[CachedUnit]) -> int:
    assert record.info is not None, "it waits in a queue"
    key = record.info.order_key
    return sum(other.info is not None and other.info.order_key <= key for other in others)


def _waits_of(
    starts: Sequence[Mapping[str, float]], uids: set[str], moment: Moment
) -> dict[str, Wait]:
    return {uid: summarize([each.get(uid, inf) - moment.now for each in starts]) for uid in uids}
