"""The view Report: who used how much over a time, as bars and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import Depends, Query

from queue_insight.debug_api.report_routes import (
    Divided,
    ReportQuestion,
    Reports,
    Steps,
    readable_of,
)
from queue_insight.debug_api.report_views import (
    OTHER_ROWS,
    QUOTAS,
    JainView,
    Names,
    OtherUse,
    ReportRow,
    ReportSums,
    largest_rows,
    resources_of,
    with_budgets,
)
from queue_insight.page.queue_table import write_table
from queue_insight.page.sources import PageSources
from queue_insight.page.visitors import Visitor
from queue_insight.record.samples import DAY, HOUR
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.budget_figures import budgets_left
from queue_scheduler.tenants.hours import in_hours
from shared_api.caller_shares import user_key
from shared_api.debug_api.views import View

MAX_NAME: Final = 253
"""Characters of the name of a resource."""
MOST_BARS: Final = 8
"""Rows with a color of their own: more colors cannot be told apart."""
MOST_ROWS: Final = 200
"""Rows of the table; the file has all."""
MOST_OF_TABLE: Final = 50_000
"""Rows of the file: some 5 MB."""

Range = Literal["1d", "7d", "30d"]
By = Literal["user", "group", "quota", "namespace", "kind"]


class Length(NamedTuple):
    """How many steps a range has, and how long each is in seconds."""

    steps: int
    seconds: int


LENGTHS: Final[dict[Range, Length]] = {
    "1d": Length(24, HOUR),
    "7d": Length(7, DAY),
    "30d": Length(30, DAY),
}


class UseQuery(NamedTuple):
    """What is asked: how far back, what rows are, and which resource is drawn ("": any)."""

    range: Range = "7d"
    by: By = "user"
    resource: str = ""


def _read_query(
    range: Annotated[Range, Query(description="how far back")] = "7d",  # noqa: A002 - its name in the query
    by: Annotated[By, Query(description="what rows are")] = "user",
    resource: Annotated[str, Query(max_length=MAX_NAME, description="what is drawn")] = "",
) -> UseQuery:
    return UseQuery(range, by, resource)


AskedUse = Annotated[UseQuery, Depends(_read_query)]


class BarsView(View):
    """The use of one row in each step, in hours of cores, GiB or pieces; `name` "": of the rest."""

    name: str
    values: list[float]


class UseReport(View):
    """Who used how much over a time.

    `accounts`: whether use is counted; `recorded`: whether hours are kept. Without both the lists
    are empty. `times` are the beginnings of the steps in seconds since the epoch, each of
    `stepSeconds`; `bars` are of those rows that used most of `resource`, and of the rest. `items`
    has the rows of the table, the largest first, `total` counts all. The other fields are those of
    `/debug/report`.
    """

    accounts: bool
    recorded: bool
    times: list[int]
    step_seconds: int
    resource: str
    resources: list[str]
    bars: list[BarsView]
    total: int
    items: list[ReportRow]
    others: list[OtherUse]
    jain: list[JainView]
    complete_from: str | None
    missing_seconds: int


def show_use_report(sources: PageSources, query: UseQuery, visitor: Visitor) -> UseReport:
    """Return who used how much, as a visitor may see it.

    Raises:
        QuestionError: As `Reports.divide`.
        NoStateError: There is no state, or the record cannot be read.
    """
    is_on, reports = _keeps_accounts(sources), sources.reports
    if not is_on or reports is None or not reports.is_recorded:
        return _nothing(query, accounts=is_on)
    start, step = _start_of(reports, query), LENGTHS[query.range].seconds
    question = _question_of(reports, query, visitor, start)
    steps = Steps(step, query.resource, MOST_BARS)
    found = reports.divide(question, steps, user_key(visitor.user))
    sums = found.found.sums
    named = [names for names in found.used if names != OTHER_ROWS]
    known = [*largest_rows(sums.rows, found.resource, len(sums.rows)), *sums.names()]
    ordered = list(dict.fromkeys(known))  # those that have used nothing come last
    view = reports.view(found.found, 0, 0)
    return UseReport(
        accounts=True,
        recorded=True,
        times=[start + number * step for number in range(LENGTHS[query.range].steps)],
        step_seconds=step,
        resource=found.resource,
        resources=found.resources,
        bars=[_bars_of(found, names) for names in (*named, OTHER_ROWS)],
        total=len(ordered),
        items=_rows_of(sources, sums, ordered[:MOST_ROWS]),
        others=view.others,
        jain=view.jain,
        complete_from=view.complete_from,
        missing_seconds=view.missing_seconds,
    )


def encode_use_report(sources: PageSources, query: UseQuery, visitor: Visitor) -> str:
    """Return the rows as CSV; errors are those of `show_use_report`."""
    reports = sources.reports
    if not _keeps_accounts(sources) or reports is None or not reports.is_recorded:
        return write_table([query.by], ())
    question = _question_of(reports, query, visitor, _start_of(reports, query))
    sums = reports.sums(question, user_key(visitor.user)).sums
    resources = resources_of(sums.rows.values())
    kinds = ("", "borrowed ", "lent ", "lost ") if query.by == "quota" else ("", "lost ")
    heads = [f"{kind}{resource}" for kind in kinds for resource in resources]

    rows = _rows_of(sources, sums, sums.names()[:MOST_OF_TABLE])
    budgets = sorted({each for row in rows for each in row.budget_left or ()})

    def cells_of(row: ReportRow) -> list[object]:
        amounts = {"": row.used, "borrowed ": row.borrowed, "lent ": row.lent, "lost ": row.lost}
        hours = [(amounts[kind] or {}).get(each, "") for kind in kinds for each in resources]
        left = [(row.budget_left or {}).get(each, "") for each in budgets]
        return [row.names[query.by], *hours, row.wait_p50, row.wait_p90, row.evictions, *left]

    columns = [query.by, *heads, "wait p50 (s)", "wait p90 (s)", "evictions"]
    columns += [f"budget left {each}" for each in budgets]
    return write_table(columns, map(cells_of, rows))


def _rows_of(sources: PageSources, sums: ReportSums, names: Sequence[Names]) -> list[ReportRow]:
    rows = [sums.view_row(each) for each in names]
    if sums.by != QUOTAS or sums.readable is not None:
        return rows
    accounts = sources.at(None).shared.fork().usage.budgets.accounts
    accounts.advance(int(sources.clock.now().timestamp()))
    return with_budgets(rows, budgets_left(accounts))


def _keeps_accounts(sources: PageSources) -> bool:
    return sources.at(None).shared.ask(_has_ledger)


def _has_ledger(engine: Engine) -> bool:
    return engine.usage.ledger is not None


def _start_of(reports: Reports, query: UseQuery) -> int:
    length = LENGTHS[query.range]
    return (reports.now() // length.seconds + 1 - length.steps) * length.seconds


def _question_of(reports: Reports, query: UseQuery, visitor: Visitor, start: int) -> ReportQuestion:
    length = LENGTHS[query.range]
    end = start + length.steps * length.seconds
    readable = None
    if not visitor.reads_all:
        readable = readable_of(reports.namespaces(start, end), visitor.may_read)
    return ReportQuestion(start=start, end=end, by=(query.by,), readable=readable)


def _bars_of(found: Divided, names: Names) -> BarsView:
    values = [
        float(in_hours({found.resource: amount}).get(found.resource, "0"))
        for amount in found.used[names]
    ]
    return BarsView(name=names[0] if names else "", values=values)


def _nothing(query: UseQuery, *, accounts: bool) -> UseReport:
    return UseReport(
        accounts=accounts,
        recorded=False,
        times=[],
        step_seconds=LENGTHS[query.range].seconds,
        resource="",
        resources=[],
        bars=[],
        total=0,
        items=[],
        others=[],
        jain=[],
        complete_from=None,
        missing_seconds=0,
    )
