"""Questions that the scheduler forwards: what comes back, and what is said when nothing does."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec
import pytest
from anyio import from_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from queue_insight.debug_api import app, insight_link, what_if_routes
from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.insight_link import GONE, InsightLink
from queue_insight.debug_api.insight_views import InsightView, LogEntryView, LogView
from queue_insight.debug_api.question_caller import caller_named_by_scheduler
from queue_insight.dump.codec import decode_dump
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_feed import http_over_socket
from queue_insight.insight_feed.messages import ANSWERS_SOCKET
from queue_insight.insight_program.answer_server import AnswerServer
from queue_scheduler.debug_api import app as state_app
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.additions import OFF
from queue_scheduler.debug_api.hiding import OF_OTHERS, hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.caller_shares import token_key
from shared_api.debug_api.access import open_access
from shared_api.process.clock import SystemClock
from shared_api.process.local_socket import listen_at
from shared_api.process.loop_thread import LoopThread
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served
from tests.waiting import until

AT = "at=2026-11-01T10:00:00Z"
STATE = {
    "connected": True,
    "number": 5,
    "stateAt": "2026-11-01T10:00:00Z",
    "ageSeconds": 1.5,
    "followingSince": "2026-11-01T09:00:00Z",
    "leader": False,
    "record": {"state": "off", "reason": "", "completeFrom": None},
}

TIMES = {"startP10": None, "startP50": None, "startP90": None, "endP50": None}
FORECAST = {
    **TIMES,
    "name": "a",
    "queue": "team",
    "withoutArrivals": TIMES,
    "outlook": "notKnownYet",
    "noTimes": "not known yet: 3 of 5 runs",
    "similarRuns": 3,
    "neededRuns": 5,
    "sample": 40,
    "seed": 0,
    "computedAt": "2026-11-01T10:00:00Z",
    "ageSeconds": 1.5,
}
FORECASTS: dict[str, Any] = {
    "queue": "team",
    "total": 2,
    "offset": 0,
    "limit": 100,
    "units": [FORECAST | {"namespace": "other"}, FORECAST | {"namespace": "mine"}],
    "others": 0,
}

ANONYMOUS = f"would delay a unit before it that does not fit yet: {OF_OTHERS}"

Handler = Callable[[Request], Response]


@contextmanager
def answering(folder: Path, handler: Handler) -> Iterator[None]:
    """Play the insight program: answer every question like this."""
    route = Route("/{_:path}", handler, methods=["GET", "POST"])
    server = AnswerServer(listen_at(folder / ANSWERS_SOCKET), lambda: Starlette(routes=[route]))
    thread = LoopThread("answers", server.step, SystemClock(), unblock=server.end)
    thread.start()
    try:
        yield
    finally:
        assert thread.stop(60.0)
        server.close()


@contextmanager
def asking(kit: ShellKit, folder: Path | None) -> Iterator[httpx.Client]:
    answers = Answers(StateAnswers(kit.shared, lambda: True))
    built = build_whole_app(answers, open_access, (), "0.0.0", InsightLink(folder))
    with served(built) as client:
        yield client


def detail_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]


def test_the_question_arrives_and_its_answer_comes_back(kit: ShellKit, tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(str(request.url.path) + "?" + request.url.query)
        return JSONResponse(STATE)

    with answering(tmp_path, answer), asking(kit, tmp_path) as client:
        assert client.get("/debug/insight?x=a%20b").json() == STATE
    assert asked == ["/debug/insight?x=a%20b"]


@pytest.mark.parametrize(
    "path",
    [
        "/debug/queues",
        "/debug/queues/team",
        "/debug/queueunits/default/a",
        "/debug/queueunits/default/a/explain",
        "/debug/quotas",
        "/debug/reservations",
    ],
)
def test_only_a_question_about_a_time_is_forwarded(
    kit: ShellKit, tmp_path: Path, path: str
) -> None:
    kit.add_unit("a")
    with asking(kit, tmp_path) as client:
        now = client.get(path)
        assert now.status_code == 200
        assert detail_of(client.get(f"{path}?{AT}")) == (503, GONE)
    with (
        answering(tmp_path, lambda _: Response(now.content, media_type="application/json")),
        asking(kit, tmp_path) as client,
    ):
        assert client.get(f"{path}?{AT}").json() == now.json()


def test_units_that_the_caller_may_not_read_are_taken_out_here(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program answers with everything."""
    kit.add_unit("a")
    filtered: list[str] = []

    def taken_out(view: views.UnitView, may_read: object) -> views.UnitView:
        assert callable(may_read)
        filtered.append(view.name)
        return view

    monkeypatch.setattr(state_app, "hide", taken_out)
    with asking(kit, tmp_path) as client:
        now = client.get("/debug/queueunits/default/a")
    with (
        answering(tmp_path, lambda _: Response(now.content, media_type="application/json")),
        asking(kit, tmp_path) as client,
    ):
        client.get(f"/debug/queueunits/default/a?{AT}")
    assert filtered == ["a", "a"]


