"""`koord-queue units`: where each unit stands, and why it waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click
import msgspec

from koord_queue.answers.pending import Pending
from koord_queue.cli import options
from koord_queue.cli.session import Session
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.show.documents import show_documents
from koord_queue.show.unit_rows import ENDED, ORDERS, STYLES, UnitRow, sort_rows, table_of
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import USER

API: Final = "/apis/scheduling.x-k8s.io/v1alpha1"
REVIEW: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WATCH_SECONDS: Final = 2.0
"""Between two looks: a scheduler writes a reason two seconds after it has found it."""


class Wanted(NamedTuple):
    """Which units are listed.

    Attributes:
        namespace: None: all.
        selector: As kubectl takes it; None: all.
        user: Value of the user's label; None: of all.
        ended: Whether those that have ended are listed, and only these.
    """

    namespace: str | None
    selector: str | None
    user: str | None
    ended: bool


class _Units(msgspec.Struct):
    items: list[QueueUnit] = []


class _Documents(msgspec.Struct):
    items: list[msgspec.Raw] = []


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", metavar="LABELS", help="Only with these labels: team=a,stage!=b.")
@click.option("--mine", is_flag=True, help="Only your own, by the label koord-queue/user.")
@click.option(
    "--finished", is_flag=True, help="Those that have ended, instead of those that have not."
)
@click.option("--sort-by", type=click.Choice(ORDERS), default="queue", help="Default: queue.")
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
    sort_by: str,
    watch: bool,
    at: str | None,
    dump: str | None,
    form: str,
) -> None:
    """List queue units: where each stands, and why it waits.

    What goes on comes first, then what waits, in the order of its queue. POS is the place in the
    queue, STARTS the time until its median start by the last forecast. --at lists what waited then.
    """
    if dump is not None or at is not None:
        if selector or mine or finished or watch:
            raise click.UsageError("--from-dump and --at know no -l, --mine, --finished and -w.")
        _show_listed(session, at, dump, form, all_namespaces=all_namespaces)
        return
    wanted = Wanted(
        None if all_namespaces else session.namespace,
        selector,
        _own_name(session) if mine else None,
        finished,
    )
    if form in {"json", "yaml", "name"}:
        if watch:
            raise click.UsageError("-w shows tables only.")
        show_documents(
            session.out, _documents(session, wanted), form, "queueunit.scheduling.x-k8s.io"
        )
        return
    view = _View(session, wanted, sort_by, is_wide=form == "wide")
    if watch:
        view.watch()
    else:
        view.show()


def _show_listed(
    session: Session, at: str | None, dump: str | None, form: str, *, all_namespaces: bool
) -> None:
    from koord_queue.cli import listed  # noqa: PLC0415 - the engine, for a dump

    if dump is not None:
        found = listed.units_of_dump(session, dump)
    else:
        assert at is not None
        found = listed.units_at(session, at, None if all_namespaces else session.namespace)
    listed.show_units(session, found, form)


class _View:
    """The table, once or again and again."""

    def __init__(self, session: Session, wanted: Wanted, sort_by: str, *, is_wide: bool) -> None:
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
        rows = sort_rows(self._rows(), self._sort_by)
        return table_of(
            rows,
            self._session.clock.now(),
            is_wide=self._is_wide,
            has_namespaces=self._wanted.namespace is None,
        )

    def _rows(self) -> Iterator[UnitRow]:
        found = _list_units(self._session, self._wanted)
        known = self._pending() if found and not self._wanted.ended else None
        for unit in found:
            key = (unit.metadata.namespace, unit.metadata.name)
            # A unit of which nobody says that it waits in a queue is in none.
            yield UnitRow(unit, None if known is None else known.get(key, Pending(*key)))

    def _pending(self) -> dict[tuple[str, str], Pending] | None:
        """Return what is known of the units that wait; None if nobody says it."""
        try:
            found = self._session.answers().pending(self._wanted.namespace, None)
        except (NotServed, Refused) as error:
            if not self._is_noted:
                said = f"positions and forecasts are not known: {error.message}"
                self._session.out.note(f"{said}. {error.next_step}".rstrip())
            self._is_noted = True
            return None
        return {(each.namespace, each.name): each for each in found}

    def _nothing(self) -> str:
        where = "any namespace" if self._wanted.namespace is None else self._wanted.namespace
        if self._wanted.user is not None:
            label = f"{USER}={self._wanted.user}"
            return f"no unit in {where} has the label {label}; a job names its user by that label"
        said = f"no unit in {where} {'has ended' if self._wanted.ended else 'waits or runs'}"
        is_chosen = self._wanted.namespace is None or self._session.choice.namespace
        return said if is_chosen else f"{said}; -A looks in all namespaces"


def _list_units(session: Session, wanted: Wanted) -> list[QueueUnit]:
    return [
        unit
        for page in session.cluster().pages(_path(wanted), _query(wanted))
        for unit in msgspec.json.decode(page, type=_Units).items
        if _is_wanted(unit, wanted)
    ]


def _documents(session: Session, wanted: Wanted) -> list[bytes]:
    return [
        bytes(raw)
        for page in session.cluster().pages(_path(wanted), _query(wanted))
        for raw in msgspec.json.decode(page, type=_Documents).items
        if _is_wanted(msgspec.json.decode(raw, type=QueueUnit), wanted)
    ]


def _is_wanted(unit: QueueUnit, wanted: Wanted) -> bool:
    is_of_user = wanted.user is None or unit.metadata.labels.get(USER) == wanted.user
    return is_of_user and (UnitRow(unit).state in ENDED) == wanted.ended


def _path(wanted: Wanted) -> str:
    where = "" if wanted.namespace is None else f"/namespaces/{wanted.namespace}"
    return f"{API}{where}/queueunits"


def _query(wanted: Wanted) -> tuple[tuple[str, str], ...]:
    return () if wanted.selector is None else (("labelSelector", wanted.selector),)


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
