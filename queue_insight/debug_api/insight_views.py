"""Answers about the insight program itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from queue_scheduler.debug_api.hiding import OfUnit, Owner, Sentence
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


def _message_of(entry: LogEntryView) -> str:
    """Return the message of a decision; "" if its unit is hidden."""
    return entry.message if entry.unit else ""


class LogEntryView(View):
    """One decision: a unit was admitted, grew, has others evicted, or is refused for a new reason.

    `number` counts the calls of the scheduler's engine. `quota` is, of a refusal, the one whose
    limit it is. `unit` and `message` are "" if the caller may not read the unit's namespace;
    `others` counts the victims that are not named for that reason.
    """

    time: datetime
    number: int
    kind: str
    unit: Annotated[str, Owner(stays=True)]
    queue: str
    quota: str
    reason: str
    message: Annotated[str, Sentence(_message_of)]
    victims: Annotated[list[str], OfUnit(counted="others")]
    others: int = 0


class LogView(View):
    """A page of what was decided, the newest first; `cursor` asks for the next page."""

    items: list[LogEntryView]
    cursor: int | None = None