def entry(unit: str, reason: str, **more: object) -> LogEntryView:
    reported: dict[str, Any] = {"message": "needs more cpu", "victims": [], **more}
    at = datetime(2026, 11, 1, tzinfo=UTC)
    return LogEntryView(
        time=at,
        number=1,
        kind="Refused",
        unit=unit,
        queue="team",
        quota="team",
        reason=reason,
        **reported,
    )


def test_the_log_names_no_units_of_namespaces_that_may_not_be_read() -> None:
    victims = ["own/v", "other/v"]
    items = [entry(unit, "OverQuotaMax", victims=victims) for unit in ("own/a", "other/b")]
    shown = hide(LogView(items=items, cursor=7), lambda namespace: namespace == "own")
    assert [(each.unit, each.message) for each in shown.items] == [
        ("own/a", "needs more cpu"),
        ("", ""),
    ]
    assert [(each.victims, each.others) for each in shown.items] == [(["own/v"], 1)] * 2
    assert shown.cursor == 7


@pytest.mark.parametrize(
    ("unit", "other", "message"),
    [
        pytest.param("own/a", "own/b", "waits behind own/b", id="its own"),
        pytest.param("own/a", "other/b", ANONYMOUS, id="of another namespace"),
        pytest.param("own/a", "", ANONYMOUS, id="not kept, by an earlier version"),
        pytest.param("other/a", "own/b", "", id="a hidden unit behind its own"),
    ],
)
def test_a_message_of_the_log_names_no_unit_of_others(unit: str, other: str, message: str) -> None:
    reported = entry(
        unit, "WouldDelayHead", other=other, message=f"waits behind {other or 'other/b'}"
    )
    (shown,) = hide(LogView(items=[reported]), lambda namespace: namespace == "own").items
    assert shown.message == message
    assert "other" not in f"{shown.unit} {shown.other} {shown.message}".replace(ANONYMOUS, "")


@pytest.mark.parametrize(("namespace", "want"), [("own", 503), ("other", 403)])
def test_the_log_of_a_unit_is_for_those_who_may_read_it(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch, namespace: str, want: int
) -> None:
    monkeypatch.setattr(app, "may_read_for", lambda *_: lambda of: of == "own")
    with asking(kit, None) as client:
        assert client.get(f"/debug/log?unit={namespace}/u").status_code == want


@pytest.mark.parametrize(
    "path",
    [
        "/debug/insight",
        "/debug/queueunits/default/a/forecast",
        "/debug/queues/team/forecast",
    ],
)
def test_without_a_folder_it_is_off(kit: ShellKit, path: str) -> None:
    with asking(kit, None) as client:
        assert detail_of(client.get(path)) == (503, OFF)


