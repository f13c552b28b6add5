"""`koord-queue report`: who has used how much."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from koord_queue.answers.decoding import decode
from koord_queue.answers.report import Report, ReportRow
from koord_queue.cli import options
from koord_queue.show.documents import show_document
from koord_queue.show.moments import FORMS, MomentError, query_time, read_moment
from koord_queue.show.words import short_seconds

if TYPE_CHECKING:
    from koord_queue.session.session import Session

PAGE: Final = 1000
"""The most that a page of the debug API has."""

FIELDS: Final = ("user", "group", "quota", "namespace", "kind", "queue")
"""What rows may be."""

OTHERS: Final = "(not readable)"
"""In place of the names of rows that may not be read."""

HIDDEN: Final = "?"
"""In place of a sum that may not be read."""

FORMULAS: Final = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
"""What begins a formula in a spreadsheet; the last four are full-width."""

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")

Hours = dict[str, Decimal]


def _read_fields(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    fields = tuple(dict.fromkeys(text.split(",")))
    wrong = [each for each in fields if each not in FIELDS]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is none of {', '.join(FIELDS)}.")
    return fields


@click.command()
@click.option("--from", "start", metavar="TIME", help=f"From then on: {FORMS}; default: 30 days.")
@click.option("--to", "end", metavar="TIME", help="Until then; default: now.")
@click.option(
    "--by",
    default="user",
    metavar="FIELDS",
    callback=_read_fields,
    help=f"Add up by these, with commas: {', '.join(FIELDS)}; default: user.",
)
@options.output("table", "csv", "json")
@options.reach
def report(
    session: Session, *, start: str | None, end: str | None, by: tuple[str, ...], form: str
) -> None:
    """Show who has used how much of the quotas: cores, GiB and pieces, times hours.

    What was charged counts, whatever was done with it. -n shows one namespace. Times are by hours.
    Without a record of the insight program, all use is shown that is known, and --from and --to may
    name where the present and the last period begin.
    """
    pages = _read_pages(session, _read_time(session, start), _read_time(session, end), by)
    if form == "json":
        show_document(session.out, _document(pages), form)
        return
    table = _table_of(pages)
    if form == "csv":
        session.out.line(_csv([table.columns, *table.cells]))
    elif table.cells:
        session.out.table(table.columns, table.cells, {})
    _note(session, pages[0], has_rows=bool(table.cells), is_table=form == "table")


def _read_pages(
    session: Session, start: datetime | None, end: datetime | None, by: tuple[str, ...]
) -> list[Report]:
    pages: list[Report] = []
    times = [("from", start), ("to", end)]
    query = [(name, query_time(at)) for name, at in times if at is not None]
    query.append(("by", ",".join(by)))
    if session.choice.namespace:
        query.append(("namespace", session.choice.namespace))
    while not pages or len(pages) * PAGE < pages[0].total:
        page = (("offset", str(len(pages) * PAGE)), ("limit", str(PAGE)))
        pages.append(decode(session.debug("/debug/report", (*query, *page)), Report))
    return pages


def _read_time(session: Session, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return read_moment(text, session.clock.now())
    except MomentError as error:
        raise click.UsageError(f"{error}.") from error


# --- rows ---------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """Headings, and the cells of each row."""

    columns: list[str]
    cells: list[list[str]]


class _Column(NamedTuple):
    """A resource of one kind of numbers: the heading, and the cell of each row."""

    heading: str
    cells: list[str]


def _table_of(pages: Sequence[Report]) -> _Table:
    """Return the rows of all pages, and below them the sums of those that may not be read."""
    first, rows = pages[0], [row for page in pages for row in page.items]
    others = _others_of(first)
    amounts = [*(row.used for row in rows), *others.values()]
    found = _columns("", amounts)
    if first.by == ("quota",):
        found += _columns("BORROWED-", (row.borrowed for row in rows), len(others))
        found += _columns("LENT-", (row.lent for row in rows), len(others))
        budgets = (row.budget_left or {} for row in rows)
        found += _columns("BUDGET-LEFT-", budgets, len(others), absent="")
    if any(row.admitted for row in rows):
        found += [
            _Column("WAIT-P50", [_span(row.wait_p50) for row in rows] + [""] * len(others)),
            _Column("WAIT-P90", [_span(row.wait_p90) for row in rows] + [""] * len(others)),
        ]
    if first.source == "record":
        evictions = [str(row.evictions) for row in rows]
        found.append(_Column("EVICTIONS", evictions + [""] * len(others)))
        found += _columns("LOST-", (row.lost for row in rows), len(others))
    found += _jain_columns(first, rows, len(others))
    names = [[row.names.get(field, "") for field in first.by] for row in rows]
    names += [list(each) for each in others]
    cells = [[*of, *(column.cells[at] for column in found)] for at, of in enumerate(names)]
    return _Table(
        [*(field.upper() for field in first.by), *(each.heading for each in found)], cells
    )


def _others_of(page: Report) -> dict[tuple[str, ...], dict[str, str] | None]:
    """Return the sums of what may not be read, by the names of a row."""
    sums: dict[tuple[str, ...], Hours | None] = {}
    for each in page.others:
        names = tuple(each.quota if field == "quota" else OTHERS for field in page.by)
        known = sums.setdefault(names, {})
        if each.used is None or known is None:
            sums[names] = None
            continue
        for resource, amount in each.used.items():
            known[resource] = known.get(resource, Decimal(0)) + Decimal(amount)
    return {
        names: None if used is None else {name: f"{each:f}" for name, each in used.items()}
        for names, used in sorted(sums.items())
    }


def _columns(
    before: str, amounts: Iterable[dict[str, str] | None], empty: int = 0, *, absent: str = "0"
) -> list[_Column]:
    """Return a column for each resource.

    Args:
        before: Begins its heading.
        amounts: The amounts of each row; None: they may not be read.
        empty: So many rows below have none.
        absent: The cell of a row without the resource.
    """
    known = list(amounts)
    resources = sorted({resource for each in known for resource in each or ()})
    return [
        _Column(
            before + resource,
            [HIDDEN if each is None else each.get(resource, absent) for each in known]
            + [""] * empty,
        )
        for resource in resources
    ]


def _jain_columns(page: Report, rows: Sequence[ReportRow], empty: int) -> list[_Column]:
    """Return Jain's index of each resource, where a quota or all have several rows."""
    several = {each.quota: each.index for each in page.jain if each.rows > 1}
    is_by_quota = "quota" in page.by and len(page.by) > 1
    of_rows = [several.get(row.names["quota"] if is_by_quota else "", {}) for row in rows]
    shown = [
        None if each is None else {name: f"{index:g}" for name, index in each.items()}
        for each in of_rows
    ]
    return [
        column._replace(cells=["" if cell == "0" else cell for cell in column.cells])
        for column in _columns("JAIN-", shown, empty)
    ]


