"""Reservations as rows of tables: one for each, or one for each unit that runs into it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from koord_queue.answers.reservations import Reservation

COLUMNS: Final = (
    *("RESERVATION", "SCOPE", "FROM", "UNTIL", "RUNS-INTO", "WAITING", "STATE", "MESSAGE"),
)
UNIT_COLUMNS: Final = ("RESERVATION", "FROM", "NAMESPACE", "NAME", "QUEUE", "QUOTA", "ENDS")
READY: Final = "Ready"
STYLES: Final = {READY: "good", "QuotaMissing": "bad", "UnreadableReservation": "bad"}
"""How a state looks on a terminal."""
NAMED: Final = 3
"""Quotas of a scope that a row names."""


def row_of(reservation: Reservation) -> list[str]:
    """Return the cells of a reservation with its present or next window, for `COLUMNS`."""
    window = next(iter(reservation.windows), None)
    state = READY if reservation.ready else reservation.reason or "Unknown"
    return [
        reservation.name,
        _scope(reservation),
        "" if window is None else window.start,
        "" if window is None else window.end,
        str(reservation.runs_into),
        str(reservation.waiting),
        state,
        "" if reservation.ready else reservation.message,
    ]


def unit_rows(reservations: Iterable[Reservation]) -> Iterator[list[str]]:
    """Yield a row for each unit that runs into a window and is named, for `UNIT_COLUMNS`."""
    for each in reservations:
        for unit in each.units:
            where = [each.name, each.windows[0].start if each.windows else ""]
            yield [*where, unit.namespace, unit.name, unit.queue, unit.quota, unit.ends]


def _scope(reservation: Reservation) -> str:
    """Return the quotas of the scope, as a cell without spaces."""
    if reservation.all:
        return "all"
    more = len(reservation.quotas) - NAMED
    return ",".join((*reservation.quotas[:NAMED], *((f"+{more}",) if more > 0 else ())))
