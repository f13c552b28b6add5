"""The job log of Microsoft's Philly clusters: a JSON list of jobs with their attempts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TextIO

import msgspec

from queue_insight.replay.csv_traces import NEVER_RAN
from queue_insight.replay.jobs import Gathered, Job, Trace, TraceError, gpu_requests


class Machine(msgspec.Struct, frozen=True):
    """The GPUs of one machine in an attempt."""

    gpus: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job."""

    start_time: str | None = None
    end_time: str | None = None
    detail: tuple[Machine, ...] = ()


class LoggedJob(msgspec.Struct, frozen=True):
    """One entry of the list."""

    submitted_time: str | None
    vc: str
    jobid: str = ""
    user: str = ""
    attempts: tuple[Attempt, ...] = ()


class PhillyTrace:
    """The virtual cluster is the tenant; the attempts of a job count as one run, one by one."""

    name = "philly"
    look = 'docs/replay.md has the fields that are read, under "philly"'

    def read(self, path: str, lines: TextIO) -> Trace:
        """Read a trace.

        Raises:
            TraceError: It is not such a list, or a time cannot be read.
        """
        try:
            entries = msgspec.json.decode(lines.read(), type=list[LoggedJob])
        except msgspec.DecodeError as error:
            raise TraceError(f"{path}: {error}; {self.look}") from error
        found = Gathered()
        submitted: list[tuple[int, datetime, LoggedJob]] = []
        for number, entry in enumerate(entries, 1):
            at = self._time(path, number, "submitted_time", entry.submitted_time)
            if at is None:
                found.skip("it has no time of submission")
            else:
                submitted.append((number, at, entry))
        began = min((at for _, at, _ in submitted), default=None)
        for number, at, entry in submitted:
            assert began is not None, "there is a first one"
            self._take(path, number, (at - began).total_seconds(), entry, found)
        return found.trace(began)

    def _take(
        self, path: str, number: int, submit: float, entry: LoggedJob, found: Gathered
    ) -> None:
        machines = [len(each.gpus) for attempt in entry.attempts[:1] for each in attempt.detail]
        if not any(machines):
            found.skip(NEVER_RAN)
            return
        run, is_open = 0.0, False
        for attempt in entry.attempts:
            start = self._time(path, number, "start_time", attempt.start_time)
            end = self._time(path, number, "end_time", attempt.end_time)
            if start is None or end is None:
                is_open = True
            else:
                run += max(0.0, (end - start).total_seconds())
        if is_open:
            found.skip("its end is not known")
            return
        is_even = len(set(machines)) == 1
        found.add(
            Job(
                line=number,
                name=entry.jobid,
                submit=submit,
                run=run,
                tenant=entry.vc,
                user=entry.user,
                pods=len(machines) if is_even else 1,
                requests=gpu_requests(machines[0] if is_even else sum(machines)),
            )
        )

    def _time(self, path: str, number: int, field: str, text: str | None) -> datetime | None:
        if text in (None, "", "None"):
            return None
        try:
            return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError as error:
            want = "want a time such as 2017-10-09 07:02:29"
            place = f"{path}, entry {number}"
            raise TraceError(f"{place}: {field} is {text!r}, {want}; {self.look}") from error
