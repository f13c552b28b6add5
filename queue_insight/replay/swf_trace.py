"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, TextIO

from queue_insight.replay.csv_traces import NEVER_RAN
from queue_insight.replay.jobs import Cells, Gathered, Job, Trace, TraceError

FIELDS: Final = (
    *("number", "submit", "wait", "run", "processors", "cpu_time", "memory"),
    *("requested_processors", "requested_time", "requested_memory", "status", "user", "group"),
    *("executable", "queue", "partition", "preceding", "think_time"),
)
"""In the order of the format's definition; -1: not known."""

KIB: Final = 1024
_BEGAN: Final = re.compile(r";\s*UnixStartTime:\s*([0-9]+)")


class SwfTrace:
    """Each processor is a pod of one core; the group is the tenant, or the user without one."""

    name = "swf"
    look = 'docs/replay.md has the fields that are read, under "swf"'

    def read(self, path: str, lines: TextIO) -> Trace:
        """Read a trace.

        Raises:
            TraceError: A line has not 18 numbers.
        """
        found = Gathered()
        began: datetime | None = None
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith(";"):
                if (said := _BEGAN.match(line.lstrip())) is not None:
                    began = datetime.fromtimestamp(int(said[1]), UTC)
            elif line.strip():
                self._read_line(f"{path}, line {number}", number, line.split(), found)
        return found.trace(began)

    def _read_line(self, place: str, number: int, parts: list[str], found: Gathered) -> None:
        if len(parts) != len(FIELDS):
            wrong = f"it has {len(parts)} fields, want {len(FIELDS)}"
            raise TraceError(f"{place}: {wrong}; {self.look}")
        known = {name: text for name, text in zip(FIELDS, parts, strict=True) if text != "-1"}
        cells = Cells(place, self.look, known)
        processors = cells.whole("requested_processors") or cells.whole("processors")
        if not cells.text("run") or processors < 1:
            found.skip(NEVER_RAN if processors > 0 else "it asks for no processor")
            return
        memory = cells.whole("requested_memory")
        group, user = cells.text("group"), cells.text("user")
        found.add(
            Job(
                line=number,
                name=cells.text("number"),
                submit=cells.seconds("submit"),
                run=cells.seconds("run"),
                tenant=f"group-{group}" if group else f"user-{user}" if user else "",
                user=f"user-{user}" if user else "",
                pods=processors,
                requests={"cpu": "1"} | ({"memory": str(memory * KIB)} if memory > 0 else {}),
                limit=cells.whole("requested_time") or None,
            )
        )
