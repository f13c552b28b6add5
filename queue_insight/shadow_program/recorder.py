"""Records what is seen, and lets the engine decide as if it were in charge, step by step.

Only the replica that leads records. The record has only the truth; what the engine decides here is
logged and counted, and decided again by a report, which knows all run times by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor
from typing import Any, Final

import msgspec
import structlog

from queue_insight.replay.quota_files import QUOTA_KINDS
from queue_insight.shadow.command import split
from queue_insight.shadow.counterfactual import Counterfactual, build_world
from queue_insight.shadow.folder import RecordFile, read_lines
from queue_insight.shadow.given_objects import Given
from queue_insight.shadow.lines import FORMAT, Alive, Header, Line, ObjectGone, ObjectSeen
from queue_insight.shadow.quota_mapping import QuotaMapping
from queue_insight.shadow.story import Story, key_of, read_story
from queue_insight.shadow_program.flags import ShadowFlags
from queue_insight.shadow_program.job_watch import JobName, JobWatch, ObservedJob
from queue_insight.shadow_program.observer import Observer
from queue_insight.shadow_program.quota_watch import QuotaWatch
from queue_insight.shadow_program.shadow_metrics import ShadowMetrics
from queue_scheduler.configuration import KoordQueueConfiguration
from shared_api.process.clock import Clock
from shared_api.version import VERSION

STEP_SECONDS: Final = 1.0
"""How often is looked at what has changed: the times in objects have whole seconds."""

ALIVE_SECONDS: Final = 60.0
"""How often it is noted that nothing has changed."""

Objects = Mapping[tuple[str, str], dict[str, Any] | None]

log = structlog.get_logger("shadow")


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What is followed.

    Attributes:
        jobs: The jobs of the cluster.
        quotas: Quotas of the cluster; None: a file has them.
        given: What that file says.
    """

    jobs: JobWatch
    quotas: QuotaWatch | None
    given: Given


