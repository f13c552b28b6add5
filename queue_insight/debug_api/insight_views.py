"""Answers about the insight program itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from shared_api.debug_api.views import View


class RecordView(View):
    """What the insight program keeps on disk.

    `state` is `recording`, `off` (it has no folder to record into) or `stopped` (`reason` says why;
    answers about now are still given). `completeFrom`: everything since then is there.
    """

    state: str
    reason: str = ""
    complete_from: datetime | None = None


class InsightView(View):
    """How far the insight program is.

    `connected`: whether a scheduler is connected to it. `number`: calls of the scheduler's engine
    that its own has played, counted from the scheduler's start. `stateAt`: the time that its
    answers are about, `ageSeconds` ago.
    """

    connected: bool
    number: int
    state_at: datetime
    age_seconds: float
    following_since: datetime
    leader: bool
    record: RecordView


class FinishedRunsView(View):
    """The newest runs that have ended and are recorded, the oldest first, as `FinishedRun` is."""

    runs: list[dict[str, Any]]


class LogEntryView(View):
    """One decision: a unit was admitted, grew, has others evicted, or is refused for a new reason.

    `number` counts the calls of the scheduler's engine. `quota` is, of a refusal, the one whose
    limit it is. `unit` and `message` are "" if the caller may not read the unit's namespace;
    `others` counts the victims that are not named for that reason.
    """

    time: datetime
    number: int
    kind: str
    unit: str
    queue: str
    quota: str
    reason: str
    message: str
    victims: list[str]
    others: int = 0


class LogView(View):
    """A page of what was decided, the newest first; `cursor` asks for the next page."""

    items: list[LogEntryView]
    cursor: int | None = None


def log_without_others(view: LogView, may_read: Callable[[str], bool]) -> LogView:
    """Return a page that names no unit of a namespace that its reader may not read."""

    def is_open(unit: str) -> bool:
        return may_read(unit.partition("/")[0])

    def shown(entry: LogEntryView) -> LogEntryView:
        victims = [each for each in entry.victims if is_open(each)]
        changes: dict[str, object] = {
            "victims": victims,
            "others": len(entry.victims) - len(victims),
        }
        if not is_open(entry.unit):
            changes |= {"unit": "", "message": ""}
        return entry.model_copy(update=changes)

    return view.model_copy(update={"items": [shown(entry) for entry in view.items]})
