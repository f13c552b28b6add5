"""`koord-queue log`: what was decided, from the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from koord_queue.answers.decoding import decode
from koord_queue.answers.log import Log, LogEntry
from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.named import is_queue, place_of_unit, queue_name
from koord_queue.show.documents import show_document
from koord_queue.show.log_rows import COLUMNS, STYLES, cells_of

if TYPE_CHECKING:
    from koord_queue.session.session import Session

PAGE: Final = 500
"""The most that a page of the record has."""
DEFAULT_ENTRIES: Final = 100
TURN_ON: Final = "The record is kept where insight.enabled of the chart is on: docs/record.md."


@click.command()
@click.argument("about", metavar="[UNIT | queue/NAME]", required=False)
@click.option("--reason", metavar="REASON", help="Only decisions for this reason: OverQuotaMax.")
@options.since
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=DEFAULT_ENTRIES,
    help=f"How many of the newest; default: {DEFAULT_ENTRIES}.",
)
@options.output("table", "json")
@options.reach
def log(
    session: Session,
    *,
    about: str | None,
    reason: str | None,
    since: str | None,
    limit: int,
    form: str,
) -> None:
    """Show what was decided: of a unit or job, of a queue, or of all. The newest comes last.

    An entry is written when a unit is admitted, grows, has others evicted, or is refused for
    another reason than before.
    """
    query = [
        *_about(session, about),
        *((("reason", reason),) if reason else ()),
        *((("since", since),) if since else ()),
    ]
    entries, has_more = _read(session, query, limit)
    if form != "table":
        show_document(session.out, {"items": msgspec.to_builtins(entries)}, form)
        return
    if not entries:
        session.out.note("nothing of this is recorded")
        return
    if has_more:
        session.out.note(f"older entries are left out: --limit is {limit}")
    now, is_terminal = session.clock.now(), session.out.is_terminal
    rows = [cells_of(each, now, is_terminal=is_terminal) for each in entries]
    session.out.table(COLUMNS, rows, STYLES)


def _about(session: Session, about: str | None) -> tuple[tuple[str, str], ...]:
    if about is None:
        return ()
    if is_queue(about):
        return (("queue", queue_name(about)),)
    try:
        namespace, found = session.unit(about)
    except CommandError:
        # A unit that is gone is still in the record; only the name of its job is not.
        place = place_of_unit(about, session.namespace)
        if place is None:
            raise
        namespace, found = place
    return (("unit", f"{namespace}/{found}"),)


def _read(
    session: Session, query: list[tuple[str, str]], limit: int
) -> tuple[list[LogEntry], bool]:
    """Return the newest entries, the oldest of them first, and whether there are more.

    Raises:
        CommandError: Nothing is recorded, or no server answers.
    """
    found: list[LogEntry] = []
    cursor: int | None = None
    while True:
        asked = (*query, ("limit", str(min(PAGE, limit - len(found)))))
        more = () if cursor is None else (("cursor", str(cursor)),)
        page = decode(_ask(session, (*asked, *more)), Log)
        found += page.items
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return found[::-1], cursor is not None


def _ask(session: Session, query: tuple[tuple[str, str], ...]) -> bytes:
    try:
        return session.debug("/debug/log", query)
    except (NotServed, Refused):
        raise
    except CommandError as error:
        if error.next_step:
            raise
        raise CommandError(error.message, TURN_ON) from error
