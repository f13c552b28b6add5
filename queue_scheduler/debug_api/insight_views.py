"""Answers about the insight program itself."""

from __future__ import annotations

from datetime import datetime

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
