"""Units, explanations and forecasts as a `Table`: the columns of `kubectl get`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from queue_insight.visibility.resources import (
    ListMetaView,
    PendingUnit,
    UnitExplanation,
    UnitForecast,
)
from shared_api.durations import human_duration
from shared_api.timestamps import read_time

Json = dict[str, Any]
ShownT = TypeVar("ShownT", PendingUnit, UnitExplanation, UnitForecast)

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
"""What kubectl prints for missing values."""

INCLUDES: Final = ("Metadata", "Object", "None")
"""Values of `includeObject`; the first is the default."""


class _Column(NamedTuple):
    name: str
    cell: Callable[[Any, datetime], object]
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0


Columns = tuple[_Column, ...]


def _until(text: str | None, now: datetime) -> str:
    """Return how long it is until a time; one that has passed is now."""
    moment = read_time(text)
    return UNKNOWN if moment is None else human_duration(max(0.0, (moment - now).total_seconds()))


def _unit_start(unit: PendingUnit, now: datetime) -> str:
    return unit.status.no_start or _until(unit.status.start_p50, now)


def _forecast_start(unit: UnitForecast, now: datetime) -> str:
    return unit.status.no_times or _until(unit.status.start_p50, now)


def _age(unit: PendingUnit, now: datetime) -> str:
    since = read_time(unit.metadata.creation_timestamp)
    return UNKNOWN if since is None else human_duration((now - since).total_seconds())


def _job(unit: PendingUnit, _now: datetime) -> str:
    job = unit.spec.job
    return f"{job.kind}/{job.name}" if job.name else NONE


_NAME: Final = _Column(
    "Name", lambda shown, _: shown.metadata.name, "Name of the unit.", format="name"
)

COLUMNS: Final = (
    _NAME,
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
    _Column(
        "Starts In",
        _unit_start,
        "Until its median start by the last forecast.",
    ),
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


EXPLANATION_COLUMNS: Final = (
    _NAME,
    _Column("Verdict", lambda unit, _: unit.status.verdict, "Where the unit stands."),
    _Column("Summary", lambda unit, _: unit.status.summary, "What keeps it there."),
)

FORECAST_COLUMNS: Final = (
    _NAME,
    _Column("Starts In", _forecast_start, "The median, or why no times are told."),
    _Column("Earliest", lambda unit, now: _until(unit.status.start_p10, now), "One of ten."),
    _Column("Latest", lambda unit, now: _until(unit.status.start_p90, now), "Nine of ten."),
    _Column("Ends In", lambda unit, now: _until(unit.status.end_p50, now), "The median."),
    _Column(
        "Age",
        lambda unit, _: human_duration(unit.status.age_seconds),
        "Since the forecast was made.",
    ),
)


def build_table(
    columns: Columns,
    shown: Sequence[ShownT],
    metadata: ListMetaView,
    now: datetime,
    include: str,
) -> Json:
    """Return objects as a `Table`.

    Args:
        columns: Those of their kind.
        shown: The rows.
        metadata: The metadata of the page.
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
                "description": each.description,
                "priority": each.priority,
            }
            for each in columns
        ],
        "rows": [_row(columns, each, now, include) for each in shown],
    }


def _row(columns: Columns, shown: ShownT, now: datetime, include: str) -> Json:
    row: Json = {"cells": [each.cell(shown, now) for each in columns]}
    if include == "Object":
        row["object"] = shown.model_dump(by_alias=True)
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": shown.metadata.model_dump(by_alias=True),
        }
    return row