def test_forecasts_name_only_units_that_the_caller_may_read(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(request: Request) -> Response:
        is_queue = request.url.path == "/debug/queues/team/forecast"
        return JSONResponse(FORECASTS if is_queue else FORECASTS["units"][1])

    monkeypatch.setattr(app, "may_read_for", lambda *_: lambda name: name == "mine")
    with answering(tmp_path, handle), asking(kit, tmp_path) as client:
        got = client.get("/debug/queues/team/forecast?offset=0").json()
        unit = client.get("/debug/queueunits/mine/a/forecast").json()
    assert got == {**FORECASTS, "units": [unit], "others": 1}
    assert unit == FORECASTS["units"][1]


@pytest.mark.parametrize(("name", "want"), [("team", 200), ("nosuch", 404)])
def test_a_queue_without_a_forecast_is_empty_or_not_there(
    kit: ShellKit, tmp_path: Path, name: str, want: int
) -> None:
    nothing = FORECASTS | {"queue": name, "total": 0, "units": []}
    with answering(tmp_path, lambda _: JSONResponse(nothing)), asking(kit, tmp_path) as client:
        assert client.get(f"/debug/queues/{name}/forecast").status_code == want


EDIT = {"kind": "ElasticQuota", "name": "team", "patch": {"spec": {"max": {"cpu": 9}}}}
WHAT_IF = {"edits": [EDIT], "horizonSeconds": 60, "seed": 3}


def test_a_horizon_is_asked_of_the_program_and_names_only_units_that_may_be_read(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(what_if_routes, "may_read_for", lambda *_: lambda name: name == "mine")
    with asking(kit, None) as client:
        at_once = client.post("/debug/what-if", json={"edits": []}).json()
    reported = at_once | {"spared": ["mine/a", "other/b"], "noHorizon": "too few futures"}

    def handle(request: Request) -> Response:
        asked.append((request.method, request.url.path, from_thread.run(request.json)))
        return JSONResponse(reported)

    with answering(tmp_path, handle), asking(kit, tmp_path) as client:
        got = client.post("/debug/what-if", json=WHAT_IF).json()
        assert client.post("/debug/what-if", json={"edits": [EDIT]}).json()["spared"] == []
        edit = {"kind": "QueueUnit", "namespace": "other", "name": "x", "end": True}
        refused = client.post("/debug/what-if", json={**WHAT_IF, "edits": [edit]})
    assert asked == [("POST", "/debug/what-if", WHAT_IF)]
    assert got == reported | {"spared": ["mine/a"]}
    assert refused.status_code == 403


def test_without_the_program_it_is_said_what_can_be_asked(kit: ShellKit, tmp_path: Path) -> None:
    for folder, why in ((None, OFF), (tmp_path, GONE)):
        with asking(kit, folder) as client:
            got = detail_of(client.post("/debug/what-if", json=WHAT_IF))
        assert got == (503, f"{why}; {what_if_routes.AT_ONCE}")


def test_that_the_budget_of_horizons_is_spent_is_passed_on(kit: ShellKit, tmp_path: Path) -> None:
    def refuse(_: Request) -> Response:
        return JSONResponse({"detail": "later"}, 429, {"Retry-After": "7"})

    with answering(tmp_path, refuse), asking(kit, tmp_path) as client:
        answer = client.post("/debug/what-if", json=WHAT_IF)
    assert (answer.status_code, answer.json()["detail"]) == (429, "later")
    assert answer.headers["retry-after"] == "7"


def test_a_name_without_a_program_is_told(kit: ShellKit, tmp_path: Path) -> None:
    with asking(kit, tmp_path) as client:
        assert detail_of(client.get("/debug/insight")) == (503, GONE)
        listen_at(tmp_path / ANSWERS_SOCKET).close()  # as a crash leaves it
        assert detail_of(client.get("/debug/insight")) == (503, GONE)


def test_a_program_of_another_user_is_not_asked(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listen_at(tmp_path / ANSWERS_SOCKET), asking(kit, tmp_path) as client:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        assert detail_of(client.get("/debug/insight")) == (503, GONE)


def test_a_late_answer_is_given_up(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insight_link, "ANSWER_SECONDS", 0.2)
    with listen_at(tmp_path / ANSWERS_SOCKET), asking(kit, tmp_path) as client:
        code, detail = detail_of(client.get("/debug/insight"))
    assert (code, detail) == (503, "the insight program took longer than 0.2 s: ask again")


def close_at_once(listener: socket.socket) -> float:
    listener.accept()[0].close()
    return 0.0


def test_an_answer_that_breaks_off_is_told(kit: ShellKit, tmp_path: Path) -> None:
    with listen_at(tmp_path / ANSWERS_SOCKET) as listener, asking(kit, tmp_path) as client:
        thread = LoopThread("closes", lambda: close_at_once(listener), SystemClock())
        thread.start()
        assert detail_of(client.get("/debug/insight")) == (503, GONE)
        thread.request_stop()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(tmp_path / ANSWERS_SOCKET))
        assert thread.stop(60.0)


REFUSALS: list[Any] = [
    pytest.param(404, JSONResponse({"detail": "no such unit"}, 404), "no such unit", id="404"),
    pytest.param(503, JSONResponse({"detail": "no state"}, 503), "no state", id="503"),
    pytest.param(500, PlainTextResponse("oops", 500), "oops", id="no JSON"),
    pytest.param(503, JSONResponse({"other": 1}), "of another version", id="another form"),
]


@pytest.mark.parametrize(("code", "response", "detail"), REFUSALS)
def test_what_it_refuses_is_passed_on(
    kit: ShellKit, tmp_path: Path, code: int, response: Response, detail: str
) -> None:
    with answering(tmp_path, lambda _: response), asking(kit, tmp_path) as client:
        got = detail_of(client.get("/debug/insight"))
    assert got[0] == code
    assert detail in got[1]


def test_a_dump_has_the_runs_that_it_has_recorded(kit: ShellKit, tmp_path: Path) -> None:
    run = FinishedRun(unit="default/a", uid="1", charge={"cpu": 2000}, created=0.5, ended=9.0)
    runs = JSONResponse({"runs": [msgspec.to_builtins(run)]})
    with answering(tmp_path, lambda _: runs), asking(kit, tmp_path) as client:
        assert decode_dump(client.get("/debug/dump").content, "0.0.0").runs == (run,)
    with asking(kit, tmp_path) as client:  # the program is gone
        assert decode_dump(client.get("/debug/dump").content, "0.0.0").runs == ()


def test_when_to_come_back_is_passed_on(kit: ShellKit, tmp_path: Path) -> None:
    def refuse(_: Request) -> Response:
        return JSONResponse({"detail": "later"}, 429, {"Retry-After": "7"})

    with answering(tmp_path, refuse), asking(kit, tmp_path) as client:
        answer = client.get("/debug/insight")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


def test_an_answer_above_the_limit_is_refused(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: Request) -> Response:
        monkeypatch.setattr(http_over_socket, "MAX_ANSWER_BYTES", 1000)
        return PlainTextResponse("x" * 2000)

    with answering(tmp_path, answer), asking(kit, tmp_path) as client:
        code, detail = detail_of(client.get("/debug/insight"))
    assert (code, detail) == (
        500,
        "the answer is larger than 1000 bytes: ask for less with ?limit=",
    )


def test_the_insight_program_is_told_who_asks(kit: ShellKit, tmp_path: Path) -> None:
    reported: list[str] = []

    def answer(request: Request) -> Response:
        reported.append(caller_named_by_scheduler(request))
        return JSONResponse({"detail": "busy"}, 429, {"Retry-After": "7"})

    with answering(tmp_path, answer), asking(kit, tmp_path) as client:
        forged = {"koord-queue-caller": "user/root"}
        for token in ("of-ann", "of-bob", ""):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            got = client.get(f"/debug/queues?{AT}", headers=headers | forged)
            assert (got.status_code, got.headers["retry-after"]) == (429, "7")
        question = {"edits": [], "horizonSeconds": 60}
        assert client.post("/debug/what-if", json=question, headers=forged).status_code == 429
    here = reported[-1]
    assert reported == [token_key("of-ann"), token_key("of-bob"), here, here]
    assert here.startswith("address/")


def test_the_name_of_a_caller_may_have_any_characters(tmp_path: Path) -> None:
    reported: list[str] = []

    def answer(request: Request) -> Response:
        reported.append(caller_named_by_scheduler(request))
        return JSONResponse(STATE)

    names = ("user/жанна", "user/a\r\nx: b", "user/oidc:ann@example.org")
    with answering(tmp_path, answer):
        for name in names:
            InsightLink(tmp_path).ask_at("/debug/insight", InsightView, caller=name)
    assert [unquote(each) for each in reported] == list(names)
    assert reported[-1] == names[-1]


def test_slow_answers_leave_threads_for_those_about_now(kit: ShellKit, tmp_path: Path) -> None:
    may_end, asked = Event(), list[str]()

    def answer(request: Request) -> Response:
        asked.append(caller_named_by_scheduler(request))
        assert may_end.wait(60.0)
        return JSONResponse({"detail": "no"}, 503)

    with (
        answering(tmp_path, answer),
        asking(kit, tmp_path) as client,
        ThreadPoolExecutor(9) as threads,
    ):
        try:
            slow = [threads.submit(client.get, f"/debug/quotas?{AT}") for _ in range(8)]
            refused = [each.result().status_code for each in islice(as_completed(slow, 60.0), 6)]
            assert refused == [429] * 6, "a caller alone has half of the places"
            assert client.get("/debug/quotas").status_code == 200
            bob = {"authorization": "Bearer of-bob"}
            threads.submit(client.get, f"/debug/quotas?{AT}", headers=bob)
            until(lambda: token_key("of-bob") in asked)
        finally:
            may_end.set()
