"""`koord-queue report`: who has used how much."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from koord_queue.answers.accounts import FIELDS, AccountPage, Row, Span, add_up, spans_of
from koord_queue.answers.decoding import decode
from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.show.documents import show_document
from koord_queue.show.moments import FORMS, MomentError, query_time, read_moment

if TYPE_CHECKING:
    from koord_queue.session.session import Session

PAGE: Final = 1000
"""The most that a page of the debug API has."""

HIDDEN: Final = "?"
"""In place of a sum that may not be read."""


def _read_fields(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    fields = tuple(dict.fromkeys(text.split(",")))
    wrong = [each for each in fields if each not in FIELDS]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is none of {', '.join(FIELDS)}.")
    return fields


@click.command()
@click.option("--from", "start", metavar="TIME", help=f"From then on: {FORMS}; default: ever.")
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

    What was charged counts, whatever was done with it. Known are the present and the last period,
    and all use: --from and --to may name where these begin.
    """
    options.refuse_namespace(session, "has no effect: use --by namespace.")
    pages = _read_pages(session)
    span = _find_span(session, pages[0], start, end)
    rows = add_up(pages, span, by)
    if form == "json":
        show_document(session.out, _document(pages[0], span, by, rows), form)
        return
    resources = sorted({name for row in rows for name in row.used or ()})
    columns = [*(field.upper() for field in by), *resources]
    cells = [[*row.names, *_amounts(row, resources)] for row in rows]
    if form == "csv":
        session.out.line(_csv([columns, *cells]))
    elif rows:
        session.out.table(columns, cells, {})
    _note(session, pages[0], span, has_rows=bool(rows))


def _read_pages(session: Session) -> list[AccountPage]:
    pages: list[AccountPage] = []
    while not pages or len(pages) * PAGE < pages[0].total:
        query = (("offset", str(len(pages) * PAGE)), ("limit", str(PAGE)))
        pages.append(decode(session.debug("/debug/accounts", query), AccountPage))
    return pages


def _find_span(session: Session, page: AccountPage, start: str | None, end: str | None) -> Span:
    """Return the time that is asked for.

    Raises:
        CommandError: Use is not known for it.
    """
    spans = spans_of(page)
    wanted = (_read_time(session, start, None), _read_time(session, end, page.at))
    found = next((each for each in spans if (each.start, each.end) == wanted), None)
    if found is not None:
        return found
    known = sorted({query_time(each.start) for each in spans if each.start is not None})
    where = f"--from and --to may be {' or '.join(known)}, or left out" if known else "leave it out"
    raise CommandError("what was used between these times is not kept", f"{where}.")


def _read_time(session: Session, text: str | None, otherwise: datetime | None) -> datetime | None:
    if text is None:
        return otherwise
    try:
        return read_moment(text, session.clock.now())
    except MomentError as error:
        raise click.UsageError(f"{error}.") from error


def _amounts(row: Row, resources: list[str]) -> list[str]:
    if row.used is None:
        return [HIDDEN] * len(resources)
    return [_text(row.used.get(name, Decimal(0))) for name in resources]


def _text(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().rstrip("\n")


def _document(page: AccountPage, span: Span, by: tuple[str, ...], rows: list[Row]) -> Any:  # noqa: ANN401 - a JSON tree
    return {
        "from": None if span.start is None else query_time(span.start),
        "to": query_time(span.end),
        "completeFrom": None if page.complete_from is None else query_time(page.complete_from),
        "items": [
            dict(zip(by, row.names, strict=True))
            | {
                "hours": None
                if row.used is None
                else {name: _text(amount) for name, amount in sorted(row.used.items())}
            }
            for row in rows
        ],
    }


def _note(session: Session, page: AccountPage, span: Span, *, has_rows: bool) -> None:
    if not has_rows:
        session.out.note("nothing was used")
    since = page.complete_from
    if since is not None and (span.start is None or span.start < since):
        session.out.note(f"use before {query_time(since)} is not complete")
