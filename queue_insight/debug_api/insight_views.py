"""Answers about the insight program itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from queue_scheduler.debug_api.hiding import OF_OTHERS, OfUnit, Owner, Sentence
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.refusal_texts import NAMES_UNIT, full_message
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
    """Return the message of a decision; it is made anew if the unit that it names is hidden."""
    if not entry.unit:
        return ""
    if entry.other or entry.reason not in NAMES_UNIT:
        return entry.message
    refusal = Refusal(reason=Reason(entry.reason), quota=entry.quota, other=OF_OTHERS)
    return full_message(refusal)


class LogEntryView(View):
    """One decision: a unit was admitted, grew, has others evicted, or is refused for a new reason.

    `number` counts the calls of the scheduler's engine. `quota` is, of a refusal, the one whose
    limit it is. `other` is the unit that the message names, for example the one ahead. `unit` and
    `message` are "" if the caller may not read the unit's namespace; `others` counts the victims
    that are not named for that reason.
    """

    time: datetime
    number: int
    kind: str
    unit: Annotated[str, Owner(stays=True)]
    queue: str
    quota: str
    reason: str
    message: Annotated[str, Sentence(_message_of)]
    other: Annotated[str, OfUnit()] = ""
    victims: Annotated[list[str], OfUnit(counted="others")]
    others: int = 0


class LogView(View):
    """A page of what was decided, the newest first; `cursor` asks for the next page."""

    items: list[LogEntryView]
    cursor: int | None = None
