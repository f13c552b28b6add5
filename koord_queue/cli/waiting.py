"""Follows submitted jobs until they end: one line that changes, or a line for each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from koord_queue.acts.change import AnyObject
from koord_queue.acts.following import (
    ENDED,
    Advice,
    JobObject,
    Progress,
    State,
    end_by_unit,
    exit_code,
    is_unit_of,
    own_end,
    progress,
    progress_without_unit,
)
from koord_queue.answers.decoding import decode
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.last_state import last_state
from koord_queue.reach.resources import QUEUE_UNITS, ItemList, Resource
from koord_queue.session.session import Session
from koord_queue.show.forecasts import Wall, brief_start
from koord_queue.show.printer import printable
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_kinds import KNOWN_JOB_KINDS

POLL_SECONDS: Final = 1.0
"""Between two looks at the objects: what a person notices, and a few reads for the API server."""
LONGEST_REST_SECONDS: Final = 8.0
"""Between two lists of a namespace's units, in which that of a job is looked for; the first rest is
`POLL_SECONDS`, each further one twice as long."""
VERSION_SECONDS: Final = 30.0
"""Between two looks at a job whose unit is followed: what became of a deleted job can only be asked
for since a version that the API server remembers, which is for 75 s at least. Source:
`eventFreshDuration` of its watch cache."""
ADVICE_SECONDS: Final = 5.0
"""Between two questions for position and reason, which cost the scheduler more."""


class Job:
    """A submitted job, and what is known of it."""

    def __init__(self, resource: Resource, created: AnyObject) -> None:
        meta = created.metadata
        self.kind = created.kind
        self.shown = resource.shown(created.kind, meta.name)
        self.again = f"{created.kind.lower()}/{meta.name}"
        self.list_path = resource.path(meta.namespace)
        self.path = resource.path(meta.namespace, meta.name)
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid
        self.version, self.version_at = meta.resource_version, float("-inf")
        self.unit_uid, self.unit_version = "", ""
        self.end: Progress | None = None
        self.created = created
        self.search_at = float("-inf")
        self.search_rest = POLL_SECONDS
        self.unit_name = ""
        self.advice = Advice()
        self.progress = Progress(State.NEW, "is created")

    @classmethod
    def of(cls, resource: Resource, answer: bytes) -> Job:
        """Return a job as the API server has created it."""
        return cls(resource, msgspec.json.decode(answer, type=AnyObject))

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to come."""
        return self.progress.state in ENDED


