"""Edits of QueueReservations: made, changed and deleted in a fork, and refused if wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import Edit, EditError
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_reservation import ReservationScope
from tests.budget_world import at
from tests.properties.engine_kit import new_engine
from tests.reserved_world import build_reservation, build_spec, schedules_at

WALL = datetime(2026, 12, 3, 16, tzinfo=UTC)
T1 = at("2026-12-03T18:00")
NEW = {"scope": {"all": True}, "start": "2026-12-04T18:00", "duration": "1h"}


def edited(*edits: Edit) -> Engine:
    engine, _ = new_engine()
    spec = build_spec(scope=ReservationScope(quotas=("a",)))
    reservation = build_reservation(spec=spec)
    engine.on_schedules(schedules_at(reservation, int(WALL.timestamp())))
    engine.on_reservation(reservation)
    apply_edits(engine, edits, WALL)
    return engine


def reservation(patch: Any, name: str = "upgrade", **more: Any) -> Edit:
    return Edit(kind="QueueReservation", name=name, patch=patch, **more)


def windows(engine: Engine) -> dict[str, tuple[int, int]]:
    """Return when the first window of each reservation begins and how long it is, in hours."""
    first = {rule.name: rule.windows[0] for rule in engine.reservations.rules()}
    return {
        name: ((start - T1) // 3600, (end - start) // 3600) for name, (start, end) in first.items()
    }


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(reservation({"spec": {"duration": "3h"}}), {"upgrade": (0, 3)}, id="changed"),
        pytest.param(reservation(None), {}, id="deleted"),
        pytest.param(
            reservation({"spec": NEW}, "new"), {"upgrade": (0, 2), "new": (24, 1)}, id="created"
        ),
        pytest.param(
            reservation({"spec": {"start": "2026-12-03T19:00"}}, namespace="koord-queue"),
            {"upgrade": (1, 2)},
            id="moved",
        ),
    ],
)
def test_an_edit_counts_at_once(edit: Edit, want: dict[str, tuple[int, int]]) -> None:
    assert windows(edited(edit)) == want


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(
            reservation(None, "x"), "name: there is no QueueReservation 'x'", id="unknown"
        ),
        pytest.param(
            reservation({}, namespace="ns"),
            "namespace: reservations are in 'koord-queue'",
            id="elsewhere",
        ),
        pytest.param(
            reservation({"spec": {"duration": "-1h"}}), "patch.spec.duration: ", id="negative"
        ),
        pytest.param(
            reservation({"spec": {"timeZone": "Europe/Nowhere"}}),
            "patch.spec: timeZone: there is no time zone 'Europe/Nowhere'",
            id="no such zone",
        ),
        pytest.param(
            reservation({"spec": {"scope": {"quotas": []}}}), "patch.spec: scope: ", id="no scope"
        ),
    ],
)
def test_a_wrong_edit_is_refused(edit: Edit, want: str) -> None:
    with pytest.raises(EditError) as caught:
        edited(edit)
    assert want in str(caught.value)
