"""Units as a `Table`: the columns of `kubectl get`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from queue_scheduler.visibility.resources import ListMetaView, PendingUnit
from shared_api.durations import human_duration
from shared_api.timestamps import read_time

Json = dict[str, Any]

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
"""What kubectl prints for missing values."""

INCLUDES: Final = ("Metadata", "Object", "None")
"""Values of `includeObject`; the first is the default."""


class _Column(NamedTuple):
    name: str
    cell: Callable[[PendingUnit, datetime], object]
    says: str
    type: str = "string"
    format: str = ""
    priority: int = 0


def _starts_in(unit: PendingUnit, now: datetime) -> str:
    start = read_time(unit.status.start_p50)
    return UNKNOWN if start is None else human_duration(max(0.0, (start - now).total_seconds()))


def _age(unit: PendingUnit, now: datetime) -> str:
    since = read_time(unit.metadata.creation_timestamp)
    return UNKNOWN if since is None else human_duration((now - since).total_seconds())


def _job(unit: PendingUnit, _now: datetime) -> str:
    job = unit.spec.job
    return f"{job.kind}/{job.name}" if job.name else NONE


COLUMNS: Final = (
    _Column("Name", lambda unit, _: unit.metadata.name, "Name of the unit.", format="name"),
    _Column("Queue", lambda unit, _: unit.spec.queue or NONE, "The queue that it waits in."),
    _Column(
        "Position",
        lambda unit, _: str(unit.status.position or NONE),
        "Its place in its queue.",
    ),
    _Column(
        "Reason",
        lambda unit, _: unit.status.refusal.reason if unit.status.refusal else NONE,
        "Why it waits.",
    ),
    _Column("Starts In", _starts_in, "Until its median start by the last forecast."),
    _Column("Age", _age, "Since it was created."),
    _Column("Quota", lambda unit, _: unit.spec.quota or NONE, "Its quota.", priority=1),
    _Column(
        "Priority",
        lambda unit, _: unit.spec.priority,
        "The priority that counts in its queue.",
        type="integer",
        priority=1,
    ),
    _Column("Job", _job, "The job behind it.", priority=1),
    _Column(
        "Message",
        lambda unit, _: unit.status.refusal.message if unit.status.refusal else NONE,
        "Why it waits, in words.",
        priority=1,
    ),
)


def build_table(
    units: Sequence[PendingUnit], metadata: ListMetaView, now: datetime, include: str
) -> Json:
    """Return units as a `Table`.

    Args:
        units: The rows.
        metadata: Of the page.
        now: The time, for ages.
        include: What each row has of its object: one of `INCLUDES`.
    """
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata.model_dump(by_alias=True, exclude_defaults=True),
        "columnDefinitions": [
            {
                "name": each.name,
                "type": each.type,
                "format": each.format,
                "description": each.says,
                "priority": each.priority,
            }
            for each in COLUMNS
        ],
        "rows": [_row(unit, now, include) for unit in units],
    }


def _row(unit: PendingUnit, now: datetime, include: str) -> Json:
    row: Json = {"cells": [each.cell(unit, now) for each in COLUMNS]}
    if include == "Object":
        row["object"] = unit.model_dump(by_alias=True)
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": unit.metadata.model_dump(by_alias=True),
        }
    return row
