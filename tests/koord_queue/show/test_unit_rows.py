"""Units as rows: their state, their reason, and their order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from koord_queue.answers.pending import Pending, read_pending_units
from koord_queue.show.unit_rows import COLUMNS, ORDERS, WIDE_COLUMNS, UnitRow, sort_rows, table_of
from shared_api.lifecycle import LifecycleState
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase

NOW: Final = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
REFUSED: Final = {"type": "QuotaReserved", "status": "False", "reason": "OverQuotaMax",
                  "message": "no room"}  # fmt: skip


def row(
    name: str,
    phase: str = "Enqueued",
    *,
    pending: Pending | None = None,
    conditions: tuple[dict[str, str], ...] = (),
    hour: int = 1,
    **spec: Any,
) -> UnitRow:
    body = {
        "metadata": {
            "name": name,
            "namespace": "web",
            "creationTimestamp": f"2026-11-26T{hour:02}:00:00Z",
            "labels": {"quota.scheduling.koordinator.sh/name": "q", "koord-queue/user": "ann"},
        },
        "spec": {"queue": "team", "consumerRef": {"kind": "Job", "name": name}, **spec},
        "status": {"phase": phase, "conditions": list(conditions)},
    }
    return UnitRow(msgspec.convert(body, QueueUnit), pending)


def test_each_phase_has_a_state() -> None:
    states = {phase: row("a", phase.value).state for phase in Phase}
    assert set(states.values()) == {each.cell for each in LifecycleState}
    assert row("a", "Dreaming").state == "Dreaming"


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(row("a", conditions=(REFUSED,)), ("Waiting", 0, "OverQuotaMax", "no room"),
            id="from the object alone"),
        pytest.param(row("a", pending=Pending("web", "a", "team", 3, "", "full", "Behind")),
            ("Waiting", 3, "Behind", "full"), id="from who knows better"),
        pytest.param(row("a", pending=Pending("web", "a")), ("OnHold", 0, "", ""),
            id="in no queue"),
        pytest.param(row("a", "Running", conditions=(REFUSED,)), ("Running", 0, "", ""),
            id="an old refusal is no reason"),
        pytest.param(row("a", "TimeoutBackoff"), ("OnHold", 0, "Backoff", ""), id="it backs off"),
        pytest.param(row("a", "Failed", conditions=(REFUSED,)), ("Finished", 0, "Failed", ""),
            id="how it ended"),
    ],
)  # fmt: skip
def test_what_is_known_of_a_unit(unit: UnitRow, want: tuple[str, int, str, str]) -> None:
    assert (unit.state, unit.position, unit.reason, unit.message) == want


def test_a_user_whose_name_fits_in_no_label_is_shown() -> None:
    shown = row("a").unit
    name = "system:serviceaccount:web:runner"
    meta = msgspec.structs.replace(
        shown.metadata, labels={}, annotations={"koord-queue/submitted-by": name}
    )
    unit = UnitRow(msgspec.structs.replace(shown, metadata=meta))
    assert unit.cells(NOW, is_wide=True)[WIDE_COLUMNS.index("USER")] == name


def test_cells_fit_their_headings() -> None:
    start = Pending("web", "a", "team", 1, "2026-11-26T12:10:00Z", "full", "OverQuotaMax")
    rows = [row("a", pending=start, priority=5)]
    columns, ((*cells,),) = table_of(rows, NOW, is_wide=True, has_namespaces=True)
    assert columns == ["NAMESPACE", *WIDE_COLUMNS]
    assert cells == ["web", "a", "job/a", "team", "Waiting", "1", "10m", "11h", "Enqueued",
                     "5", "q", "ann", "OverQuotaMax", "full"]  # fmt: skip
    columns, ((*cells,),) = table_of(rows, NOW, is_wide=False, has_namespaces=False)
    assert (columns, len(cells)) == (list(COLUMNS), len(COLUMNS))


def test_why_no_start_is_told_stands_in_its_place() -> None:
    said = "not known yet: 0 of 5 runs"
    pending = Pending("web", "a", "team", 1, no_start=said)
    columns, (cells,) = table_of(
        [row("a", pending=pending)], NOW, is_wide=False, has_namespaces=False
    )
    assert cells[columns.index("STARTS")] == said


@pytest.mark.parametrize(
    ("by", "want"),
    [("queue", "run second first ended"), ("age", "first second run ended"),
     ("priority", "second first run ended"), ("start", "first run second ended"),
     ("name", "ended first run second")],
)  # fmt: skip
def test_orders(by: str, want: str) -> None:
    rows = [
        row("ended", "Succeed", hour=4),
        row("first", hour=1, pending=Pending("", "", "team", 2, "2026-11-26T12:10:00Z")),
        row("run", "Running", hour=3),
        row("second", hour=2, pending=Pending("", "", "team", 1), priority=9),
    ]
    assert " ".join(each.unit.metadata.name for each in sort_rows(rows, by)) == want


def test_all_orders_are_tested() -> None:
    assert set(ORDERS) == {"queue", "age", "priority", "start", "name"}


def test_a_unit_of_the_aggregated_api_is_read() -> None:
    page = (
        b'{"items":[{"metadata":{"name":"a","namespace":"web"},"spec":{"queue":"team"},'
        b'"status":{"position":2,"startP50":"2026-11-26T12:10:00Z","refusal":null}}]}'
    )
    assert read_pending_units(page) == [
        Pending("web", "a", "team", 2, "2026-11-26T12:10:00Z", "", "")
    ]
