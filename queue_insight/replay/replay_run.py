"""One replay: all jobs of a trace through an engine, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf
from typing import Final

import msgspec

from queue_insight.insight.virtual_cluster import Arrival, Event, EventKind, Outside, VirtualCluster
from queue_insight.replay.jobs import Job, Trace
from queue_insight.replay.replayed_world import (
    BEGINNING,
    UnitMaker,
    World,
    build_engine,
    check_quotas_and_queues,
)
from queue_insight.replay.tally import Chain, Life, Tally, step_of
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_questions import view_all_quotas, view_quota
from queue_scheduler.refusal_texts import full_message
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts

LOOKS: Final = 1000
"""About how often it is looked at what waits, in a short trace; in a long one once per step."""

PROGRESS_EVERY: Final = 200
"""Events between two reports of progress."""

OnProgress = Callable[[float], None]
"""Takes which share of a replay is done, from 0 to 1."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay is played.

    Attributes:
        path: The trace, for errors.
        default_quota: The quota of jobs that name none.
        start_seconds: From an admission until the pods run.
        stop_seconds: From the request of an eviction until the pods are gone.
    """

    path: str
    default_quota: str = ""
    start_seconds: float = 0.0
    stop_seconds: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay has shown.

    Attributes:
        tally: The counts.
        step: Seconds of a step of its series.
        seconds: When the last thing happened.
        limits: What the quotas have, by name.
        never: Why jobs did not start until the end, with how many there are of each.
    """

    tally: Tally
    step: float
    seconds: float
    limits: dict[str, Amounts]
    never: dict[str, int]

    @property
    def lives(self) -> list[Life]:
        """All jobs, in order of submission."""
        return list(self.tally.lives.values())


def replay(world: World, trace: Trace, settings: Settings, on_progress: OnProgress) -> Outcome:
    """Play a trace.

    Args:
        world: Quotas, queues and settings.
        trace: The jobs.
        settings: How it is played.
        on_progress: Takes the progress.

    Raises:
        TraceError: A job has no quota or no queue.
        ConfigurationError: The plugins cannot be built.
    """
    began = trace.began or BEGINNING
    engine, maker = build_engine(world, began), UnitMaker(settings.default_quota)
    check_quotas_and_queues(engine, trace.jobs, maker, settings.path)
    return _Replay(engine, maker, trace, settings, on_progress).run()


class _Replay:
    def __init__(
        self,
        engine: Engine,
        maker: UnitMaker,
        trace: Trace,
        settings: Settings,
        on_progress: OnProgress,
    ) -> None:
        self._engine = engine
        self._maker = maker
        self._jobs: Sequence[Job] = trace.jobs
        self._zero = trace.jobs[0].submit
        self._on_progress = on_progress
        self._events = 0
        span = trace.jobs[-1].submit - self._zero
        self._step = step_of(span)
        longest = max(job.run for job in trace.jobs)
        self._pause = min(self._step, max(1.0, (span + longest) / LOOKS))
        self._tally = Tally(engine, chain_of(engine), self._job_of, self._step)
        outside = Outside(
            run_seconds=self._run_seconds,
            start_seconds=settings.start_seconds,
            stop_seconds=settings.stop_seconds,
        )
        moment = Moment(0.0, trace.began or BEGINNING)
        self._cluster = VirtualCluster(engine, moment, outside, self._arrivals(), self._on_event)

    def run(self) -> Outcome:
        """Play everything."""
        limits = {view.name: view.max for view in view_all_quotas(self._engine.plugins)}
        self._look()
        self._cluster.run()
        self._on_progress(1.0)
        never: dict[str, int] = {}
        for record in self._engine.units:
            refusal = refusal_of_unit(self._engine, record.key)
            why = "" if refusal is None else full_message(refusal)
            never[why] = never.get(why, 0) + 1
        return Outcome(
            tally=self._tally,
            step=self._step,
            seconds=self._tally.last,
            limits=limits,
            never=dict(sorted(never.items())),
        )

    def _arrivals(self) -> Iterator[Arrival]:
        for number, job in enumerate(self._jobs):
            yield Arrival(job.submit - self._zero, self._maker.make(number, job))

    def _job_of(self, uid: str) -> tuple[Job, str]:
        job = self._jobs[int(uid)]
        return job, self._maker.tenant_of(job)

    def _run_seconds(self, unit: QueueUnit, ran: float) -> float:
        return self._jobs[int(unit.metadata.uid)].run - ran

    def _on_event(self, event: Event) -> None:
        self._tally.on_event(event)
        if event.kind in {EventKind.ARRIVED, EventKind.FINISHED}:
            self._events += 1
            if self._events % PROGRESS_EVERY == 0:
                self._on_progress(self._events / (2 * len(self._jobs)))

    def _look(self) -> None:
        """Look at what waits, now and again until nothing is left to happen."""
        agenda = self._cluster.agenda
        if agenda.next_at < inf:
            self._tally.look(agenda.now, self._pause)
            agenda.call_at(agenda.now + self._pause, self._look)


def chain_of(engine: Engine) -> Chain:
    """Return what finds the quotas that count a quota's usage: itself, and its ancestors.

    It remembers them: they are looked for once, with all numbers of each quota.
    """

    @cache
    def chain(quota: str) -> tuple[str, ...]:
        found: list[str] = []
        view = view_quota(engine.plugins, quota)
        while view is not None and view.usable and view.name not in found:
            found.append(view.name)
            view = view_quota(engine.plugins, view.parent) if view.parent else None
        return tuple(found) or (quota,)

    return chain
