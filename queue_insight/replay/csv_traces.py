"""Traces that are tables with a header line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TextIO

import msgspec

from queue_insight.replay.jobs import Cells, Gathered, Job, Trace, TraceError, gpu_requests

MIB: Final = 1024**2
NEVER_RAN: Final = "it never ran"

PRIORITIES: Final = {"Guaranteed": 9000, "LS": 9000, "Burstable": 7000, "BE": 5000}
"""Priorities of quality-of-service classes: the bands of Koordinator's prod, mid and batch."""

PLAIN: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
"""Resources whose names have no slash."""

OWN_COLUMNS: Final = frozenset(
    (
        *("limit_seconds", "name", "namespace", "pods", "preemptible", "priority"),
        *("queue", "quota", "run_seconds", "submit_seconds", "user"),
    )
)
"""The columns of the project's own format; every other column is a resource that each pod
requests."""

NORMALIZED_COLUMNS: Final = (
    *("submit_time_s", "duration_s", "tenant"),
    *("cpu_milli", "memory_bytes", "gpu"),
)
OPENB_COLUMNS: Final = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos"),
    *("creation_time", "deletion_time", "scheduled_time"),
)
"""Columns that must be there."""


class CsvForm(msgspec.Struct, frozen=True, kw_only=True):
    """One form of table: what its columns must be, and what a row says about a job."""

    name: str
    """The form's name on the command line."""
    mark: str
    """A column that no other form has."""
    look: str
    """Where the form is described, for errors."""
    check_columns: Callable[[Sequence[str]], str]
    """Returns what is wrong with the columns; "": nothing."""
    read_row: Callable[[int, Cells, Gathered], None]
    """Takes the line number and the cells of a row."""

    def read(self, path: str, lines: TextIO) -> Trace:
        """Read a trace.

        Args:
            path: For errors.
            lines: The file, with its header line.

        Raises:
            TraceError: The header or a row is wrong.
        """
        rows = _numbered(path, lines, self.look)
        gathered = Gathered()
        columns = [name.strip() for name in next(rows, (1, []))[1]]
        wrong = self.check_columns(columns) or _find_twin(columns)
        if wrong:
            raise TraceError(f"{path}, line 1: {wrong}; {self.look}")
        for number, row in rows:
            place = f"{path}, line {number}"
            if len(row) != len(columns):
                wrong = f"it has {len(row)} cells, and the header line has {len(columns)}"
                raise TraceError(f"{place}: {wrong}; {self.look}")
            cells = Cells(place, self.look, dict(zip(columns, row, strict=True)))
            self.read_row(number, cells, gathered)
        return gathered.trace()


