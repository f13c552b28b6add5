"""`GET /debug/report`: who used how much over a time.

Sums of hours are in the record of the insight program. It is asked twice: first whose use there is
in that time, so that the caller's rights to these namespaces are reviewed here; then for the report
as that caller may see it. Without a record the ledger knows totals, and the report is made of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple, Protocol, TypeVar, cast

import msgspec
from fastapi import FastAPI, Query, Request
from pydantic import AwareDatetime

from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.question_caller import caller_of
from queue_insight.debug_api.report_views import (
    FIELDS,
    OTHER_ROWS,
    QUOTAS,
    Names,
    ReportHead,
    ReportSums,
    ReportView,
    largest_rows,
    resources_of,
    with_budgets,
)
from queue_insight.record.samples import DAY, HOUR
from queue_insight.record.use_sums import UseBlock, UseKey, UseRow
from queue_insight.record.use_tables import TimedBlock, UseReach
from queue_scheduler.debug_api.account_views import use_of
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE, Limit, Offset
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.tenants.ledger import Ledger
from shared_api.debug_api.access import EVERYWHERE, MayRead, may_read_for
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.json_body import JSON, PostedBody
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import View
from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.process.clock import Clock
from shared_api.question_errors import Code, QuestionError
from shared_api.resource_list import Amounts, add, subtract
from shared_api.timestamps import rfc3339

FoundT = TypeVar("FoundT")

PATH: Final = "/debug/report"
RECORDED: Final = "/debug/recorded-report"
NAMESPACES: Final = "/debug/recorded-report/namespaces"
"""Routes of the insight program that only the scheduler requests."""

USUAL_SECONDS: Final = 30 * DAY
"""How far back a report goes by default."""
MAX_ROWS: Final = 3_000_000
"""Rows of blocks that one report reads: some five seconds. 10,000 accounts have 300,000 in 30 days,
and as many again in each day that is read by hours."""
MAX_KEPT: Final = 8
KEPT_SECONDS: Final = 60.0
"""How many reports are kept for their next pages, and for how long."""

NO_RECORD: Final = (
    "no hours are recorded, so these are the totals of the ledger: the insight program and its"
    " record keep hours (the chart's insight.enabled and insight.record.enabled)"
)

_FIELD: Final = f"({'|'.join(FIELDS)})"
By = Annotated[
    str,
    Query(
        max_length=64,
        pattern=f"^{_FIELD}(,{_FIELD})*$",
        description=f"what rows are, with commas: {', '.join(FIELDS)}",
    ),
]
From = Annotated[
    AwareDatetime | None,
    Query(alias="from", description="since then (RFC 3339), by hours; default: 30 days before"),
]
Namespace = Annotated[
    str, Query(max_length=SUBDOMAIN_LENGTH, description="of this namespace alone")
]
To = Annotated[
    AwareDatetime | None, Query(alias="to", description="until then (RFC 3339); default: now")
]


class UseRecord(Protocol):
    """Reads the sums of hours that are recorded."""

    def namespaces(self, start: int, end: int, now: int) -> list[str]:
        """Return the namespaces that have use in a time.

        Raises:
            NoStateError: The record cannot be read.
        """

    def visit(self, start: int, end: int, now: int, take: Callable[[TimedBlock], None]) -> UseReach:
        """Call `take` with each block of a time; return the time that the blocks cover.

        Raises:
            NoStateError: The record cannot be read.
        """


class ReportQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a report is asked for.

    Attributes:
        start: Since when, in seconds since the epoch.
        end: Until when.
        by: The fields of its rows.
        readable: The namespaces that the reader may read; None: all.
        offset: Rows to leave out.
        limit: Rows at most.
        namespace: The only one that it is about; "": all.
    """

    start: int
    end: int
    by: tuple[str, ...]
    readable: tuple[str, ...] | None = None
    namespace: str = ""
    offset: int = 0
    limit: int = DEFAULT_PAGE


class NamespacesView(View):
    """Whose use is recorded in a time; null: nothing is recorded."""

    namespaces: list[str] | None


class FoundSums(NamedTuple):
    """The sums, and the time that they cover."""

    sums: ReportSums
    reach: UseReach