class Recorder:
    """Follows the cluster; `step` is called on one thread.

    Args:
        flags: What is asked for.
        configuration: The scheduler's; None: the plugins that the quotas need.
        watched: What is followed.
        is_leader: Whether this replica records.
        clock: The time.
        metrics: Takes what is counted.
    """

    def __init__(
        self,
        flags: ShadowFlags,
        configuration: KoordQueueConfiguration | None,
        watched: Watched,
        *,
        is_leader: Callable[[], bool],
        clock: Clock,
        metrics: ShadowMetrics,
    ) -> None:
        self._flags = flags
        self._configuration = configuration
        self._jobs, self._quotas, self._given = watched.jobs, watched.quotas, watched.given
        self._is_leader = is_leader
        self._clock = clock
        self._metrics = metrics
        self._story = Story()
        self._observer = Observer(self._story, self._emit)
        self._file: RecordFile | None = None
        self._played: Counterfactual | None = None
        self._trouble = ""
        metrics.show(
            real=lambda: float(self._count_waiting()[0]),
            shadow=lambda: float(self._count_waiting()[1]),
            size=lambda: 0.0 if self._file is None else float(self._file.size),
            full=lambda: float(bool(self._trouble)),
        )

    def step(self) -> float:
        """Take what has changed; return the seconds until the next look.

        Raises:
            RecordError: The record in the folder cannot be read.
            TraceError: There is a quota whose plugin is not configured.
        """
        if not self._is_leader() or not self._jobs.is_ready():
            return STEP_SECONDS
        now = self._now()
        try:
            if self._played is None:
                self._played = self._begin(now)
            self._look(self._played, now)
        except OSError as error:
            self._stop_recording(f"{error.filename or self._flags.folder}: {error.strerror}")
        return STEP_SECONDS

    def close(self) -> None:
        """Write the rest; after the last step."""
        if self._file is None:
            return
        try:
            if not self._trouble:
                self._file.write(Alive(at=self._now()))
            self._file.close()
        except OSError as error:
            self._stop_recording(str(error))

    # --- the beginning ------------------------------------------------------------------------

    def _begin(self, now: float) -> Counterfactual:
        """Open the record, and go on where it ended.

        It begins with the second: a job that is created now may say that it was created earlier, as
        times in objects have whole seconds.
        """
        now = float(floor(now))
        self._file = RecordFile(self._flags.folder, self._flags.most_bytes)
        before = list(read_lines(self._flags.folder))
        self._story = read_story(before)
        self._observer = Observer(self._story, self._emit)
        added: list[Line] = []
        configuration = self._configuration
        header = Header(
            at=now,
            format=FORMAT,
            version=VERSION,
            configuration=None if configuration is None else msgspec.to_builtins(configuration),
            places=self._mapping,
            kinds=self._flags.kinds,
        )
        for line in (header, *self._changes_of_objects(self._all_objects(), now)):
            self._emit(line)
            added.append(line)
        first, rest = split([*before, *added])
        world = build_world([each.body for each in first], configuration, "")
        played = Counterfactual(
            world, self._mapping, self._story.began, self._story.jobs, self._on_start
        )
        for line in rest:
            played.add(line)
        played.advance(now)
        log.info("recording", folder=str(self._flags.folder), jobs=len(self._story.jobs))
        if not any(kind in QUOTA_KINDS for kind, _ in self._story.objects):
            log.warning("there are no quotas: no job would start", see="--shadow-objects")
        self._played = played
        self._see([*self._observer.jobs(), *self._jobs.all_jobs()], now)
        return played

    @property
    def _mapping(self) -> QuotaMapping:
        return self._given.places or QuotaMapping()

    def _all_objects(self) -> Objects:
        """Return all objects that count, and those of the record that are gone."""
        if self._quotas is None:
            found: dict[tuple[str, str], dict[str, Any] | None] = {
                key_of(body): body for body in self._given.bodies
            }
        else:
            found = dict(self._quotas.take_changed())
        there = self._quotas.there() if self._quotas is not None else found.keys()
        return {**{key: None for key in self._story.objects if key not in there}, **found}

    # --- what has changed ---------------------------------------------------------------------

    def _look(self, played: Counterfactual, now: float) -> None:
        if self._quotas is not None:
            for line in self._changes_of_objects(self._quotas.take_changed(), now):
                self._emit(line)
        self._see(self._jobs.take_changed(), now)
        if now - self._story.until >= ALIVE_SECONDS:
            self._emit(Alive(at=now))
        if self._file is not None and not self._trouble:
            self._file.flush()
        played.advance(now)

    def _changes_of_objects(self, changed: Objects, now: float) -> list[Line]:
        lines: list[Line] = []
        for (kind, key), body in changed.items():
            known = self._story.objects.get((kind, key))
            if body is None and known is not None:
                lines.append(ObjectGone(at=now, kind=kind, key=key))
            elif body is not None and (known is None or known.body != body):
                lines.append(ObjectSeen(at=now, body=body))
        return lines

    def _see(self, names: list[JobName], now: float) -> None:
        """Take jobs as they are now, in the order in which they were submitted."""
        found = [(name, self._jobs.read(name)) for name in dict.fromkeys(names)]
        for name, job in sorted(found, key=_by_submission):
            self._observer.see(name, job, now)

    def _emit(self, line: Line) -> None:
        self._story.take(line)
        if self._played is not None:
            self._played.add(line)
        if self._file is None or self._trouble:
            return
        if self._file.is_full:
            self._stop_recording("the record is as large as --shadow-record-limit allows")
        else:
            self._file.write(line)

    def _stop_recording(self, why: str) -> None:
        self._trouble = why
        log.error("nothing is recorded any more", why=why)

    # --- what is told -------------------------------------------------------------------------

    def _on_start(self, uid: str) -> None:
        if self._played is None:
            return  # decided before, and told then
        self._metrics.starts.inc()
        story, fate = self._story.jobs[uid], self._played.fates[uid]
        log.info(
            "would start",
            job=story.seen.job,
            kind=story.seen.kind,
            queue=fate.queue,
            quota=fate.quota,
            waited_seconds=round((fate.started or 0.0) - story.seen.submitted, 3),
            has_started=bool(story.runs),
        )

    def _count_waiting(self) -> tuple[int, int]:
        """Return how many jobs wait in reality, and in the shadow."""
        played = self._played
        if played is None:
            return 0, 0
        open_jobs = [
            (job, played.fates.get(uid))
            for uid, job in list(self._story.jobs.items())
            if job.canceled is None
        ]
        real = sum(not job.runs for job, _ in open_jobs)
        shadow = sum(fate is not None and not fate.runs for _, fate in open_jobs)
        return real, shadow

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _by_submission(found: tuple[JobName, ObservedJob | None]) -> tuple[float, JobName]:
    name, job = found
    return (0.0 if job is None else job.submitted.timestamp()), name
