"""Units that wait, as the aggregated API and the debug API list them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Pending(NamedTuple):
    """Where a unit waits.

    Attributes:
        queue: Its queue; "" if it is in none.
        position: Its place there, from 1; 0: it is on hold.
        start: Its median start by the last forecast, RFC 3339; "" without one.
        message: Why it waits, with numbers; "" if it has not been considered.
        reason: The same as one word.
    """

    namespace: str
    name: str
    queue: str = ""
    position: int = 0
    start: str = ""
    message: str = ""
    reason: str = ""


class _Struct(msgspec.Struct, frozen=True, rename="camel"):
    """Absent fields have defaults, unknown ones are ignored."""


class _Refusal(_Struct, frozen=True):
    reason: str = ""
    message: str = ""


# --- the aggregated API -----------------------------------------------------------------------


class _Metadata(_Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(_Struct, frozen=True):
    queue: str = ""


class _Status(_Struct, frozen=True):
    position: int = 0
    refusal: _Refusal | None = None
    start_p50: str | None = None


class _PendingUnit(_Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _PendingUnits(_Struct, frozen=True):
    items: list[_PendingUnit] = []
    others: int = 0


# --- the debug API ----------------------------------------------------------------------------


class _Unit(_Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    queue: str = ""
    position: int = 0
    refusal: _Refusal | None = None


class _Queue(_Struct, frozen=True):
    units: list[_Unit] = []


def read_pending_units(page: bytes) -> list[Pending]:
    """Return the units of a page of `pendingunits`."""
    return [
        Pending(
            each.metadata.namespace,
            each.metadata.name,
            each.spec.queue,
            each.status.position,
            each.status.start_p50 or "",
            *_said(each.status.refusal),
        )
        for each in msgspec.json.decode(page, type=_PendingUnits).items
    ]


def read_queue_page(page: bytes) -> list[Pending]:
    """Return the units of a page of `/debug/queues/{name}`."""
    return [
        Pending(each.namespace, each.name, each.queue, each.position, "", *_said(each.refusal))
        for each in msgspec.json.decode(page, type=_Queue).units
    ]


def _said(refusal: _Refusal | None) -> tuple[str, str]:
    return ("", "") if refusal is None else (refusal.message, refusal.reason)