class Waiting:
    """Follows jobs.

    Args:
        session: What is asked, and where it is shown.
        objects: What was created; objects that are no jobs are left out.
    """

    def __init__(self, session: Session, objects: Sequence[Job]) -> None:
        known = [each for each in objects if each.kind in KNOWN_JOB_KINDS]
        self._jobs = known or list(objects)
        self._session = session
        self._cluster = session.cluster()
        self._has_advice = True
        self._advised_at = float("-inf")
        self._shown: dict[str, str] = {}

    def follow(self, timeout: float | None) -> int:
        """Wait until all jobs have ended; return the exit code for that.

        Args:
            timeout: Seconds after which to stop; None: never.
        """
        clock = self._session.clock
        begun = clock.monotonic()
        try:
            while True:
                elapsed = clock.monotonic() - begun
                self._look(elapsed)
                self._show()
                if all(job.has_ended for job in self._jobs):
                    return self._end(timed_out=False)
                if timeout is not None and elapsed >= timeout:
                    return self._end(timed_out=True)
                left = POLL_SECONDS if timeout is None else min(POLL_SECONDS, timeout - elapsed)
                clock.sleep(left)
        except KeyboardInterrupt:
            self._session.out.end_status()
            self._print_next_steps("goes on")
            raise click.Abort from None

    # --- looking ------------------------------------------------------------------------------

    def _look(self, elapsed: float) -> None:
        """Read all jobs that have not ended."""
        ask = self._has_advice and self._now() - self._advised_at >= ADVICE_SECONDS
        for job in self._jobs:
            if job.has_ended:
                continue
            unit = self._unit_of(job)
            if unit is None:
                job.progress = progress_without_unit(
                    is_there=self._is_there(job),
                    end=job.end,
                    had_unit=bool(job.unit_name),
                    seconds=elapsed,
                )
            else:
                job.progress = self._by_unit(job, unit, ask=ask)
            if job.progress.state is State.DELETED:
                job.progress = self._end_before_deletion(job) or job.progress

    def _by_unit(self, job: Job, unit: QueueUnit, *, ask: bool) -> Progress:
        """Return what a job does by its unit; `ask`: where it waits, the scheduler's words."""
        job.unit_uid, job.unit_version = unit.metadata.uid, unit.metadata.resource_version
        if self._now() - job.version_at >= VERSION_SECONDS:
            self._is_there(job)
        found = progress(unit, job.advice)
        if found.state is not State.WAITS:
            job.advice = Advice()
        elif ask:
            self._advised_at = self._now()
            job.advice = self._advice_on(job)
            found = progress(unit, job.advice)
        return found

    def _end_before_deletion(self, job: Job) -> Progress | None:
        """Return how a deleted job had ended; None if it had not, or that cannot be known.

        With a short `ttlSecondsAfterFinished` a job and its unit are gone before the next look, so
        the server is asked what has happened to them since the last one.
        """
        cluster, units = self._cluster, QUEUE_UNITS.path(job.namespace)
        try:
            last = last_state(cluster, job.list_path, job.name, job.uid, job.version)
            end = job.end if last is None else own_end(msgspec.json.decode(last, type=JobObject))
            if end is not None or not job.unit_version:
                return end
            last = last_state(cluster, units, job.unit_name, job.unit_uid, job.unit_version)
        except Refused as error:
            self._session.out.end_status()
            self._session.out.note(f"how {job.shown} ended is not known: {error.message}")
            return None
        return None if last is None else end_by_unit(msgspec.json.decode(last, type=QueueUnit))

    def _now(self) -> float:
        return self._session.clock.monotonic()

    def _unit_of(self, job: Job) -> QueueUnit | None:
        if job.unit_name:
            path = QUEUE_UNITS.path(job.namespace, job.unit_name)
            try:
                return msgspec.json.decode(self._cluster.get(path), type=QueueUnit)
            except Missing:
                pass  # it may have been made anew, under another name
        now = self._now()
        if now < job.search_at:
            return None
        job.search_at = now + job.search_rest
        job.search_rest = min(2 * job.search_rest, LONGEST_REST_SECONDS)
        for page in self._cluster.pages(QUEUE_UNITS.path(job.namespace)):
            for unit in msgspec.json.decode(page, type=ItemList[QueueUnit]).items:
                if is_unit_of(unit, job.created):
                    job.unit_name = unit.metadata.name
                    return unit
        return None

    def _is_there(self, job: Job) -> bool:
        """Return whether a job exists; note its version, and how it has ended by itself."""
        try:
            body = self._cluster.get(job.path)
        except Missing:
            return False
        meta = msgspec.json.decode(body, type=AnyObject).metadata
        if meta.uid != job.uid:
            return False
        job.version, job.version_at = meta.resource_version, self._now()
        job.end = own_end(msgspec.json.decode(body, type=JobObject))
        return True

    def _advice_on(self, job: Job) -> Advice:
        """Return what the scheduler says of a unit that waits; nothing if no server answers."""
        question = questions.explain(job.namespace, job.unit_name)
        try:
            found = decode(self._session.sources().answer(question), Explanation)
        except (NotServed, Refused) as error:
            self._has_advice = False
            text = f"positions and forecasts are not known: {error.message}"
            self._session.out.end_status()
            self._session.out.note(f"{text}. {error.next_step}".rstrip())
            return Advice()
        except CommandError:
            return job.advice  # it has just started, or the budget of questions is spent
        where = f"waits in queue {found.queue} at position {found.position}"
        if not found.position:
            where = "is on hold"
        why = found.blockers[0].message if found.blockers else ""
        return Advice(where, why, self._start_of(job))

    def _start_of(self, job: Job) -> str:
        try:
            question = questions.forecast(job.namespace, job.unit_name)
            answer = self._session.sources().answer(question)
        except CommandError:
            return ""
        return brief_start(decode(answer, Forecast), Wall(self._session.clock.now()))

    # --- showing ------------------------------------------------------------------------------

    def _show(self) -> None:
        out = self._session.out
        if out.is_terminal:
            out.status(printable(self._summary()))
            return
        for job in self._jobs:
            news = job.progress.news or job.progress.text
            if self._shown.get(job.shown) != news:
                self._shown[job.shown] = news
                out.line(printable(f"{job.shown} {job.progress.text}"))
                out.flush()

    def _summary(self) -> str:
        if len(self._jobs) == 1:
            return f"{self._jobs[0].shown} {self._jobs[0].progress.text}"
        counts = Counter(job.progress.state for job in self._jobs)
        text = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
        return f"{len(self._jobs)} jobs: {text}"

    def _end(self, *, timed_out: bool) -> int:
        out = self._session.out
        if out.is_terminal:
            out.end_status()
            if len(self._jobs) > 1:
                for job in self._jobs:
                    out.line(printable(f"{job.shown} {job.progress.text}"))
        if timed_out:
            self._print_next_steps("was not seen to end in time, and goes on")
        for job in self._jobs:
            if job.progress.state is State.LEFT_ALONE:
                out.note(
                    f"{job.shown} runs without the queue: does it name a queue or quota?"
                    " The events of the job may say more."
                )
        return exit_code([job.progress.state for job in self._jobs], timed_out=timed_out)

    def _print_next_steps(self, what: str) -> None:
        program = click.get_current_context().find_root().info_name or "koord-queue"
        for job in self._jobs:
            if not job.has_ended:
                where = f" -n {job.namespace}" if job.namespace != self._cluster.namespace else ""
                self._session.out.note(
                    f"{job.shown} {what}: look with `{program} describe {job.again}{where}`"
                )
