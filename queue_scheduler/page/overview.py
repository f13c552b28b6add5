"""The first view: what is wrong now, the queues, and the quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Literal

from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.insight_views import InsightView
from queue_scheduler.page.hidden_sums import QuotaNode, show_trees
from queue_scheduler.page.known_state import KnownState, Waiting
from queue_scheduler.page.visitors import Visitor
from shared_api.debug_api.views import View
from shared_api.timestamps import read_time

Severity = Literal["error", "warning"]


class PageProblem(View):
    """Something that is wrong: of what kind of object, in words, and what to do next."""

    severity: Severity
    kind: str
    name: str
    message: str
    next: str = ""


class QueueRow(views.QueueView):
    """One queue.

    `oldest_seconds` is how long the oldest of its pending units that the visitor may read has
    waited; null: there is none. `head` and `last_refusal` are null if they are about units that it
    may not read. `admissions_per_hour` is that of the last hour, or of the time since the insight
    program follows the scheduler; null: of another time, or before a minute has passed.
    """

    oldest_seconds: float | None = None
    admissions_per_hour: float | None = None


class RecordSpan(View):
    """What is recorded: whether recording goes on, from when to when; null: nothing is there."""

    on: bool
    from_: datetime | None
    to: datetime | None
    reason: str = ""


class ForecastAge(View):
    """How old the last forecast is."""

    age_seconds: float


class Overview(View):
    """What is wrong now, queues by name, and the quota trees.

    `record` is null where nothing is recorded, `forecast` where there is none yet.
    """

    leader: bool
    state_at: datetime
    problems: list[PageProblem]
    queues: list[QueueRow]
    quotas: list[QuotaNode]
    record: RecordSpan | None
    forecast: ForecastAge | None


def show_overview(
    state: KnownState,
    insight: InsightView,
    forecast_age: float | None,
    visitor: Visitor,
    now: datetime,
    rate_of: Callable[[str], float | None],
) -> Overview:
    """Return the first view, as a visitor may see it.

    Args:
        state: What is known.
        insight: How far the program is.
        forecast_age: How old the last forecast is, in seconds; None: there is none.
        visitor: Who is shown it.
        now: The time, for how long units have waited.
        rate_of: Returns how many units of a queue are admitted in an hour.
    """
    queues = [
        show_queue(each, state.waiting, visitor, now, rate_of(each.name)) for each in state.queues
    ]
    quotas = show_trees(state.trees, state.users, visitor)
    found = [
        *_problems_of_program(insight),
        *(problem for queue in queues for problem in _problems_of_queue(queue)),
        *(problem for quota in quotas for problem in _problems_of_quota(quota)),
    ]
    return Overview(
        leader=state.leader,
        state_at=state.state_at,
        problems=sorted(found, key=lambda problem: problem.severity),
        queues=queues,
        quotas=quotas,
        record=_show_record(insight),
        forecast=None if forecast_age is None else ForecastAge(age_seconds=forecast_age),
    )


def show_queue(
    queue: views.QueueView,
    waiting: dict[str, dict[str, Waiting]],
    visitor: Visitor,
    now: datetime,
    rate: float | None,
) -> QueueRow:
    """Return one queue, as a visitor may see it.

    The last refusal may be of any of its units, and has what that requests: it is shown to those
    who may read all, and else that of the head, if they may read it.
    """
    found = waiting.get(queue.name, {})
    readable = [each.oldest for space, each in found.items() if visitor.may_read(space)]
    fields: dict[str, Any] = {
        **dict(queue),
        "oldest_seconds": _age(readable, now),
        "admissions_per_hour": rate,
    }
    if not visitor.reads_all:
        shown = views.queue_without_others(queue, visitor.may_read)
        head = shown.head
        fields |= {"head": head, "last_refusal": None if head is None else head.refusal}
    return QueueRow(**fields)


def _age(created: list[str], now: datetime) -> float | None:
    oldest = min(filter(None, created), default="")
    at = read_time(oldest)
    return None if at is None else max(0.0, (now - at).total_seconds())


def _show_record(insight: InsightView) -> RecordSpan | None:
    record = insight.record
    if record.state == "off":
        return None
    return RecordSpan(
        on=record.state == "recording",
        from_=record.complete_from,
        to=insight.state_at if record.complete_from is not None else None,
        reason=record.reason,
    )


def _problems_of_program(insight: InsightView) -> Iterator[PageProblem]:
    if not insight.connected:
        yield PageProblem(
            severity="error",
            kind="Program",
            name="koord-queue-scheduler",
            message="The scheduler is not connected: what is shown here does not change.",
            next="Look at the log of the scheduler's container.",
        )
    if insight.record.state == "stopped":
        yield PageProblem(
            severity="error",
            kind="Program",
            name="koord-queue-insight",
            message=f"Nothing is recorded now: {insight.record.reason}",
            next="Look at the volume of the record; recording is tried again.",
        )


def _problems_of_queue(queue: QueueRow) -> Iterator[PageProblem]:
    for text in queue.problems:
        yield PageProblem(
            severity="error",
            kind="Queue",
            name=queue.name,
            message=text,
            next="Correct the annotations of the queue, or of its ElasticQuota if that has them.",
        )
    if queue.stop_policy != "None" and queue.pending:
        yield PageProblem(
            severity="warning",
            kind="Queue",
            name=queue.name,
            message=f"The queue is stopped ({queue.stop_policy}), and {queue.pending} wait in it.",
            next=f"Let units start: koord-queue resume {queue.name}",
        )


def _problems_of_quota(quota: QuotaNode) -> Iterator[PageProblem]:
    for text in quota.problems:
        yield PageProblem(
            severity="warning" if quota.usable else "error",
            kind="ElasticQuota",
            name=quota.name,
            message=text,
            next="" if quota.usable else "No unit of it starts until the quota is corrected.",
        )
    for child in quota.children:
        yield from _problems_of_quota(child)