class Steps(NamedTuple):
    """How the use of the largest rows is divided.

    Attributes:
        seconds: How long each step is.
        resource: The resource; if it was not used, the first in the order of `resources_of`.
        most: How many rows have numbers of their own.
    """

    seconds: int
    resource: str
    most: int


class Divided(NamedTuple):
    """A report, and the use of a resource in steps of time.

    Attributes:
        found: The report.
        resources: Those that were used, in the order of `resources_of`.
        resource: The one that is divided; "": nothing was used.
        used: By the names of the largest rows, the largest first, and by `()` of all others
            together: what was used in each step, in base units times seconds.
    """

    found: FoundSums
    resources: list[str]
    resource: str
    used: dict[Names, list[int]]


class Reports:
    """Makes reports of the record; callable from any thread.

    Args:
        record: The record; None: nothing is recorded.
        is_leader: Returns whether the replica decides.
        clock: The time.
        budget: How much computing questions may take.
    """

    def __init__(
        self,
        record: UseRecord | None,
        is_leader: Callable[[], bool],
        clock: Clock,
        budget: QuestionBudget,
    ) -> None:
        self.is_leader = is_leader
        self._record = record
        self._clock = clock
        self._budget = budget
        self._lock = threading.Lock()  # guards what is kept
        self._kept: OrderedDict[object, tuple[float, object]] = OrderedDict()

    @property
    def is_recorded(self) -> bool:
        """Whether there is a record."""
        return self._record is not None

    def now(self) -> int:
        """Return the time, in seconds since the epoch."""
        return int(self._clock.now().timestamp())

    def namespaces(self, start: int, end: int) -> list[str]:
        """Return the namespaces that have use in a time.

        Raises:
            NoStateError: The record cannot be read.
        """
        return [] if self._record is None else self._record.namespaces(start, end, self.now())

    def visit(self, start: int, end: int, take: Callable[[TimedBlock], None]) -> UseReach:
        """Call `take` with each block of a time; return the time that the blocks cover.

        Raises:
            QuestionError: INVALID_ARGUMENT: there is too much in it.
            NoStateError: The record cannot be read.
        """
        assert self._record is not None, "there is a record"
        read = 0

        def count(block: TimedBlock) -> None:
            nonlocal read
            read += len(block.block.rows)
            if read > MAX_ROWS:
                msg = f"more than {MAX_ROWS:,} sums are recorded of that time: ask for less of it"
                raise QuestionError(Code.INVALID_ARGUMENT, msg)
            take(block)

        return self._record.visit(start, end, self.now(), count)

    def answer(self, question: ReportQuestion, caller: str) -> ReportView:
        """Return a report.

        Raises:
            QuestionError: As `sums`.
            NoStateError: The record cannot be read.
        """
        return self.view(self.sums(question, caller), question.offset, question.limit)

    def view(self, found: FoundSums, offset: int, limit: int) -> ReportView:
        """Return a page of a report that was added up."""
        reach = found.reach
        head = ReportHead(
            leader=self.is_leader(),
            source="record",
            note="",
            start=reach.start,
            end=min(reach.end, max(self.now(), reach.start)),
            complete_from=reach.complete_from,
            missing_seconds=reach.missing_seconds,
        )
        return found.sums.view(head, offset, limit)

    def sums(self, question: ReportQuestion, caller: str) -> FoundSums:
        """Return the sums of a report; they are kept for its next pages, and not to be changed.

        Raises:
            QuestionError: INVALID_ARGUMENT: there is too much in that time. RESOURCE_EXHAUSTED: the
                caller has had its share of computing.
            NoStateError: The record cannot be read.
        """
        return self._once(_key_of(question), caller, lambda: self._add_up(question))

    def divide(self, question: ReportQuestion, steps: Steps, caller: str) -> Divided:
        """Return the sums of a report, and those of its largest rows by time; see `sums`.

        Raises:
            QuestionError: As `sums`.
            NoStateError: The record cannot be read.
        """
        found = self.sums(question, caller)
        key = (_key_of(question), steps)
        return self._once(key, caller, lambda: self._divide(question, steps, found))

    def _once(self, key: object, caller: str, build: Callable[[], FoundT]) -> FoundT:
        """Return what was built for a key lately, or what is built now."""
        with self._lock:
            at, kept = self._kept.get(key, (0.0, None))
            if kept is not None and self._clock.monotonic() - at < KEPT_SECONDS:
                return cast("FoundT", kept)
        with self._budget.spend(caller):
            found = build()
        with self._lock:
            self._kept[key] = (self._clock.monotonic(), found)
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def _divide(self, question: ReportQuestion, steps: Steps, found: FoundSums) -> Divided:
        sums = found.sums
        resources = resources_of(sums.rows.values())
        resource = steps.resource if steps.resource in resources else next(iter(resources), "")
        count = -(-(question.end - question.start) // steps.seconds)
        used = {
            names: [0] * count
            for names in (*largest_rows(sums.rows, resource, steps.most), OTHER_ROWS)
        }
        others, readable = used[OTHER_ROWS], sums.readable

        def take(block: TimedBlock) -> None:
            step = (block.begin - question.start) // steps.seconds
            for row in block.block.rows:
                amount = row.used.get(resource, 0)
                if amount and (readable is None or row.key.namespace in readable):
                    used.get(sums.names_of(row.key), others)[step] += amount

        self.visit(question.start, question.end, take)
        return Divided(found, resources, resource, used)

    def _add_up(self, question: ReportQuestion) -> FoundSums:
        readable = None if question.readable is None else frozenset(question.readable)
        sums = ReportSums(question.by, readable, has_others=not question.namespace)
        this_hour = self.now() // HOUR * HOUR
        reach = self.visit(
            question.start,
            question.end,
            lambda each: sums.add(each.block, is_over=each.begin + each.seconds <= this_hour),
        )
        return FoundSums(sums, reach)


def _key_of(question: ReportQuestion) -> ReportQuestion:
    """Return what is the same for all pages of a report, and for an hour."""
    hours = question.start // HOUR, -(-question.end // HOUR)
    return msgspec.structs.replace(question, start=hours[0], end=hours[1], offset=0, limit=0)


class ReportApi:
    """Answers the scheduler, which checks its callers.

    Args:
        reports: Makes reports.
    """

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def namespaces(self, start: int, end: int) -> NamespacesView:
        """Whose use is recorded."""
        reports = self._reports
        found = reports.namespaces(start, end) if reports.is_recorded else None
        return NamespacesView(namespaces=found)

    def report(self, body: PostedBody, caller: str) -> ReportView:
        """A report."""
        question = msgspec.json.decode(body.content, type=ReportQuestion)
        return self._reports.answer(question, caller)


class _Asked(NamedTuple):
    """What the route is asked for."""

    start: datetime | None
    end: datetime | None
    by: tuple[str, ...]
    offset: int
    limit: int
    namespace: str = ""


def add_report_route(app: FastAPI, state: StateAnswers, link: InsightLink, access: Guard) -> None:
    """Add the route.

    Args:
        app: The application; it calls `access` first.
        state: Answers about the state, for the ledger.
        link: Asks the insight program.
        access: The application's guard.
    """

    @app.get(PATH, responses=problems(403, 404, 429, 503))
    def report(
        request: Request,
        start: From = None,
        end: To = None,
        by: By = "user",
        offset: Offset = 0,
        limit: Limit = DEFAULT_PAGE,
        namespace: Namespace = "",
    ) -> ReportView:
        """Who used how much of the quotas over a time, where accounts are kept.

        Use of namespaces that the caller may not read is summed up by quota, without names. Of
        very many namespaces the rights to the first are reviewed: name one to be sure of it.
        """
        fields = tuple(dict.fromkeys(by.split(",")))
        asked = _Asked(start, end, fields, offset, limit, namespace)
        if start is not None and end is not None and end <= start:
            raise QuestionError(Code.INVALID_ARGUMENT, "`to` is not after `from`")
        may_read = may_read_for(access, request)
        if namespace and not may_read(namespace):
            raise QuestionError(Code.PERMISSION_DENIED, "units of that namespace may not be read")
        ledger, found = state.copy_ledger(), None
        if link.is_on:
            found = _ask_record(link, asked, may_read, caller_of(request), ledger.second)
        if found is None:
            found = _report_of_ledger(ledger, asked, may_read, leader=state.is_leader())
        if fields == QUOTAS and may_read(EVERYWHERE):
            items = with_budgets(found.items, state.budgets_left())
            found = found.model_copy(update={"items": items})
        return found


def _ask_record(
    link: InsightLink, asked: _Asked, may_read: MayRead, caller: str, now: int
) -> ReportView | None:
    """Return the report of the record; None: there is none."""
    end = now if asked.end is None else _second(asked.end, now)
    start = max(0, end - USUAL_SECONDS) if asked.start is None else _second(asked.start, now)
    target = f"{NAMESPACES}?start={start}&end={end}"
    namespaces = link.ask_at(target, NamespacesView, caller=caller).namespaces
    if namespaces is None:
        return None
    question = ReportQuestion(
        start=start,
        end=end,
        by=asked.by,
        readable=_readable(asked, namespaces, may_read),
        namespace=asked.namespace,
        offset=asked.offset,
        limit=asked.limit,
    )
    body = PostedBody(JSON, msgspec.json.encode(question))
    return link.ask_slow_at(RECORDED, ReportView, body, caller)


def _readable(asked: _Asked, namespaces: list[str], may_read: MayRead) -> tuple[str, ...] | None:
    return (asked.namespace,) if asked.namespace else readable_of(namespaces, may_read)


def _second(moment: datetime, now: int) -> int:
    """Return a moment in seconds since the epoch, as far as times are kept and can be written."""
    return int(min(max(0.0, moment.timestamp()), now + USUAL_SECONDS))


def readable_of(namespaces: list[str], may_read: MayRead) -> tuple[str, ...] | None:
    """Return the namespaces that may be read; None if all may."""
    if may_read(EVERYWHERE):
        return None
    return tuple(each for each in sorted(namespaces) if may_read(each))


# --- without a record ---------------------------------------------------------------------------


def _report_of_ledger(
    ledger: Ledger, asked: _Asked, may_read: MayRead, *, leader: bool
) -> ReportView:
    if "kind" in asked.by:
        raise QuestionError(Code.INVALID_ARGUMENT, f"the kinds of jobs are not known: {NO_RECORD}")
    start, end, part = _find_part(ledger, asked)
    rows = [
        UseRow(UseKey(*account, ""), used)
        for account, _ in ledger
        if any((used := part(*use_of(ledger, account))).values())
    ]
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.key.quota, set()).add(row.key.namespace)
    hours = {quota: [tuple(names)] for quota, names in found.items()}
    readable = _readable(asked, sorted(set().union(*found.values())), may_read)
    sums = ReportSums(
        asked.by,
        None if readable is None else frozenset(readable),
        has_others=not asked.namespace,
    )
    sums.add(UseBlock(rows, {}, hours), is_over=True)
    head = ReportHead(leader, "ledger", NO_RECORD, start, end, ledger.complete_from or None)
    return sums.view(head, asked.offset, asked.limit)


