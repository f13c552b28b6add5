"""`koord-queue top`: which quotas and units use most."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from koord_queue.cli import options
from koord_queue.cli.quota_source import read_quotas
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.resources import QUEUE_UNITS, ItemList
from koord_queue.show.bars import bar, letters_for, percent
from koord_queue.show.documents import show_document
from koord_queue.show.quota_rows import FULL, TopRow, documents_of, fit, top_quotas, uses_of
from koord_queue.show.times import ago
from koord_queue.show.unit_use import UnitUse, queue_of, top_units
from shared_api.objects.queue_unit import QueueUnit
from shared_api.quantity import format_amount

if TYPE_CHECKING:
    from koord_queue.session.session import Session

REDRAW_SECONDS: Final = 2.0
BAR: Final = " "
"""Heading of the bars of a terminal."""
BAR_WIDTH: Final = 20
LEFT_OUT: Final = (BAR, "AGE", "ADMITTED", "PENDING", "QUEUE")
"""Columns that a narrow terminal does without."""
PAGE: Final = "1000"
"""Queues of one page of the debug API: the most that it has."""


class _Queue(msgspec.Struct):
    quotas: tuple[str, ...] = ()
    pending: int = 0
    admitted: int = 0


class View(NamedTuple):
    """One answer: as a table, and as a document."""

    columns: Sequence[str]
    rows: list[list[str]]
    shares: list[float]
    are_of_limits: bool
    document: dict[str, Any]


@click.command()
@click.argument("what", type=click.Choice(["quotas", "units"]), default="quotas")
@click.option("--by", "resource", metavar="RESOURCE", help="Compare by this one: cpu.")
@click.option("-w", "--watch", is_flag=True, help="Draw it again every 2 s, until Ctrl-C.")
@options.output("table", "json")
@options.reach
def top(session: Session, *, what: str, resource: str | None, watch: bool, form: str) -> None:
    """Show which quotas, or admitted units, use most.

    A quota is compared by the resource of which it uses the largest share of its max, a unit by
    that of which it holds the largest share of what all units hold.
    """
    if what == "quotas":
        options.refuse_namespace(session, "is for `top units`: quotas are those of all namespaces.")
    views: dict[str, Callable[[Session, str | None], View]] = {"quotas": _quotas, "units": _units}
    if not watch:
        _show(session, views[what](session, resource), form)
        return
    if form != "table" or not session.out.is_terminal:
        raise click.UsageError("-w draws on a terminal only.")
    while True:
        view = views[what](session, resource)
        session.out.clear()
        _show(session, view, form)
        session.out.flush()
        session.clock.sleep(REDRAW_SECONDS)


def _show(session: Session, view: View, form: str) -> None:
    if form != "table":
        show_document(session.out, view.document, form)
        return
    if not view.rows:
        session.out.note("nothing is used")
        return
    columns, rows = list(view.columns), view.rows
    if session.out.is_terminal:
        letters = letters_for(getattr(sys.stdout, "encoding", None))
        # Before the percents, which are the second column.
        columns.insert(1, BAR)
        rows = [
            [row[0], bar(share, BAR_WIDTH, letters), *row[1:]]
            for row, share in zip(rows, view.shares, strict=True)
        ]
        columns, rows = fit(columns, rows, session.out.width, LEFT_OUT)
    high = [each for each in view.shares if view.are_of_limits and each >= FULL]
    styles = {percent(each): "bad" if each > 1 else "warn" for each in high}
    session.out.table(columns, rows, styles)


def _quotas(session: Session, resource: str | None) -> View:
    """Return the quotas; those without a max have no share, and are left out."""
    roots = read_quotas(session)
    found = top_quotas(uses_of(roots), _counts(session), resource)
    return View(
        ("QUOTA", "USE", "RESOURCE", "USED", "MAX", "PENDING", "ADMITTED"),
        [_quota_cells(each) for each in found],
        [each.use.share or 0.0 for each in found],
        are_of_limits=True,
        document={"quotas": [_quota_document(each) for each in found]},
    )


def _quota_cells(row: TopRow) -> list[str]:
    use = row.use
    counts = ["" if each is None else str(each) for each in (row.pending, row.admitted)]
    return [use.path, percent(use.share or 0.0), use.resource, use.used, use.max, *counts]


def _quota_document(row: TopRow) -> dict[str, Any]:
    counts = {"pending": row.pending, "admitted": row.admitted}
    return documents_of([row.use])[0] | {
        name: count for name, count in counts.items() if count is not None
    }


def _counts(session: Session) -> dict[str, tuple[int, int]]:
    """Return the pending and admitted units of quotas that share no queue with others."""
    counts: dict[str, tuple[int, int]] = {}
    shared: set[str] = set()
    try:
        for queue in _queues(session):
            if len(queue.quotas) != 1:
                shared |= {*queue.quotas}
                continue
            pending, admitted = counts.get(queue.quotas[0], (0, 0))
            counts[queue.quotas[0]] = (pending + queue.pending, admitted + queue.admitted)
    except (NotServed, Refused):
        return {}  # that the scheduler does not answer was noted with the quotas
    return {name: count for name, count in counts.items() if name not in shared}


def _queues(session: Session) -> Iterator[_Queue]:
    offset = 0
    while True:
        query = (("offset", str(offset)), ("limit", PAGE))
        body = session.debug("/debug/queues", query)
        page = msgspec.json.decode(body, type=ItemList[_Queue]).items
        yield from page
        offset += len(page)
        if len(page) < int(PAGE):
            return


def _units(session: Session, resource: str | None) -> View:
    """Return the admitted units of all namespaces, or of the user's where only that is allowed."""
    found = top_units(_admitted(session), resource)
    now = session.clock.now()
    return View(
        ("UNIT", "HOLDS", "RESOURCE", "AMOUNT", "QUEUE", "AGE"),
        [
            [
                each.unit.metadata.key,
                percent(each.share),
                each.resource,
                format_amount(each.resource, each.held),
                queue_of(each.unit),
                ago(each.unit.metadata.creation_timestamp, now),
            ]
            for each in found
        ],
        [each.share for each in found],
        are_of_limits=False,
        document={"units": [_unit_document(each) for each in found]},
    )


def _unit_document(use: UnitUse) -> dict[str, Any]:
    return {
        "unit": use.unit.metadata.key,
        "queue": queue_of(use.unit),
        "resource": use.resource,
        "amount": format_amount(use.resource, use.held),
        "share": round(use.share, 4),
    }


def _admitted(session: Session) -> list[QueueUnit]:
    if session.choice.namespace:
        return _list(session, session.choice.namespace)
    try:
        return _list(session, "")
    except Refused as error:
        session.out.note(f"{error.message}; shown is namespace {session.namespace}")
        return _list(session, session.namespace)


def _list(session: Session, namespace: str) -> list[QueueUnit]:
    return [
        unit
        for page in session.cluster().pages(QUEUE_UNITS.path(namespace))
        for unit in msgspec.json.decode(page, type=ItemList[QueueUnit]).items
    ]
