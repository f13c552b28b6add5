"""The insight program is asked whether it records; what changes is an event on the own pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from queue_insight.insight_feed.record_watch import POLL_SECONDS, OwnPod, RecordWatch
from queue_scheduler.decision import Notice
from shared_api.objects.meta import Uid
from shared_api.process.clock import Clock, SystemClock
from tests.queue_insight.debug_api.test_insight_link import STATE, answering

POD = OwnPod("koord-queue/scheduler-0", Uid("uid-0"))
RECORDING = {"state": "recording", "reason": "", "completeFrom": "2026-11-01T10:00:00Z"}
TRIES = RECORDING | {"completeFrom": None}
FULL = {"state": "stopped", "reason": "database or disk is full", "completeFrom": None}
BROKEN = {"state": "stopped", "reason": "file is not a database", "completeFrom": None}
FULLER = FULL | {"reason": "database or disk is full; 0.1 MiB are free"}
LESS_FULL = FULL | {"reason": "database or disk is full; 12.5 MiB are free"}
OFF = {"state": "off", "reason": "", "completeFrom": None}


def notice(reason: str, note: str, *, warning: bool) -> Notice:
    return Notice(kind="Pod", key=POD.key, uid=POD.uid, reason=reason, note=note, warning=warning)


IS_FULL = notice(
    "RecordStopped",
    "decisions are not recorded: database or disk is full; it is tried again",
    warning=True,
)
IS_FULLER = notice(
    "RecordStopped",
    "decisions are not recorded: database or disk is full; 0.1 MiB are free; it is tried again",
    warning=True,
)
IS_BROKEN = notice(
    "RecordStopped",
    "decisions are not recorded: file is not a database; it is tried again",
    warning=True,
)
GOES_ON = notice(
    "RecordResumed", "decisions are recorded again, since 2026-11-01T10:00:00+00:00", warning=False
)


class Watching:
    """A watch, and the events that it reports."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.is_connected = True
        self.reported: list[Notice] = []
        self.watch = RecordWatch(
            folder,
            lambda: self.is_connected,
            self.reported.append,
            lambda: POD,
            clock or SystemClock(),
        )


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([RECORDING, RECORDING], [], id="all is well"),
        pytest.param([OFF, OFF], [], id="nothing is to be recorded"),
        pytest.param([FULL, FULL], [IS_FULL], id="it stays full"),
        pytest.param([FULL, TRIES], [IS_FULL], id="no call has come since"),
        pytest.param([FULL, BROKEN], [IS_FULL, IS_BROKEN], id="another reason"),
        pytest.param([FULLER, LESS_FULL], [IS_FULLER], id="another number in the reason"),
        pytest.param([FULL, RECORDING, RECORDING], [IS_FULL, GOES_ON], id="it goes on"),
        pytest.param([FULL, RECORDING, FULL], [IS_FULL, GOES_ON, IS_FULL], id="full again"),
    ],
)
def test_changes_are_reported_once(
    tmp_path: Path, answers: list[dict[str, Any]], want: list[Notice]
) -> None:
    watching, left = Watching(tmp_path), iter(answers)

    def answer(request: Request) -> Response:
        assert request.url.path == "/debug/insight"
        return JSONResponse(STATE | {"record": next(left)})

    with answering(tmp_path, answer):
        for _ in answers:
            assert watching.watch.step() == POLL_SECONDS
    assert watching.reported == want


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(JSONResponse({"detail": "no state yet"}, 503), id="it is starting"),
        pytest.param(PlainTextResponse("nothing"), id="another program"),
        pytest.param(JSONResponse({"record": 1}), id="another version"),
    ],
)
def test_an_answer_that_says_nothing_changes_nothing(tmp_path: Path, answer: Response) -> None:
    watching = Watching(tmp_path)
    with answering(tmp_path, lambda _: answer):
        assert watching.watch.step() == POLL_SECONDS
    assert watching.watch.step() == POLL_SECONDS  # nobody listens
    assert watching.reported == []


def test_a_program_that_does_not_follow_is_not_asked(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.is_connected = False
    with answering(tmp_path, lambda _: JSONResponse(STATE | {"record": FULL})):
        watching.watch.step()
        assert watching.reported == []
        watching.is_connected = True
        watching.watch.step()
    assert watching.reported == [IS_FULL]


class LaterClock(SystemClock):
    """The time, and a while later."""

    later_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_seconds


def test_while_it_lasts_it_is_said_again(tmp_path: Path) -> None:
    """An API server forgets events after an hour."""
    clock = LaterClock()
    watching = Watching(tmp_path, clock)
    with answering(tmp_path, lambda _: JSONResponse(STATE | {"record": FULL})):
        for clock.later_seconds in (0.0, 600.0, 1801.0, 2400.0):
            watching.watch.step()
    assert watching.reported == [IS_FULL, IS_FULL]