def _span(seconds: float | None) -> str:
    return "" if seconds is None else short_seconds(seconds)


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_harmless, row) for row in rows)
    return text.getvalue().rstrip("\n")


def _harmless(cell: str) -> str:
    """Return a cell that no spreadsheet reads as a formula; users choose their names."""
    return f"'{cell}" if cell.startswith(FORMULAS) and not _NUMBER.fullmatch(cell) else cell


def _document(pages: Sequence[Report]) -> Any:  # noqa: ANN401 - a JSON tree
    first = pages[0]
    return {
        "source": first.source,
        "from": first.from_time,
        "to": first.to_time,
        "completeFrom": first.complete_from,
        "missingSeconds": first.missing_seconds,
        "items": [
            {
                **row.names,
                "hours": row.used,
                "borrowed": row.borrowed,
                "lent": row.lent,
                "budgetLeft": row.budget_left,
                "admitted": row.admitted,
                "waitP50": row.wait_p50,
                "waitP90": row.wait_p90,
                "evictions": row.evictions,
                "lost": row.lost,
            }
            for page in pages
            for row in page.items
        ],
        "others": [{"quota": each.quota, "hours": each.used} for each in first.others],
        "jain": [
            {"quota": each.quota, "rows": each.rows, "index": each.index} for each in first.jain
        ],
    }


def _note(session: Session, page: Report, *, has_rows: bool, is_table: bool) -> None:
    note = session.out.note
    if not has_rows:
        note("nothing was used")
    elif is_table:
        start = page.from_time or page.complete_from or "the beginning"
        note(f"from {start} to {page.to_time}")
    if page.note:
        note(page.note)
    since = page.complete_from
    if since is not None and (page.from_time is None or page.from_time < since):
        note(f"use before {since} is not complete")
    if page.missing_seconds:
        note(f"{short_seconds(page.missing_seconds)} of this time were not counted")