_Part = Callable[[Amounts, Amounts, Amounts], Amounts]
"""Returns what was used in a time, of what was in all, in the present and in the last period."""


def _find_part(ledger: Ledger, asked: _Asked) -> tuple[int | None, int, _Part]:
    """Return the time that is asked for, and what was used in it.

    Raises:
        QuestionError: INVALID_ARGUMENT: use is not known for it.
    """
    edges = ledger.kept_edges()
    this = edges[-1] if edges else None
    last = edges[-2] if len(edges) > 1 else None
    now = ledger.second
    known: dict[tuple[int | None, int], _Part] = {(None, now): lambda used, *_: used}
    if this is not None:
        known[this, now] = lambda _used, of_this, _last: of_this
        known[None, this] = lambda used, of_this, _last: subtract(used, of_this)
    if this is not None and last is not None:
        known[last, this] = lambda _used, _this, of_last: of_last
        known[last, now] = lambda _used, of_this, of_last: add(of_this, of_last)
        known[None, last] = lambda used, of_this, of_last: subtract(used, add(of_this, of_last))
    start = None if asked.start is None else int(asked.start.timestamp())
    end = now if asked.end is None else min(now, int(asked.end.timestamp()))
    part = known.get((start, end))
    if part is None:
        times = sorted({at for at in (this, last) if at is not None})
        times_known = " or ".join(rfc3339(datetime.fromtimestamp(at, UTC)) for at in times)
        may_be = (
            f"`from` and `to` may be {times_known}, or left out"
            if times_known
            else "ask without times"
        )
        msg = f"what was used between these times is not kept; {may_be}: {NO_RECORD}"
        raise QuestionError(Code.INVALID_ARGUMENT, msg)
    return start, end, part
