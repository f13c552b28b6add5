"""The command reservations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from click import UsageError

from koord_queue.cli.reservations import reservations
from koord_queue.reach.choice import Choice
from queue_insight.dump.codec import encode_dump
from queue_insight.dump.take import take_dump
from queue_scheduler.decision import Moment
from tests.koord_queue.cli.played_answers import run, session_with
from tests.queue_insight.offline.dump_files import SETTINGS, write
from tests.reserved_world import ReservedWorld

UNIT: Final = {"namespace": "ns", "name": "long", "queue": "q", "quota": "top", "ends": ""}
NIGHT: Final[dict[str, Any]] = {
    "name": "night",
    "ready": True,
    "all": True,
    "windows": [{"start": "2026-12-03T17:00:00Z", "end": "2026-12-03T19:00:00Z"}],
    "runsInto": 4,
    "units": [UNIT],
    "others": 3,
    "waiting": 2,
}
ALL: Final = {"at": None, "dump": None, "units": False}


def answered(*items: dict[str, Any]) -> dict[str, Any]:
    return {"/debug/reservations": {"total": len(items), "items": items}}


def test_reservations_with_what_runs_into_them() -> None:
    lines = run(reservations, session_with(answered(NIGHT)), **ALL)
    cells = [*NIGHT["windows"][0].values(), "4", "2", "Ready", "-"]
    assert [line.split() for line in lines[1:]] == [["night", "all", *cells]]


def test_units_that_run_into_them() -> None:
    session = session_with(answered(NIGHT))
    lines = run(reservations, session, **{**ALL, "units": True})
    start = NIGHT["windows"][0]["start"]
    assert [line.split() for line in lines[1:]] == [["night", start, "ns", "long", "q", "top", "-"]]
    said = "note: 3 more that you may not read, or that are beyond the first\n"
    assert session.err_text.getvalue() == said


@pytest.mark.parametrize(
    ("items", "units", "said"),
    [
        pytest.param((), False, "there is no reservation", id="no reservation"),
        pytest.param(({"name": "x"},), True, "no unit runs into the next windows", id="no unit"),
    ],
)
def test_where_there_is_nothing_it_says_so(items: Any, units: bool, said: str) -> None:
    session = session_with(answered(*items))
    assert run(reservations, session, **{**ALL, "units": units}) == []
    assert session.err_text.getvalue() == f"note: {said}\n"


def test_another_time_as_a_document() -> None:
    session = session_with(answered(NIGHT))
    then = "2026-11-01T10:00:00Z"
    lines = run(reservations, session, **{**ALL, "at": then}, form="json")
    assert msgspec.json.decode("\n".join(lines)) == [NIGHT]
    assert session.source.asked[0][1][0] == ("at", then)


def test_a_dump(tmp_path: Path) -> None:
    world = ReservedWorld()
    world.engine.on_reservations_served(are_served=True)
    world.ask("long", 1, 9)
    world.reserve()
    moment = Moment(0.0, datetime.fromtimestamp(world.second, UTC))
    dump = take_dump(world.engine.fork(), moment, SETTINGS, "1", leader=True)
    path = write(tmp_path, "dump.json", encode_dump(dump))
    given = {**ALL, "dump": str(path), "units": True}
    lines = run(reservations, session_with({}), **given)
    cells = ["upgrade", "2026-12-03T18:00:00Z", "ns", "long", "q", "vision", "2026-12-04T01:00:00Z"]
    assert [line.split() for line in lines[1:]] == [cells]


def test_no_namespace_is_meant() -> None:
    session = session_with({})
    session.choice = Choice(namespace="red")
    with pytest.raises(UsageError, match="-n names no reservations"):
        run(reservations, session, **ALL)
