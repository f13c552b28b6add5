"""`koord-queue reservations`: when units must not run, and what runs into that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koord_queue.answers.decoding import decode
from koord_queue.answers.reservations import Reservation
from koord_queue.cli import options
from koord_queue.reach.questions import debug_pages
from koord_queue.show.documents import show_document
from koord_queue.show.reservation_rows import COLUMNS, STYLES, UNIT_COLUMNS, row_of, unit_rows

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command()
@options.at
@options.from_dump
@click.option("--units", is_flag=True, help="The units that run into the next windows.")
@options.output("table", "json", "yaml")
@options.reach
def reservations(
    session: Session, *, at: str | None, dump: str | None, units: bool, form: str
) -> None:
    """List reservations: when units must not run, and what runs into that.

    FROM and UNTIL are the present or next window. RUNS-INTO counts the units that still run when it
    begins, by the times that they declare; WAITING those that start after it only.

    With --units, the units that run into these windows instead: those without ENDS declare no time.
    """
    options.refuse_namespace(session, "names no reservations: they are where the queues are.")
    raws = _read(session, at, dump)
    if form != "table":
        show_document(session.out, [decode(raw, object) for raw in raws], form)
        return
    known = [decode(raw, Reservation) for raw in raws]
    if not known:
        session.out.note("there is no reservation")
    elif not units:
        session.out.table(COLUMNS, [row_of(each) for each in known], STYLES)
    else:
        rows = list(unit_rows(known))
        if rows:
            session.out.table(UNIT_COLUMNS, rows, {})
        if others := sum(each.others for each in known):
            session.out.note(f"{others} more that you may not read, or that are beyond the first")
        elif not rows:
            session.out.note("no unit runs into the next windows")


def _read(session: Session, at: str | None, dump: str | None) -> list[bytes]:
    """Return the reservations as JSON, by name."""
    if dump is not None:
        from koord_queue.reach.dump import open_dump  # noqa: PLC0415 - a second

        source = open_dump(dump)
        source.note_differences(session.out.note)
        return source.reservations()
    query = () if at is None else (("at", at),)
    return [bytes(raw) for raw in debug_pages(session.debug, "/debug/reservations", query)]
