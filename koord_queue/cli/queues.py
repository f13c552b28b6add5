"""`koord-queue queues`: what waits in each, what runs, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from koord_queue.answers.decoding import Answer, decode
from koord_queue.answers.queues import FairAccounts
from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.reach.resources import QUEUES, ItemList
from koord_queue.show.documents import show_document, show_documents
from koord_queue.show.queue_rows import COLUMNS, SHARE_COLUMNS, STYLES, cells_of, share_rows
from shared_api.objects.queue import Queue

if TYPE_CHECKING:
    from koord_queue.session.session import Session


class QueueAccounts(Answer, frozen=True):
    """What is read of the answer about one queue."""

    accounts: FairAccounts | None = None


@click.command()
@options.at
@options.from_dump
@click.option("--shares", "of", metavar="QUEUE", help="How much each user has used of this queue.")
@options.output("table", "json", "yaml", "name")
@options.reach
def queues(
    session: Session, *, at: str | None, dump: str | None, of: str | None, form: str
) -> None:
    """List queues: what waits in each, what runs, and what is wrong.

    Queues are in the namespace of the installation (--system-namespace).

    With --shares, the accounts of one queue with the policy Fair instead: how many times its share
    each has used, the most first, and which units it has.
    """
    options.refuse_namespace(session, "names no queues: they are where --system-namespace says.")
    if of is not None:
        if dump is not None or form == "name":
            wrong = "--from-dump" if dump is not None else "-o name"
            raise CommandError(f"--shares and {wrong} do not go together", "Leave one of them out.")
        _show_shares(session, of, at, form)
        return
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


def _show_shares(session: Session, name: str, at: str | None, form: str) -> None:
    query = (("limit", "1"), *((("at", at),) if at is not None else ()))
    found = decode(session.debug(f"/debug/queues/{name}", query), QueueAccounts)
    accounts = found.accounts
    if accounts is None:
        raise CommandError(
            f"queue {name} has no shares", "Only queues with the policy Fair order users by use."
        )
    if form != "table":
        show_document(session.out, {"accounts": msgspec.to_builtins(accounts)}, form)
    elif accounts.items:
        session.out.table(SHARE_COLUMNS, list(share_rows(accounts.items)), {})
    else:
        session.out.note("no account has used anything that you may read")
    if accounts.others:
        session.out.note(f"{accounts.others} more that you may not read, or that are in the middle")


def _show_listed(session: Session, at: str | None, dump: str | None, form: str) -> None:
    from koord_queue.cli import listed  # noqa: PLC0415 - not for completion

    if dump is not None:
        found = listed.queues_of_dump(session, dump)
    else:
        assert at is not None
        found = listed.queues_at(session, at)
    listed.show_queues(session, found, form)
