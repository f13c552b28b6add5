"""What the record knows of a unit that does not exist, or that the queue does not know."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from queue_insight.debug_api.insight_views import LogEntryView
from queue_insight.insight.finished_run import FinishedRun
from shared_api.debug_api.views import View


class RunView(View):
    """A run of a unit that has ended.

    `ended_by` is `finished`, `failed`, `evicted` or `deleted`. `started` is null if its pods never
    ran.
    """

    created: datetime
    started: datetime | None
    ended: datetime
    ended_by: str
    kind: str
    queue: str
    quota: str


class RememberedUnit(View):
    """What is recorded of a unit; `seen` is the last time, null: nothing is recorded of it."""

    seen: datetime | None
    run: RunView | None


def remember(
    log: Sequence[LogEntryView], run: FinishedRun | None, at: datetime | None
) -> RememberedUnit:
    """Return what is recorded of a unit.

    Args:
        log: The decisions about it, the newest first.
        run: Its last run that has ended; None: none has.
        at: The time that is asked about; None: now. What is later is left out.
    """
    shown = None if run is None else _show(run)
    if shown is not None and at is not None and shown.ended > at:
        shown = None
    times = [*(each.time for each in log[:1]), *([] if shown is None else [shown.ended])]
    return RememberedUnit(seen=max(times, default=None), run=shown)


def _show(run: FinishedRun) -> RunView:
    return RunView(
        created=_time(run.created),
        started=None if run.started is None else _time(run.started),
        ended=_time(run.ended),
        ended_by=run.ended_by,
        kind=run.kind,
        queue=run.queue,
        quota=run.quota,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
