"""The jobs of a trace, and how its cells are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from math import isfinite
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from shared_api.quantity import QuantityError, amount

GPU: Final = "nvidia.com/gpu"
GPU_CORE: Final = "koordinator.sh/gpu-core"
"""Koordinator's name for shares of GPUs: 100 is one."""

T = TypeVar("T")


class TraceError(ValueError):
    """A file of a replay is wrong; the text says where, what, and where to look."""


class Job(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One job of a trace.

    Attributes:
        line: Where it stands in its file: a line, or of a JSON list the number of its entry.
        name: How the trace calls it; "": not at all.
        submit: When it was submitted, in seconds from the zero of the trace.
        run: How long it ran, in seconds.
        tenant: Its tenant: its quota, and its namespace if it names none.
        user: Who submitted it; "": not known.
        queue: Its queue; "": that of its quota.
        namespace: Its namespace; "": the tenant's.
        priority: Higher goes first.
        pods: How many pods it has.
        requests: What each pod requests, by resource.
        limit: The maximum execution time that it declares; None if it declares none.
        preemptible: Whether it may be evicted for others.
    """

    line: int
    name: str = ""
    submit: float
    run: float
    tenant: str = ""
    user: str = ""
    queue: str = ""
    namespace: str = ""
    priority: int = 0
    pods: int = 1
    requests: dict[str, str]
    limit: int | None = None
    preemptible: bool = True


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What was read.

    Attributes:
        jobs: In order of submission.
        skipped: How many rows are no jobs, by the reason.
        began: The trace's zero, if it says when that was.
    """

    jobs: tuple[Job, ...]
    skipped: Mapping[str, int]
    began: datetime | None = None


def tenants_as_users(trace: Trace) -> Trace:
    """Return a trace whose tenants are users, and whose jobs name no quota, queue or namespace."""
    jobs = (replace(job, user=job.tenant, tenant="", queue="", namespace="") for job in trace.jobs)
    return replace(trace, jobs=tuple(jobs))


class Gathered:
    """Collects the rows of a trace."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._skipped: Counter[str] = Counter()

    def add(self, job: Job) -> None:
        """Take a job."""
        self._jobs.append(job)

    def skip(self, why: str) -> None:
        """Count a row that is no job."""
        self._skipped[why] += 1

    def trace(self, began: datetime | None = None) -> Trace:
        """Return what was collected; of jobs submitted together the first in the file is first."""
        jobs = sorted(self._jobs, key=lambda job: job.submit)
        return Trace(jobs=tuple(jobs), skipped=dict(sorted(self._skipped.items())), began=began)


class Cells:
    """The cells of one row, read strictly.

    Args:
        place: The file and the line, for errors.
        look: Where the format is described, for errors.
        cells: The cells by column.
    """

    def __init__(self, place: str, look: str, cells: Mapping[str, str | None]) -> None:
        self._place = place
        self._look = look
        self._cells = cells

    def error(self, what: str) -> TraceError:
        """Return an error about this row."""
        return TraceError(f"{self._place}: {what}; {self._look}")

    @property
    def columns(self) -> Iterable[str]:
        """The names of the columns."""
        return self._cells

    def text(self, column: str) -> str:
        """Return a cell; "" if it is empty, or the column is missing."""
        return (self._cells.get(column) or "").strip()

    def seconds(self, column: str) -> float:
        """Return a cell that must be a number of seconds, 0 or more."""
        return self._parse(column, _read_seconds, "seconds, 0 or more")

    def count(self, column: str, default: int = 1) -> int:
        """Return a cell that must be a whole number above 0."""
        if not self.text(column):
            return default
        return self._parse(column, _read_count, "a whole number above 0")

    def whole(self, column: str, default: int = 0) -> int:
        """Return a cell that must be a whole number."""
        return self._parse(column, int, "a whole number") if self.text(column) else default

    def quantity(self, column: str) -> str:
        """Return a cell that must be an amount as Kubernetes writes it; "": none is requested."""
        text = self.text(column)
        try:
            if text and amount(column, text) < 0:
                raise self.error(f"{column} is {text!r}, want an amount that is not negative")
        except QuantityError as error:
            want = "an amount such as 4, 500m or 2Gi"
            raise self.error(f"{column} is {text!r}, want {want}") from error
        return text

    def _parse(self, column: str, parse: Callable[[str], T], want: str) -> T:
        text = self.text(column)
        try:
            return parse(text)
        except ValueError as error:
            raise self.error(f"{column} is {text!r}, want {want}") from error


def _read_seconds(text: str) -> float:
    number = float(text)
    if not isfinite(number) or number < 0:
        raise ValueError(text)
    return number


def _read_count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def gpu_requests(gpus: float) -> dict[str, str]:
    """Return what requests this many GPUs; a fraction is a share of one.

    Quotas of whole GPUs do not count shares; those of `GPU_CORE` count both.
    """
    if gpus <= 0:
        return {}
    share = {GPU_CORE: str(max(1, round(gpus * 100)))}
    return {GPU: str(int(gpus)), **share} if gpus == int(gpus) else share
