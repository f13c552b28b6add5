"""What is seen of jobs, as lines of the record. Pure.

Everything is read off the job's objects as they are now, and compared with the record: a restart
changes nothing, and what happened meanwhile is noted late, with the times that the objects state.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from queue_insight.shadow.lines import JobEnded, JobSeen, JobStarted, JobStopped, Line
from queue_insight.shadow.story import JobStory, Story
from queue_insight.shadow_program.job_watch import JobName, ObservedJob

DELETED = "deleted"


class Observer:
    """Compares jobs with a record.

    Args:
        story: What the record says; it is told every line that `write` gets.
        write: Takes a line.
    """

    def __init__(self, story: Story, write: Callable[[Line], None]) -> None:
        self._story = story
        self._write = write
        self._uids = {
            JobName(job.seen.kind, job.seen.job): uid
            for uid, job in story.jobs.items()
            if job.outcome != DELETED
        }

    def jobs(self) -> list[JobName]:
        """Return the jobs that are there as far as is known."""
        return list(self._uids)

    def see(self, name: JobName, job: ObservedJob | None, now: float) -> None:
        """Take a job as it is now.

        Args:
            name: Its name.
            job: The job; None if it is gone.
            now: The time, in seconds since the epoch.
        """
        before = self._uids.get(name)
        if before is not None and job is not None and self._goes_on(before, job):
            job = replace(job, uid=before)
        if before is not None and (job is None or job.uid != before):
            del self._uids[name]
            if self._story.jobs[before].ended is None:
                self._write(JobEnded(at=now, uid=before, outcome=DELETED))
        if job is None:
            return
        story = self._story.jobs.get(job.uid)
        if story is None:
            if job.unit is None or self._is_history(job):
                return
            self._uids[name] = job.uid
            self._write(_line_of(job, job.unit, now))
            story = self._story.jobs[job.uid]
        elif story.ended is not None:
            return
        elif not story.runs and job.unit is not None and job.unit != story.latest.unit:
            self._write(_line_of(job, job.unit, now))
        self._note_run(job, story, now)
        if job.outcome:
            ended = now if job.ended is None else job.ended.timestamp()
            self._write(JobEnded(at=ended, uid=job.uid, outcome=job.outcome))

    def _goes_on(self, before: str, job: ObservedJob) -> bool:
        """Return whether a job without an object is the one of its name that was seen before.

        It is as long as any of its pods is left, whichever these are; one that has ended, and has
        pods that live, is another one.
        """
        return not job.has_object and (bool(job.outcome) or self._story.jobs[before].ended is None)

    def _is_history(self, job: ObservedJob) -> bool:
        """Return whether a job has ended before the record began."""
        if not job.outcome:
            return False
        return job.ended is None or job.ended.timestamp() < self._story.began

    def _note_run(self, job: ObservedJob, story: JobStory, now: float) -> None:
        is_running = bool(story.runs) and story.runs[-1].end is None
        if is_running and job.suspended and not job.living_pods and not job.outcome:
            self._write(JobStopped(at=now, uid=job.uid))
        elif not is_running:
            start = _start_of(job, story)
            if start is not None:
                self._write(JobStarted(at=start, uid=job.uid))


def _start_of(job: ObservedJob, story: JobStory) -> float | None:
    """Return when a job started that does not run as far as is known; None if it has not.

    It starts when its first pod gets a node. Pods of an earlier run do not count. The pods of a job
    that has ended may be gone: then its own status says it.
    """
    stopped = story.runs[-1].end if story.runs else None
    for each in job.node_since:
        if stopped is None or each.timestamp() >= stopped:
            return max(each.timestamp(), job.submitted.timestamp())
    if job.outcome and job.started is not None and not story.runs:
        return max(job.started.timestamp(), job.submitted.timestamp())
    return None


def _line_of(job: ObservedJob, unit: dict[str, object], now: float) -> JobSeen:
    return JobSeen(
        at=now,
        uid=job.uid,
        job=job.key,
        kind=job.kind,
        submitted=job.submitted.timestamp(),
        kueue_queue=job.kueue_queue,
        unit=unit,
    )
