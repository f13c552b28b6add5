"""Units and queues of a dump, as lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from koord_queue.reach.dump import open_dump
from koord_queue.show.documents import show_document

if TYPE_CHECKING:
    from koord_queue.cli.session import Session
    from koord_queue.reach.dump import DumpSource

UNIT_COLUMNS: Final = ("NAMESPACE", "NAME", "STATE", "QUEUE", "QUOTA", "POS", "MESSAGE")
QUEUE_COLUMNS: Final = ("NAME", "POLICY", "PENDING", "ADMITTED", "QUOTAS")


def show_units(session: Session, dump: str, form: str) -> None:
    """Write the units of a dump: a table, or what the debug API answers."""
    source = _open(session, dump)
    if form in {"json", "yaml"}:
        show_document(session.out, source.tree("units"), form)
        return
    units = source.units()
    if form == "name":
        for each in units:
            session.out.paragraph(f"queueunit.scheduling.x-k8s.io/{each.name}")
        return
    rows = [
        (
            each.namespace,
            each.name,
            each.standing,
            each.queue,
            each.quota,
            str(each.position) if each.position else "",
            "" if each.refusal is None else each.refusal.message,
        )
        for each in units
    ]
    session.out.table(UNIT_COLUMNS, rows)


def show_queues(session: Session, dump: str, form: str) -> None:
    """Write the queues of a dump: a table, or what the debug API answers."""
    source = _open(session, dump)
    if form in {"json", "yaml"}:
        show_document(session.out, source.tree("queues"), form)
        return
    queues = source.queues()
    if form == "name":
        for each in queues:
            session.out.paragraph(f"queue.scheduling.x-k8s.io/{each.name}")
        return
    rows = [
        (each.name, each.policy, str(each.pending), str(each.admitted), ",".join(each.quotas))
        for each in queues
    ]
    session.out.table(QUEUE_COLUMNS, rows)


def _open(session: Session, dump: str) -> DumpSource:
    source = open_dump(dump)
    source.note_differences(session.out.note)
    return source
