"""Tables for spreadsheets (CSV), and the units of a queue as one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Final

from queue_insight.page.queue_view import UnitRow

COLUMNS: Final = (
    "position",
    "namespace",
    "name",
    "kind",
    "job",
    "quota",
    "priority",
    "phase",
    "reason",
    "created",
    "starts",
    "demand",
)

_FORMULAS: Final = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")
"""What a formula begins with, or what is skipped before it; as well in full width (East Asia)."""


def encode_csv(units: Iterable[UnitRow]) -> str:
    """Return units as CSV."""
    return write_table(COLUMNS, map(_cells_of, units))


def _cells_of(unit: UnitRow) -> tuple[object, ...]:
    return (
        unit.position,
        unit.namespace,
        unit.name,
        unit.job.kind,
        unit.job.name,
        unit.quota,
        unit.priority,
        unit.phase,
        "" if unit.refusal is None else unit.refusal.reason,
        unit.created,
        unit.starts or unit.no_start,
        in_one_cell(unit.demand),
    )


def write_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV, with the names of its columns first; no cell is read as a formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    for each in rows:
        writer.writerow(map(_harmless, each))
    return out.getvalue()


def in_one_cell(amounts: Mapping[str, str]) -> str:
    """Return quantities by resource as one text."""
    return " ".join(f"{resource}={amount}" for resource, amount in amounts.items())


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell
