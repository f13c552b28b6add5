"""`koord-queue queues`: what waits in each, what runs, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from koord_queue.cli import options
from koord_queue.reach.resources import QUEUES, ItemList
from koord_queue.show.documents import show_documents
from koord_queue.show.queue_rows import COLUMNS, STYLES, cells_of
from shared_api.objects.queue import Queue

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command()
@options.at
@options.from_dump
@options.output("table", "json", "yaml", "name")
@options.reach
def queues(session: Session, *, at: str | None, dump: str | None, form: str) -> None:
    """List queues: what waits in each, what runs, and what is wrong.

    Queues are in the namespace of the installation (--system-namespace).
    """
    options.refuse_namespace(session, "names no queues: they are where --system-namespace says.")
    if dump is not None or at is not None:
        _show_listed(session, at, dump, form)
        return
    pages = list(session.cluster().pages(QUEUES.path(session.choice.system_namespace)))
    if form != "table":
        found = [
            raw
            for page in pages
            for raw in msgspec.json.decode(page, type=ItemList[msgspec.Raw]).items
        ]
        show_documents(
            session.out, [bytes(raw) for raw in found], form, "queue.scheduling.x-k8s.io"
        )
        return
    known = [
        queue for page in pages for queue in msgspec.json.decode(page, type=ItemList[Queue]).items
    ]
    now = session.clock.now()
    if not known:
        session.out.note(f"no queue is in namespace {session.choice.system_namespace}")
        return
    rows = [cells_of(queue, now) for queue in sorted(known, key=lambda each: each.metadata.name)]
    session.out.table(COLUMNS, rows, STYLES)


def _show_listed(session: Session, at: str | None, dump: str | None, form: str) -> None:
    from koord_queue.cli import listed  # noqa: PLC0415 - not for completion

    if dump is not None:
        found = listed.queues_of_dump(session, dump)
    else:
        assert at is not None
        found = listed.queues_at(session, at)
    listed.show_queues(session, found, form)
