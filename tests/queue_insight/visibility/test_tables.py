"""Units as kubectl prints them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.visibility.resources import (
    ListMetaView,
    ObjectMetaView,
    PendingUnit,
    PendingUnitSpec,
    PendingUnitStatus,
)
from queue_insight.visibility.tables import COLUMNS, build_table
from queue_scheduler.debug_api.views import ConsumerView, RefusalView

NOW = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)


def unit(*, is_known: bool = True) -> PendingUnit:
    """Return a unit about which all is known, or as little as there may be."""
    job = ConsumerView(api_version="batch/v1", kind="Job", name="train") if is_known else None
    return PendingUnit(
        metadata=ObjectMetaView(
            name="a",
            namespace="ns",
            creation_timestamp="2026-11-01T09:00:00Z" if is_known else None,
        ),
        spec=PendingUnitSpec(
            queue="team" if is_known else "",
            quota="team" if is_known else "",
            priority=3,
            job=job or ConsumerView(),
            demand={},
        ),
        status=PendingUnitStatus(
            position=2 if is_known else 0,
            scheduler_state="waiting",
            refusal=RefusalView(reason="OverQuotaMax", message="needs more") if is_known else None,
            start_p50="2026-11-01T10:05:00Z" if is_known else None,
        ),
    )


def cells(*units: PendingUnit) -> list[list[Any]]:
    rows = build_table(COLUMNS, units, ListMetaView(), NOW, "None")["rows"]
    return [row["cells"] for row in rows]


def test_the_columns_are_those_of_kubectl() -> None:
    wide = [column.name for column in COLUMNS if column.priority]
    narrow = [column.name for column in COLUMNS if not column.priority]
    assert narrow == ["Name", "Queue", "Position", "Reason", "Starts In", "Age"]
    assert wide == ["Quota", "Priority", "Job", "Message"]
    got = build_table(COLUMNS, [], ListMetaView(), NOW, "None")["columnDefinitions"]
    assert [each["priority"] for each in got] == [0] * len(narrow) + [1] * len(wide)
    assert got[0]["format"] == "name"


def test_a_row_says_what_is_known() -> None:
    known = ["a", "team", "2", "OverQuotaMax", "5m", "60m", "team", 3, "Job/train", "needs more"]
    unknown = ["a", "<none>", "<none>", "<none>", "<unknown>", "<unknown>", "<none>", 3]
    unknown += ["<none>", "<none>"]
    assert cells(unit(), unit(is_known=False)) == [known, unknown]


def test_a_start_that_is_overdue_is_now() -> None:
    late = unit()
    status = late.status.model_copy(update={"start_p50": "2026-11-01T09:00:00Z"})
    assert cells(late.model_copy(update={"status": status}))[0][4] == "0s"


@pytest.mark.parametrize("said", ["not known yet: 0 of 5 runs", "not as things are"])
def test_why_no_start_is_told_stands_in_its_place(said: str) -> None:
    early = unit()
    status = early.status.model_copy(update={"start_p50": None, "no_start": said})
    assert cells(early.model_copy(update={"status": status}))[0][4] == said


@pytest.mark.parametrize(
    ("include", "want"),
    [("Metadata", "PartialObjectMetadata"), ("Object", "PendingUnit"), ("None", "")],
)
def test_a_row_has_as_much_of_its_object_as_is_asked_for(include: str, want: str) -> None:
    table = build_table(COLUMNS, [unit()], ListMetaView(continue_="x"), NOW, include)
    (row,) = table["rows"]
    assert (row.get("object", {}).get("kind", ""), table["metadata"]) == (want, {"continue": "x"})
    if want:
        assert row["object"]["metadata"]["namespace"] == "ns"
