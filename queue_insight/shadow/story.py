"""The truth about each job, from the lines of a record. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from queue_insight.shadow.lines import (
    Header,
    JobEnded,
    JobSeen,
    JobStarted,
    JobStopped,
    Line,
    ObjectGone,
    ObjectSeen,
)


class Run(msgspec.Struct):
    """One run of a job, in seconds since the epoch.

    Attributes:
        start: When it started.
        end: When it ended, or was stopped; None: not yet.
    """

    start: float
    end: float | None = None


class JobStory(msgspec.Struct, kw_only=True):
    """What is known of one job.

    Attributes:
        seen: As it was submitted.
        latest: As it was seen last, before it started.
        runs: Its runs, in order.
        ended: When it ended, or was deleted; None if it has not.
        outcome: How; "" if it has not ended.
    """

    seen: JobSeen
    latest: JobSeen
    runs: list[Run] = []
    ended: float | None = None
    outcome: str = ""

    @property
    def started(self) -> float | None:
        """When it started first; None if it has not."""
        return self.runs[0].start if self.runs else None

    @property
    def run_seconds(self) -> float | None:
        """How long it runs from a start to its end; None: that is not known.

        For a job that was stopped on the way, the last run counts: it began anew.
        """
        if self.ended is None or not self.runs or self.runs[-1].end != self.ended:
            return None
        return self.ended - self.runs[-1].start

    @property
    def canceled(self) -> float | None:
        """When it was taken back without a run to its end; None if it was not."""
        return self.ended if self.run_seconds is None else None


class Story:
    """What a record says until a line; takes lines one by one.

    Attributes:
        header: The last one.
        began: When the record began.
        until: It is complete until then.
        gaps: From when until when nothing was watched.
        jobs: All jobs, by uid, in the order in which they were seen.
        objects: The objects of quotas, queues and nodes that are there, by kind and key.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self.began = 0.0
        self.until = 0.0
        self.gaps: list[tuple[float, float]] = []
        self.jobs: dict[str, JobStory] = {}
        self.objects: dict[tuple[str, str], ObjectSeen] = {}

    def take(self, line: Line) -> None:
        """Take the next line."""
        match line:
            case Header():
                self._begin(line)
            case ObjectSeen(body=body):
                self.objects[key_of(body)] = line
            case ObjectGone(kind=kind, key=key):
                self.objects.pop((kind, key), None)
            case JobSeen(uid=uid):
                self.jobs.setdefault(uid, JobStory(seen=line, latest=line)).latest = line
            case JobStarted() | JobStopped() | JobEnded():
                self._take_news(line)
            case _:
                pass
        self.until = max(self.until, line.at)

    def _begin(self, header: Header) -> None:
        if self.header is None:
            self.began = header.at
        else:
            self.gaps.append((self.until, header.at))
        self.header = header

    def _take_news(self, line: JobStarted | JobStopped | JobEnded) -> None:
        job = self.jobs.get(line.uid)
        if job is None or job.ended is not None:
            return
        last = job.runs[-1] if job.runs else None
        is_running = last is not None and last.end is None
        match line:
            case JobStarted(at=at):
                if not is_running:
                    job.runs.append(Run(at))
            case JobStopped(at=at):
                if last is not None and is_running:
                    last.end = max(at, last.start)
            case JobEnded(at=at, outcome=outcome):
                job.ended, job.outcome = at, outcome
                if last is not None and is_running:
                    job.ended = last.end = max(at, last.start)


def read_story(lines: Iterable[Line]) -> Story:
    """Return what all these lines say."""
    story = Story()
    for line in lines:
        story.take(line)
    return story


def key_of(body: dict[str, object]) -> tuple[str, str]:
    """Return kind and key of an object as JSON values."""
    meta = body.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    namespace, name = str(meta.get("namespace", "")), str(meta.get("name", ""))
    return str(body.get("kind", "")), f"{namespace}/{name}" if namespace else name
