"""`koord-queue units`: where each unit stands, and why it waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec

from koord_queue.answers.pending import Pending
from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.resources import QUEUE_UNITS, ItemList
from koord_queue.show.documents import show_documents
from koord_queue.show.unit_rows import (
    BY_PLACE,
    ORDERS,
    QUEUE,
    STYLES,
    UnitRow,
    sort_rows,
    table_of,
)
from shared_api.objects.queue_unit import QueueUnit
from shared_api.submitters import submitter_name
from shared_api.well_known_labels import SUBMITTED_BY, USER

if TYPE_CHECKING:
    from koord_queue.session.session import Session

REVIEW: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WATCH_SECONDS: Final = 2.0
"""Between two looks: a scheduler writes a reason two seconds after it has found it."""


class Wanted(NamedTuple):
    """Which units are listed.

    Attributes:
        namespace: None: all.
        selector: As kubectl takes it; None: all.
        user: Who has submitted it; None: all.
        ended: Whether those that have finished are listed, and only these.
    """

    namespace: str | None
    selector: str | None
    user: str | None
    ended: bool


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", metavar="LABELS", help="Only with these labels: team=a,stage!=b.")
@click.option(
    "--mine",
    is_flag=True,
    help=f"Only your own, by the label {USER} or, without it, the annotation {SUBMITTED_BY}.",
)
@click.option(
    "--finished",
    is_flag=True,
    help="Those that have finished, instead of those that have not.",
)
@click.option(
    "--sort-by",
    type=click.Choice(ORDERS),
    help="Default: queue; of -o json, yaml and name: as the server has them.",
)
@click.option("-w", "--watch", is_flag=True, help="Go on, and show what changes, until Ctrl-C.")
@options.at
@options.from_dump
@options.output("table", "wide", "json", "yaml", "name")
@options.reach
def units(
    session: Session,
    *,
    all_namespaces: bool,
    selector: str | None,
    mine: bool,
    finished: bool,
    sort_by: str | None,
    watch: bool,
    at: str | None,
    dump: str | None,
    form: str,
) -> None:
    """List queue units: where each stands, and why it waits.

    Units that have started come first, then those that wait, in the order of their queue. POS is
    the place in the queue, STARTS the time until the median start by the last forecast. --at lists
    what waited then.
    """
    if dump is not None or at is not None:
        if selector or mine or finished or watch:
            raise click.UsageError("--from-dump and --at know no -l, --mine, --finished and -w.")
        if sort_by == "start":
            raise click.UsageError("--from-dump and --at know no starts to sort by.")
        _show_listed(session, at, dump, sort_by, form, all_namespaces=all_namespaces)
        return
    wanted = Wanted(
        None if all_namespaces else session.namespace,
        selector,
        _own_name(session) if mine else None,
        finished,
    )
    view = _View(session, wanted, sort_by, is_wide=form == "wide")
    if form in {"json", "yaml", "name"}:
        if watch:
            raise click.UsageError("-w shows tables only.")
        show_documents(session.out, view.documents(), form, "queueunit.scheduling.x-k8s.io")
    elif watch:
        view.watch()
    else:
        view.show()


def _show_listed(
    session: Session,
    at: str | None,
    dump: str | None,
    sort_by: str | None,
    form: str,
    *,
    all_namespaces: bool,
) -> None:
    """Show the units of a dump, or of another time."""
    from koord_queue.cli import listed  # noqa: PLC0415 - not for completion

    if dump is not None:
        found = listed.units_of_dump(session, dump)
    else:
        assert at is not None
        found = listed.units_at(session, at, None if all_namespaces else session.namespace)
    if sort_by is not None:
        found = listed.sort_units(found, sort_by)
    listed.show_units(session, found, form)


class _View:
    """The table, once or again and again, or the objects.

    Args:
        session: What is asked, and where it is shown.
        wanted: Which units are shown.
        sort_by: One of `ORDERS`; None: tables by queue, objects as the server has them.
        is_wide: Whether the table has all columns.
    """

    def __init__(
        self, session: Session, wanted: Wanted, sort_by: str | None, *, is_wide: bool
    ) -> None:
        self._session = session
        self._wanted = wanted
        self._sort_by = sort_by
        self._is_wide = is_wide
        self._is_noted = False

    def show(self) -> None:
        """Write it."""
        columns, cells = self._table()
        if not cells:
            self._session.out.note(self._nothing())
            return
        self._session.out.table(columns, cells, STYLES)

    def watch(self) -> None:
        """Write it anew every two seconds on a terminal; to a pipe, the rows that have changed."""
        out, clock = self._session.out, self._session.clock
        before: set[tuple[str, ...]] | None = None
        while True:
            columns, cells = self._table()
            if out.is_terminal:
                out.clear()
                out.table(columns, cells, STYLES)
            else:
                # Ages and forecasts always move: a row that differs in nothing else is no news.
                still = [_without(row, columns, ("STARTS", "AGE")) for row in cells]
                news = [
                    row for row, key in zip(cells, still, strict=True) if key not in (before or ())
                ]
                out.table(columns, news, has_headings=before is None)
                before = set(still)
            out.flush()
            clock.sleep(WATCH_SECONDS)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        found = _list_units(self._session, self._wanted)
        rows = sort_rows(self._rows(found), self._sort_by or QUEUE)
        return table_of(
            rows,
            self._session.clock.now(),
            is_wide=self._is_wide,
            has_namespaces=self._wanted.namespace is None,
        )

    def documents(self) -> list[bytes]:
        """Return the objects, each as JSON."""
        found = _list_objects(self._session, self._wanted)
        if self._sort_by is None:
            return [raw for _, raw in found]
        raws = {_key(unit): raw for unit, raw in found}
        units = [unit for unit, _ in found]
        rows = self._rows(units) if self._sort_by in BY_PLACE else map(UnitRow, units)
        return [raws[_key(row.unit)] for row in sort_rows(rows, self._sort_by)]

    def _rows(self, found: Sequence[QueueUnit]) -> Iterator[UnitRow]:
        known = self._pending() if found and not self._wanted.ended else None
        for unit in found:
            key = _key(unit)
            # A unit of which nobody says that it waits in a queue is in none.
            yield UnitRow(unit, None if known is None else known.get(key, Pending(*key)))

    def _pending(self) -> dict[tuple[str, str], Pending] | None:
        """Return what is known of the units that wait; None if no server can say."""
        try:
            question = questions.pending(self._wanted.namespace, None)
            found = self._session.sources().answer(question)
        except (NotServed, Refused) as error:
            if not self._is_noted:
                text = f"positions and forecasts are not known: {error.message}"
                self._session.out.note(f"{text}. {error.next_step}".rstrip())
            self._is_noted = True
            return None
        return {(each.namespace, each.name): each for each in found}

    def _nothing(self) -> str:
        where = "any namespace" if self._wanted.namespace is None else self._wanted.namespace
        if self._wanted.user is not None:
            name = self._wanted.user
            return (
                f"no unit in {where} has the label {USER}={name}, or without it the annotation"
                f" {SUBMITTED_BY}; a job names its user by these"
            )
        text = f"no unit in {where} {'has ended' if self._wanted.ended else 'waits or runs'}"
        is_chosen = self._wanted.namespace is None or self._session.choice.namespace
        return text if is_chosen else f"{text}; -A looks in all namespaces"


def _list_units(session: Session, wanted: Wanted) -> list[QueueUnit]:
    return [
        unit
        for page in _pages(session, wanted)
        for unit in msgspec.json.decode(page, type=ItemList[QueueUnit]).items
        if _is_wanted(unit, wanted)
    ]


def _list_objects(session: Session, wanted: Wanted) -> list[tuple[QueueUnit, bytes]]:
    """Return units, each with its whole object as JSON."""
    raws = (
        raw
        for page in _pages(session, wanted)
        for raw in msgspec.json.decode(page, type=ItemList[msgspec.Raw]).items
    )
    read = ((msgspec.json.decode(raw, type=QueueUnit), bytes(raw)) for raw in raws)
    return [(unit, raw) for unit, raw in read if _is_wanted(unit, wanted)]


def _key(unit: QueueUnit) -> tuple[str, str]:
    return (unit.metadata.namespace, unit.metadata.name)


def _is_wanted(unit: QueueUnit, wanted: Wanted) -> bool:
    meta = unit.metadata
    is_of_user = wanted.user in {None, submitter_name(meta.labels, meta.annotations)}
    return is_of_user and UnitRow(unit).has_ended == wanted.ended


def _pages(session: Session, wanted: Wanted) -> Iterator[bytes]:
    query = () if wanted.selector is None else (("labelSelector", wanted.selector),)
    return session.cluster().pages(QUEUE_UNITS.path(wanted.namespace or ""), query)


def _without(
    row: Sequence[str], columns: Sequence[str], left_out: Sequence[str]
) -> tuple[str, ...]:
    return tuple(cell for cell, name in zip(row, columns, strict=True) if name not in left_out)


def _own_name(session: Session) -> str:
    """Return the caller's name, as the API server knows it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = session.cluster().send("POST", REVIEW, msgspec.json.encode(body))
    name = msgspec.json.decode(answer)["status"]["userInfo"].get("username", "")
    if not name:
        raise CommandError("the API server knows you by no name", "Use -l koord-queue/user=NAME.")
    return str(name)
