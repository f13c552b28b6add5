"""The units of a queue as a table for spreadsheets (CSV)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
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

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


def encode_csv(units: Iterable[UnitRow]) -> str:
    """Return units as CSV; no cell is read as a formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for each in units:
        demand = " ".join(f"{resource}={amount}" for resource, amount in each.demand.items())
        reason = "" if each.refusal is None else each.refusal.reason
        cells = (
            each.namespace,
            each.name,
            each.job.kind,
            each.job.name,
            each.quota,
            each.priority,
            each.phase,
            reason,
            each.created,
            each.starts or each.no_start,
            demand,
        )
        writer.writerow((each.position, *map(_harmless, cells)))
    return out.getvalue()


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell
