"""The first view: what is wrong now, the queues, and the quotas."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from queue_insight.debug_api.insight_views import InsightView
from queue_insight.page.hidden_sums import QuotaNode, show_trees
from queue_insight.page.known_state import KnownState, Waiting
from queue_insight.page.units_to_act_on import UnitGroup, find_long_without_pods
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.hiding import OfUnit, hide
from queue_scheduler.decision import Reason
from shared_api.debug_api.views import View
from shared_api.submitters import NAMES_NOT_PROVED
from shared_api.timestamps import read_time
from shared_api.unit_problems import explain_command, without_pods_text

MAX_NAMED: Final = 5
"""Units that a problem names: as many as fit on a line or two."""

Severity = Literal["error", "warning"]


class PageProblem(View):
    """Something that is wrong: of what kind of object, in words, and what to do next.

    `command` is what to type for that, if there is such a command.

    Of units that need a user `kind` is `Units`, and `name` is their reason; `units` are the first
    of those that the visitor may read, `namespace/name`, and `more_units` counts the rest of these.
    Of a plugin that does not show its quotas `kind` and `name` are `Quotas` and `of a plugin`, of
    what QuotaPolicies need `Limits` and `and shares`.
    """

    severity: Severity
    kind: str
    name: str
    message: str
    next: str = ""
    command: str = ""
    units: Annotated[list[str], OfUnit()] = Field(default_factory=list)
    more_units: int = 0


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

    `unqueued` counts the pending units in no queue that the visitor may read. `record` is null
    where nothing is recorded, `forecast` where there is none yet, or of an earlier time.
    """

    leader: bool
    state_at: datetime
    problems: list[PageProblem]
    queues: list[QueueRow]
    unqueued: int
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
    *,
    is_of_now: bool = True,
) -> Overview:
    """Return the first view, as a visitor may see it.

    Args:
        state: What is known.
        insight: How far the program is.
        forecast_age: How old the last forecast is, in seconds; None if there is none.
        visitor: Who is shown it.
        now: The time, for how long units have waited.
        rate_of: Returns how many units of a queue are admitted in an hour.
        is_of_now: Whether the state is that of now: what is wrong with the programs is about now.
    """
    queues = [
        show_queue(each, state.units.waiting, visitor, now, rate_of(each.name))
        for each in state.queues
    ]
    quotas = show_trees(state.trees, state.units.users, visitor)
    groups = (*state.units.to_act, *find_long_without_pods(state.units.not_running, now))
    found = [
        *(_problems_of_program(insight) if is_of_now else ()),
        *(problem for group in groups for problem in _problems_of_units(group, visitor)),
        *(problem for queue in queues for problem in _problems_of_queue(queue)),
        *map(_problem_of_plugin, state.missing_quotas),
        *map(_problem_of_policy, state.policy_problems),
        *map(_problem_of_reservation, state.reservation_problems),
        *(problem for quota in quotas for problem in _problems_of_quota(quota)),
    ]
    return Overview(
        leader=state.leader,
        state_at=state.state_at,
        problems=sorted(found, key=lambda problem: problem.severity),
        queues=queues,
        unqueued=sum(visitor.may_read(key.partition("/")[0]) for key in state.units.unqueued),
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
        head = hide(queue, visitor.may_read).head
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


def _problems_of_units(group: UnitGroup, visitor: Visitor) -> Iterator[PageProblem]:
    """Yield what is wrong with units that the visitor may read.

    Those of a stopped queue are counted where the queue is said to be stopped.
    """
    keys = [key for key in group.keys if visitor.may_read(key.partition("/")[0])]
    if not keys or group.reason == Reason.STOPPED_QUEUE.value:
        return
    if group.is_admitted:
        units = "1 unit is" if len(keys) == 1 else f"{len(keys)} units are"
        message = f"{units} {without_pods_text(group.reason)}."
        namespace, _, name = keys[0].partition("/")
        next_step = "To look at the first one:"
        command = f"kubectl -n {namespace} describe queueunit {name}"
    else:
        message = "1 unit waits" if len(keys) == 1 else f"{len(keys)} units wait"
        message += " until a user acts."
        next_step = "To see why the first one waits:"
        command = explain_command(keys[0])
    yield PageProblem(
        severity="warning",
        kind="Units",
        name=group.reason,
        message=message,
        next=next_step,
        command=command,
        units=keys[:MAX_NAMED],
        more_units=max(0, len(keys) - MAX_NAMED),
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
            next="To let its units start:",
            command=f"koord-queue resume {shlex.quote(queue.name)}",
        )


def _problem_of_plugin(text: str) -> PageProblem:
    return PageProblem(
        severity="warning",
        kind="Quotas",
        name="of a plugin",
        message=text,
        next="Its quotas are not shown here. Implement what is missing in the plugin.",
    )


_NEXT_FOR_POLICIES: Final = {
    views.POLICIES_NOT_SERVED: "Install the CRD quotapolicies.scheduling.x-k8s.io.",
    NAMES_NOT_PROVED: "Set admissionPolicy.users in the values of the chart.",
}


def _problem_of_policy(text: str) -> PageProblem:
    return PageProblem(
        severity="warning",
        kind="Limits",
        name="and shares",
        message=text,
        next=_NEXT_FOR_POLICIES.get(text, "Correct the policy."),
    )


def _problem_of_reservation(text: str) -> PageProblem:
    is_missing = text == views.RESERVATIONS_NOT_SERVED
    install = "Install the CRD queuereservations.scheduling.x-k8s.io."
    return PageProblem(
        severity="warning",
        kind="QueueReservation",
        name="windows",
        message=text,
        next=install if is_missing else "Correct the reservation.",
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
