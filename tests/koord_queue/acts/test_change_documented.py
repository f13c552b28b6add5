"""The table of acts on the page of the command line says what they change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

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
RIGHTS = {
    On.JOB: "`patch` on the kind of the job",
    On.UNIT: "`patch` on `queueunits`",
    On.UNIT_STATUS: "`patch` on `queueunits/status`",
    On.QUEUE: "`patch` on `queues`",
    On.QUOTA: "`patch` on `elasticquotas`",
}
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


class Row(NamedTuple):
    """A row: acts, the changed object, its change, the right to it, what undoes it."""

    acts: tuple[str, ...]
    on: On
    changes: str
    right: str
    undo: str


def read_rows() -> list[Row]:
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## What these commands change")[2].partition("## submit")[0]
    lines = section.splitlines()
    cells = [map(str.strip, line.strip("|").split(" | ")) for line in lines if line[:3] == "| `"]
    return [Row(tuple(re.findall("`([^`]+)`", acts)), On(on), *rest) for acts, on, *rest in cells]


ROWS = read_rows()


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
    (act,) = row.acts
    if act in ON_UNITS:
        found = ON_UNITS[act](target(act, has_job=row.on is On.JOB))
    else:
        annotations = {STOP: "Hold"} if act == "resume" else {}
        queue = to_struct(Queue, queue_body("x", metadata={"annotations": annotations}))
        found = set_stop_policy(queue, ON_QUEUES[act])
    assert isinstance(found, Change)
    return found


ONE_ACT = [row for row in ROWS if len(row.acts) == 1]


@pytest.mark.parametrize("row", ONE_ACT, ids=lambda row: f"{row.acts[0]} on {row.on.value}")
def test_a_row_says_what_its_act_changes(row: Row) -> None:
    change = change_of(row)
    assert change.on is row.on
    patch = json.dumps(change.patch)
    for named in words(row.changes):
        assert named in patch
    undo = change.undo[0] if change.undo else "nothing"
    assert undo in row.undo
    assert row.right == RIGHTS[row.on]


def words(changes: str) -> Iterator[str]:
    """Yield the names and values in a cell, as they stand in a patch."""
    for text in re.findall("`([^`]+)`", changes):
        for part in text.removeprefix("spec.").split(": "):
            yield part.strip('"')


def test_every_act_has_a_row() -> None:
    acts = {act for row in ROWS for act in row.acts}
    assert acts == set(SECTIONS["Do"]) - {"submit"}


def test_a_change_of_the_quota_has_a_row_for_all_acts_on_queues() -> None:
    notes: dict[str, Any] = {STOP: "None", "koord-queue/copied-annotations": STOP}
    labels = {"create-by-koordqueue": "true"}
    queue = to_struct(Queue, queue_body("x", metadata={"annotations": notes, "labels": labels}))
    changes = [set_stop_policy(queue, policy) for policy in (HOLD, DRAIN)]
    assert [each.on for each in changes if isinstance(each, Change)] == [On.QUOTA, On.QUOTA]
    last = ROWS[-1]
    assert (last.acts, last.on) == (("stop", "drain", "resume"), On.QUOTA)
    assert last.right == RIGHTS[On.QUOTA]
