"""The table of acts says what they change; the page of the command line has the same rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from koord_queue.acts.change import Already, AnyObject, Change, On, Target
from koord_queue.acts.on_queues import DRAIN, HOLD, NONE, set_stop_policy
from koord_queue.acts.on_units import (
    activate,
    deactivate,
    hold,
    move,
    release,
    requeue,
    set_priority,
)
from koord_queue.acts.overview import ROWS, Row
from koord_queue.cli.app import SECTIONS
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import (
    job_body,
    queue_body,
    queue_unit_body,
    to_struct,
    with_status,
)

Act = Callable[[Target], Change | Already]
PAGE = Path(__file__).resolve().parents[3] / "docs/command-line.md"
STOP = "koord-queue/stop-policy"
BLOCK = {"koord-queue/block-for-test": "true"}

ON_UNITS: dict[str, Act] = {
    "priority": lambda target: set_priority(target, 7),
    "move": lambda target: move(target, "night"),
    "hold": hold,
    "release": release,
    "deactivate": deactivate,
    "activate": activate,
    "requeue": lambda target: requeue(target, datetime(2026, 11, 1, tzinfo=UTC)),
}
ON_QUEUES = {"stop": HOLD, "drain": DRAIN, "resume": NONE}


def target(act: str, *, has_job: bool) -> Target:
    """Return a unit that the act changes."""
    notes = dict(BLOCK) if act == "release" else {}
    managed = {"koord-queue/managed-by": "koord-queue-controllers"} if has_job else {}
    spec: dict[str, Any] = {"active": False} if act == "activate" else {}
    body = queue_unit_body("x", queue="day", metadata={"annotations": {**managed, **notes}}, **spec)
    unit = with_status(body, phase="Running" if act == "requeue" else "Enqueued")
    job = to_struct(AnyObject, job_body("x", metadata={"annotations": notes}))
    return Target(named="x", unit=to_struct(QueueUnit, unit), job=job if has_job else None)


def change_of(row: Row) -> Change:
    if row.act in ON_UNITS:
        found = ON_UNITS[row.act](target(row.act, has_job=row.on is On.JOB))
    else:
        annotations = {STOP: "Hold"} if row.act == "resume" else {}
        queue = to_struct(Queue, queue_body("x", metadata={"annotations": annotations}))
        found = set_stop_policy(queue, ON_QUEUES[row.act])
    assert isinstance(found, Change)
    return found


ONE_ACT = [row for row in ROWS if "," not in row.act]


@pytest.mark.parametrize("row", ONE_ACT, ids=lambda row: f"{row.act} on {row.on.value}")
def test_a_row_says_what_its_act_changes(row: Row) -> None:
    change = change_of(row)
    assert change.on is row.on
    patch = json.dumps(change.patch)
    for named in words(row.changes):
        assert named in patch
    undo = change.undo[0] if change.undo else "nothing"
    assert undo in row.undo


def words(changes: str) -> Iterator[str]:
    """Yield the names and values in a cell, as they stand in a patch."""
    for text in re.findall("`([^`]+)`", changes):
        for part in text.removeprefix("spec.").split(": "):
            yield part.strip('"')


def test_every_act_has_a_row() -> None:
    acts = {act for row in ROWS for act in row.act.split(", ")}
    assert acts == set(SECTIONS["Do"]) - {"submit"}


def test_the_page_has_the_rows_of_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = (
        text.partition("## What these commands change")[2].partition("## submit")[0].splitlines()
    )
    cells = [line.strip("|").split(" | ") for line in lines if line.startswith("| `")]
    got = [tuple(cell.strip() for cell in row) for row in cells]
    want = [(shown(row.act), row.on.value, row.changes, row.right, row.undo) for row in ROWS]
    assert got == want


def shown(acts: str) -> str:
    return ", ".join(f"`{act}`" for act in acts.split(", "))


def test_a_change_of_the_quota_has_a_row_for_all_acts_on_queues() -> None:
    notes: dict[str, Any] = {STOP: "None", "koord-queue/copied-annotations": STOP}
    labels = {"create-by-koordqueue": "true"}
    queue = to_struct(Queue, queue_body("x", metadata={"annotations": notes, "labels": labels}))
    changes = [set_stop_policy(queue, policy) for policy in (HOLD, DRAIN)]
    assert [each.on for each in changes if isinstance(each, Change)] == [On.QUOTA, On.QUOTA]
    assert ROWS[-1].act.split(", ") == ["stop", "drain", "resume"]
