"""Queue units as rows of a table: from the object, and from what is known of its wait. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from koord_queue.answers.pending import Pending
from koord_queue.show.times import ago, until
from shared_api.lifecycle import LifecycleState, lifecycle_state
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase, is_final
from shared_api.submitters import submitter_name
from shared_api.well_known_labels import read_quota_name

COLUMNS: Final = ("NAME", "JOB", "QUEUE", "STATE", "POS", "STARTS", "AGE", "REASON")
WIDE_COLUMNS: Final = (
    *COLUMNS[:-1],
    "PHASE",
    "PRIORITY",
    "QUOTA",
    "USER",
    "REASON",
    "MESSAGE",
)
_QUOTA_RESERVED: Final = "QuotaReserved"
_RESULTS: Final[Mapping[str, str]] = {Phase.SUCCEED: "Succeeded", Phase.FAILED: "Failed"}
"""The reason of what has finished: how."""
_BACKOFF: Final = "Backoff"
"""The reason of a unit that waits until it may be tried again, unless it has another."""
STYLES: Final = {
    LifecycleState.RUNNING.cell: "good",
    LifecycleState.ON_HOLD.cell: "warn",
    "Succeeded": "dim",
    "Failed": "bad",
}
"""How a state or a result looks on a terminal."""
ORDER: Final = tuple(
    state.cell
    for state in (
        LifecycleState.RUNNING,
        LifecycleState.STARTING,
        LifecycleState.RESERVED,
        LifecycleState.WAITING,
        LifecycleState.ON_HOLD,
        LifecycleState.FINISHED,
    )
)
"""What has started, then what waits, in its order; what has ended comes last."""
_WAITS: Final = frozenset({LifecycleState.WAITING.cell, LifecycleState.ON_HOLD.cell})


class UnitRow(NamedTuple):
    """A unit, and what is known of its wait.

    Attributes:
        unit: The object.
        pending: Where it waits; None if it does not, or that is not known.
    """

    unit: QueueUnit
    pending: Pending | None = None

    @property
    def state(self) -> str:
        """Where it stands, as one word; a phase that is unknown here is its own."""
        is_in_queue = self.pending is None or bool(self.pending.position)
        phase = self.unit.status.phase
        state = lifecycle_state(phase, is_in_queue=is_in_queue)
        return phase if state is None else state.cell

    @property
    def has_ended(self) -> bool:
        """Whether its job has ended."""
        return is_final(self.unit)

    @property
    def position(self) -> int:
        """Its place in its queue; 0: it has none, or that is not known."""
        return self.pending.position if self.pending is not None else 0

    @property
    def reason(self) -> str:
        """Why it waits, or how it ended, as one word; "" if neither, or if that is not written."""
        phase = self.unit.status.phase
        if result := _RESULTS.get(phase):
            return result
        if self.pending is not None and self.pending.reason:
            return self.pending.reason
        condition = self._refusal
        if condition is not None:
            return condition.reason
        return _BACKOFF if phase == Phase.TIMEOUT_BACKOFF else ""

    @property
    def message(self) -> str:
        """Why it waits, in words."""
        if self.pending is not None and self.pending.message:
            return self.pending.message
        condition = self._refusal
        return condition.message if condition is not None else ""

    @property
    def _refusal(self) -> Condition | None:
        if self.state not in _WAITS:
            return None
        found = find_condition(self.unit.status.conditions, _QUOTA_RESERVED)
        return found if found is not None and found.status == "False" else None

    def _start(self, now: datetime) -> str:
        """Return how long it is until it starts, or why that is not told; "": not known."""
        if self.pending is None:
            return ""
        return until(self.pending.start, now) if self.pending.start else self.pending.no_start

    def cells(self, now: datetime, *, is_wide: bool) -> list[str]:
        """Return its cells, for `COLUMNS` or `WIDE_COLUMNS`."""
        unit = self.unit
        job = unit.spec.consumer_ref
        cells = [
            unit.metadata.name,
            f"{job.kind.lower()}/{job.name}" if job is not None and job.name else "",
            unit.spec.queue or (self.pending.queue if self.pending is not None else ""),
            self.state,
            str(self.position or ""),
            self._start(now),
            ago(unit.metadata.creation_timestamp, now),
        ]
        if not is_wide:
            return [*cells, self.reason]
        labels = unit.metadata.labels
        more = [
            unit.status.phase,
            str(unit.spec.priority),
            read_quota_name(labels) or "",
            submitter_name(labels, unit.metadata.annotations),
        ]
        return [*cells, *more, self.reason, self.message]


def sort_rows(rows: Iterable[UnitRow], by: str) -> list[UnitRow]:
    """Return rows in order.

    Args:
        rows: Any.
        by: `queue` (what goes on, then what waits in the order of its queue), `age` (the oldest
            first), `priority` (the highest first), `start` (the soonest first) or `name`.
    """
    return sorted(rows, key=_KEYS[by])


def _by_queue(row: UnitRow) -> tuple[object, ...]:
    state = row.state
    place = ORDER.index(state) if state in ORDER else len(ORDER)
    queue = row.unit.spec.queue if state in _WAITS else ""
    return (place, queue, row.position, *_by_age(row))


def _by_age(row: UnitRow) -> tuple[object, ...]:
    meta = row.unit.metadata
    return (meta.creation_timestamp, meta.namespace, meta.name)


def _by_start(row: UnitRow) -> tuple[object, ...]:
    start = row.pending.start if row.pending is not None else ""
    return (not start, start, *_by_queue(row))


QUEUE: Final = "queue"
_KEYS: Final = {
    QUEUE: _by_queue,
    "age": _by_age,
    "priority": lambda row: (-row.unit.spec.priority, *_by_age(row)),
    "start": _by_start,
    "name": lambda row: (row.unit.metadata.namespace, row.unit.metadata.name),
}
ORDERS: Final = tuple(_KEYS)
BY_PLACE: Final = frozenset({QUEUE, "start"})
"""Orders for which it has to be known where units wait."""


def table_of(
    rows: Sequence[UnitRow], now: datetime, *, is_wide: bool, has_namespaces: bool
) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells."""
    columns = list(WIDE_COLUMNS if is_wide else COLUMNS)
    cells = [row.cells(now, is_wide=is_wide) for row in rows]
    if has_namespaces:
        columns = ["NAMESPACE", *columns]
        cells = [
            [row.unit.metadata.namespace, *each] for row, each in zip(rows, cells, strict=True)
        ]
    return columns, cells