def _numbered(path: str, lines: TextIO, look: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its last line."""
    rows = csv.reader(lines, strict=True)
    try:
        for row in rows:
            if row:
                yield rows.line_num, row
    except csv.Error as error:
        raise TraceError(f"{path}, line {rows.line_num}: {error}; {look}") from error


def _find_twin(columns: Sequence[str]) -> str:
    twins = sorted({name for name in columns if columns.count(name) > 1})
    return f"column {twins[0]!r} stands there twice" if twins else ""


def _find_missing(columns: Sequence[str], wanted: Sequence[str]) -> str:
    missing = [name for name in wanted if name not in columns]
    return f"it has no column {', '.join(missing)}" if missing else ""


def _check_own_columns(columns: Sequence[str]) -> str:
    for name in columns:
        if name not in OWN_COLUMNS and name not in PLAIN and "/" not in name:
            return f"column {name!r} is neither known nor a resource"
    missing = _find_missing(columns, ("submit_seconds", "run_seconds"))
    has_resource = any(name not in OWN_COLUMNS for name in columns)
    return missing or ("" if has_resource else "it has no column of a resource, such as cpu")


def _read_own_row(number: int, cells: Cells, gathered: Gathered) -> None:
    if not cells.text("run_seconds"):
        gathered.skip(NEVER_RAN)
        return
    preemptible = cells.text("preemptible") or "true"
    if preemptible not in ("true", "false"):
        raise cells.error(f"preemptible is {preemptible!r}, want true or false")
    resources = (name for name in cells.columns if name not in OWN_COLUMNS)
    gathered.add(
        Job(
            line=number,
            name=cells.text("name"),
            submit=cells.seconds("submit_seconds"),
            run=cells.seconds("run_seconds"),
            tenant=cells.text("quota"),
            user=cells.text("user"),
            queue=cells.text("queue"),
            namespace=cells.text("namespace"),
            priority=cells.whole("priority"),
            pods=cells.count("pods"),
            requests={name: text for name in resources if (text := cells.quantity(name))},
            limit=cells.count("limit_seconds") if cells.text("limit_seconds") else None,
            preemptible=preemptible == "true",
        )
    )


def _read_normalized_row(number: int, cells: Cells, gathered: Gathered) -> None:
    if not cells.text("duration_s"):
        gathered.skip(NEVER_RAN)
        return
    requests = _requests(cells, memory="memory_bytes", in_bytes=1)
    gathered.add(
        Job(
            line=number,
            submit=cells.seconds("submit_time_s"),
            run=cells.seconds("duration_s"),
            tenant=cells.text("tenant"),
            user=cells.text("user"),
            priority=read_priority(cells, "priority"),
            pods=cells.count("replicas"),
            requests=requests | gpu_requests(_number(cells, "gpu")),
        )
    )


def _read_openb_row(number: int, cells: Cells, gathered: Gathered) -> None:
    if not cells.text("scheduled_time"):
        gathered.skip(NEVER_RAN)
        return
    if not cells.text("deletion_time"):
        gathered.skip("its end is not known")
        return
    run = cells.seconds("deletion_time") - cells.seconds("scheduled_time")
    if run < 0:
        raise cells.error("deletion_time is before scheduled_time")
    gpus = _number(cells, "num_gpu")
    requests = _requests(cells, memory="memory_mib", in_bytes=MIB)
    gathered.add(
        Job(
            line=number,
            name=cells.text("name"),
            submit=cells.seconds("creation_time"),
            run=run,
            priority=read_priority(cells, "qos"),
            requests=requests
            | gpu_requests(_number(cells, "gpu_milli") / 1000 if gpus == 1 else gpus),
        )
    )


def _requests(cells: Cells, *, memory: str, in_bytes: int) -> dict[str, str]:
    """Return the requests for CPU and memory of one pod."""
    cpu, size = _number(cells, "cpu_milli"), _number(cells, memory)
    requests = {"cpu": f"{int(cpu)}m", "memory": str(int(size * in_bytes))}
    return {name: text for name, text in requests.items() if text not in ("0", "0m")}


def _number(cells: Cells, column: str) -> float:
    return cells.seconds(column) if cells.text(column) else 0.0


def read_priority(cells: Cells, column: str) -> int:
    """Return a priority that is a number, or the name of a class.

    Raises:
        TraceError: It is neither.
    """
    text = cells.text(column)
    known = PRIORITIES.get(text)
    if known is not None or not text:
        return known or 0
    try:
        return int(text)
    except ValueError:
        names = ", ".join(PRIORITIES)
        raise cells.error(f"{column} is {text!r}, want a number or one of {names}") from None


OWN: Final = CsvForm(
    name="koord-queue",
    mark="submit_seconds",
    look="docs/replay.md has the columns",
    check_columns=_check_own_columns,
    read_row=_read_own_row,
)
"""The project's own form."""

NORMALIZED: Final = CsvForm(
    name="normalized",
    mark="submit_time_s",
    look='docs/replay.md has the columns, under "normalized"',
    check_columns=partial(_find_missing, wanted=NORMALIZED_COLUMNS),
    read_row=_read_normalized_row,
)
"""Public traces in one form."""

OPENB: Final = CsvForm(
    name="openb",
    mark="gpu_milli",
    look='docs/replay.md has the columns, under "openb"',
    check_columns=partial(_find_missing, wanted=OPENB_COLUMNS),
    read_row=_read_openb_row,
)
"""The list of pods of Alibaba's OpenB cluster: each pod is a job, and names no tenant."""
