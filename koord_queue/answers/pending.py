"""Units that wait, as the aggregated API and the debug API list them."""

from __future__ import annotations

from typing import NamedTuple

from koord_queue.answers.decoding import Answer, decode
from koord_queue.answers.refusal import Refusal
from koord_queue.answers.units import Unit


class Pending(NamedTuple):
    """Where a unit waits.

    Attributes:
        queue: Its queue; "" if it is in none.
        position: Its place there, from 1; 0: it is on hold.
        start: Its median start by the last forecast, RFC 3339; "" without one.
        message: Why it waits, with numbers; "" if it has not been considered.
        reason: The same as one word.
        no_start: Why no start is known, in a few words; "" if one is, or if the reason is unknown.
    """

    namespace: str
    name: str
    queue: str = ""
    position: int = 0
    start: str = ""
    message: str = ""
    reason: str = ""
    no_start: str = ""


class _Metadata(Answer, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(Answer, frozen=True):
    queue: str = ""


class _Status(Answer, frozen=True):
    position: int = 0
    refusal: Refusal | None = None
    start_p50: str | None = None
    no_start: str = ""


class _PendingUnit(Answer, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _PendingUnits(Answer, frozen=True):
    items: tuple[_PendingUnit, ...] = ()


def read_pending_units(page: bytes) -> list[Pending]:
    """Return the units of a page of `pendingunits`."""
    return [
        Pending(
            each.metadata.namespace,
            each.metadata.name,
            each.spec.queue,
            each.status.position,
            each.status.start_p50 or "",
            *_message_and_reason(each.status.refusal),
            each.status.no_start,
        )
        for each in decode(page, _PendingUnits).items
    ]


def pending_of(unit: Unit) -> Pending:
    """Return where a unit of the debug API, or of a dump, waits; no start is known of it."""
    return Pending(
        unit.namespace, unit.name, unit.queue, unit.position, "", *_message_and_reason(unit.refusal)
    )


def _message_and_reason(refusal: Refusal | None) -> tuple[str, str]:
    return ("", "") if refusal is None else (refusal.message, refusal.reason)
