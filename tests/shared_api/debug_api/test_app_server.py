"""Workers hand requests to the application on its own thread, and get whole answers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from itertools import repeat

import anyio
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request as AppRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from shared_api.debug_api import app_server
from shared_api.debug_api.app_server import AppServer
from shared_api.process.alarm import Alarm
from shared_api.process.clock import SystemClock
from shared_api.process.http_exchange import Answer, Request, read_request
from shared_api.process.loop_thread import LoopThread, run_once

PATIENCE_SECONDS = 60.0
WORKERS = 6
IS_ASKED, GO_ON = threading.Event(), threading.Event()


async def heard(request: AppRequest) -> Response:
    pairs = [(name.decode(), value.decode("latin-1")) for name, value in request.headers.raw]
    return JSONResponse(
        {
            "headers": pairs,
            "client": request.scope["client"],
            "state": request.scope["state"],
            "body": (await request.body()).decode(),
            "path": request.scope["path"],
            "query": request.query_params.multi_items(),
        }
    )


def cookies(_request: AppRequest) -> Response:
    response = PlainTextResponse("yes", headers={"X-Own": "1"})
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


def pieces(request: AppRequest) -> Response:
    def parts() -> Iterator[str]:
        yield from ("one ", "two ")
        if "broken" in request.query_params:
            raise ValueError("oops")
        yield "three"

    return StreamingResponse(parts())


def slow(_request: AppRequest) -> Response:
    IS_ASKED.set()
    GO_ON.wait(PATIENCE_SECONDS)
    return PlainTextResponse("slow")


INVALID = (400, b'{"detail":"the request is not valid HTTP"}', None)
APP = Starlette(
    routes=[
        Route("/heard", heard, methods=["GET", "POST"]),
        Route("/heard{rest:path}", heard),
        Route("/cookies", cookies),
        Route("/pieces", pieces),
        Route("/nothing", lambda _: Response(status_code=204)),
        Route("/slow", slow),
    ]
)


def made(build: Callable[[], ASGIApp] = lambda: APP) -> AppServer:
    return AppServer(build, server=("127.0.0.1", 80), scheme="http", clock=SystemClock())


@contextmanager
def running(build: Callable[[], ASGIApp] = lambda: APP) -> Iterator[AppServer]:
    server = made(build)
    thread = LoopThread("debug-api", server.step, SystemClock(), unblock=server.end)
    thread.start()
    try:
        yield server
    finally:
        assert thread.stop(PATIENCE_SECONDS), "the server has not ended"


def get(target: str, headers: dict[str, str] | None = None, method: str = "GET") -> Request:
    return Request(method, target, headers or {}, ("10.1.2.3", 4567))


def test_a_request_is_forwarded_without_the_headers_of_its_connection() -> None:
    sent = {
        "host": "localhost",
        "x-it": "yes",
        "connection": "keep-alive, upgrade",
        "upgrade": "websocket",
        "transfer-encoding": "chunked",
        "content-length": "7",
        "expect": "100-continue",
    }
    with running() as server:
        said = json.loads(server.ask(get("/heard", sent)).body)
    assert sorted(said["headers"]) == [["host", "localhost"], ["x-it", "yes"]]
    assert said["client"] == ["10.1.2.3", 4567]


def test_a_request_without_a_host_is_forwarded_with_an_empty_one() -> None:
    with running() as server:
        said = json.loads(server.ask(get("/heard")).body)
    assert ["host", ""] in said["headers"]


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize("indent", [" ", "\t"])
def test_a_folded_header_stays_one_header(end: str, indent: str) -> None:
    head = f"GET /heard HTTP/1.1{end}X-It: a{end}{indent}Host: localhost{end}{end}".encode()
    with running() as server:
        said = json.loads(server.ask(read_request(head)).body)
    assert sorted(said["headers"]) == [["host", ""], ["x-it", "a Host: localhost"]]


def test_a_body_is_forwarded_with_its_own_length() -> None:
    sent = {"content-length": "7", "content-type": "a/b"}
    with running() as server:
        said = json.loads(server.ask(Request("POST", "/heard", sent, body=b"body")).body)
    assert said["body"] == "body"
    assert sorted(said["headers"]) == [
        ["content-length", "4"],
        ["content-type", "a/b"],
        ["host", ""],
    ]


def test_path_and_query_are_forwarded() -> None:
    with running() as server:
        said = json.loads(server.ask(get("/heard%2Fa%C3%A4/b?c=d%20e&c=f")).body)
    assert said["path"] == "/heard/aä/b"
    assert said["query"] == [["c", "d e"], ["c", "f"]]


def test_repeated_headers_of_an_answer_are_returned() -> None:
    with running() as server:
        answer = server.ask(get("/cookies"))
    names = [name.lower() for name, _ in answer.headers]
    assert sorted(names) == ["set-cookie", "set-cookie", "x-own"]
    assert answer.content_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(get("/pieces"), (200, b"one two three", None), id="in pieces"),
        pytest.param(get("/cookies"), (200, b"yes", None), id="with a length"),
        pytest.param(get("/cookies", method="HEAD"), (200, b"", 3), id="HEAD"),
        pytest.param(get("/nothing"), (204, b"", None), id="without a body"),
        pytest.param(get("/elsewhere"), (404, b"Not Found", None), id="no route"),
        pytest.param(
            get("/cookies", method="POST"),
            (405, b"Method Not Allowed", None),
            id="method not allowed",
        ),
        pytest.param(get("/", {"x-it": "a\0b"}), INVALID, id="a NUL in a value"),
        pytest.param(get("/", {"x it": "a"}), INVALID, id="a space in a name"),
        pytest.param(get("/", {"": "a"}), INVALID, id="no name"),
        pytest.param(get("/a\x07"), INVALID, id="a control character in a target"),
        pytest.param(get("/\xe4"), INVALID, id="a byte above 127 in a target"),
        pytest.param(get("/", method="G(T"), INVALID, id="a parenthesis in a method"),
    ],
)
def test_an_answer_is_returned_complete(
    request_: Request, want: tuple[int, bytes, int | None]
) -> None:
    with running() as server:
        answer = server.ask(request_)
    assert (answer.status, answer.body, answer.length) == want


def test_an_incomplete_answer_is_an_error() -> None:
    with running() as server, capture_logs() as logs:
        answer = server.ask(get("/pieces?broken"))
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert json.loads(answer.body)["detail"] == "the answer broke off: ask again"
    assert [each["path"] for each in logs if "path" in each] == ["/pieces?broken"]


def test_an_answer_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_server, "MAX_ANSWER_BYTES", 100)
    with running() as server:
        answer = server.ask(get("/heard", {"x-it": "a" * 1000}))
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "larger than 100 bytes" in json.loads(answer.body)["detail"]


def test_waiting_for_a_missing_answer_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that waits for one ends with the program, long before its own timeout."""
    monkeypatch.setattr(app_server, "GRACE_SECONDS", 1.0)
    IS_ASKED.clear()
    GO_ON.clear()
    statuses: list[int] = []
    is_answered = Alarm()

    def ask() -> None:
        statuses.append(server.ask(get("/slow")).status)
        is_answered.set()

    with capture_logs():
        with running() as server:
            run_once("worker", ask, SystemClock())
            assert IS_ASKED.wait(PATIENCE_SECONDS)
            began = SystemClock().monotonic()
        assert is_answered.wait(PATIENCE_SECONDS)
    assert SystemClock().monotonic() - began < app_server.ANSWER_SECONDS / 2
    assert statuses[0] >= HTTPStatus.INTERNAL_SERVER_ERROR
    GO_ON.set()


def test_the_application_is_built_once_at_the_first_request() -> None:
    built: list[int] = []

    def build() -> Starlette:
        built.append(1)
        return APP

    with running(build) as server:
        Alarm().wait(0.2)  # it would be built by now
        assert built == []
        answers = [server.ask(get("/cookies")).status for _ in range(3)]
    assert (answers, built) == ([HTTPStatus.OK] * 3, [1])


def test_stopped_before_the_first_request_it_builds_nothing() -> None:
    built: list[int] = []

    def build() -> Starlette:
        built.append(1)
        return APP

    with running(build):
        pass
    assert built == []


def test_a_request_waits_for_an_application_that_first_failed_to_build() -> None:
    """The thread logs the failure, rests, and tries again."""
    tries: list[int] = []

    def build() -> Starlette:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return APP

    with capture_logs() as logs, running(build) as server:
        assert server.ask(get("/cookies")).status == HTTPStatus.OK
    assert len(tries) == 2
    assert [each["log_level"] for each in logs if "exc_info" in each] == ["error"]


@pytest.mark.parametrize("program", ["queue_scheduler", "queue_controllers"])
def test_no_program_imports_the_web_framework_before_the_first_request(program: str) -> None:
    costly = ("fastapi", "pydantic", "uvicorn")
    code = f"import sys, {program}.__main__; print([x for x in {costly!r} if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_state_of_a_request_reaches_the_application_beside_it() -> None:
    with running() as server:
        asked = Request("GET", "/heard", {}, state={"who": "ann"})
        assert json.loads(server.ask(asked).body)["state"] == {"who": "ann"}
        assert json.loads(server.ask(get("/heard")).body)["state"] == {}


def test_refusals_have_the_form_that_is_asked_for() -> None:
    def problem(status: HTTPStatus, detail: str) -> Answer:
        return Answer(status.value, f"no: {detail}".encode())

    server = AppServer(
        lambda: APP,
        server=("127.0.0.1", 80),
        scheme="http",
        clock=SystemClock(),
        problem=problem,
    )
    server.end()
    with capture_logs():
        assert server.ask(get("/heard")).body.startswith(b"no: the answer broke off")


def test_after_the_end_a_request_fails_at_once() -> None:
    with running() as server:
        server.ask(get("/cookies"))
    with capture_logs():
        assert server.ask(get("/cookies")).status == HTTPStatus.SERVICE_UNAVAILABLE


def test_an_application_that_fails_after_its_answer_is_reported() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("yes")(scope, receive, send)
        raise ValueError("oops")

    with running(lambda: fails) as server, capture_logs() as logs:
        assert server.ask(get("/")).body == b"yes"
    assert [(each["event"], each["log_level"]) for each in logs] == [("request failed", "error")]


def test_an_application_that_never_says_anything_is_an_error() -> None:
    async def silent(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pass

    with running(lambda: silent) as server, capture_logs():
        answer = server.ask(get("/"))
    assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE


def test_a_client_goes_away_only_after_the_answer() -> None:
    """Else the application would break its answer off; and it may wait for it afterwards."""
    heard_last = Alarm()

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        with anyio.move_on_after(0.1):
            message = await receive()
            raise AssertionError(message)
        await PlainTextResponse("still there")(scope, receive, send)
        assert await receive() == {"type": "http.disconnect"}
        heard_last.set()

    with running(lambda: waits) as server:
        assert server.ask(get("/")).body == b"still there"
        assert heard_last.wait(PATIENCE_SECONDS)


def test_an_answer_does_not_wait_for_work_in_the_background() -> None:
    go_on = threading.Event()

    def app_with_work() -> Starlette:
        work = BackgroundTask(go_on.wait, PATIENCE_SECONDS)
        return Starlette(routes=[Route("/", lambda _: PlainTextResponse("yes", background=work))])

    with running(app_with_work) as server:
        assert server.ask(get("/")).body == b"yes"
        go_on.set()


def test_an_application_that_fails_before_its_answer_is_a_failure_of_the_program() -> None:
    async def fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise TimeoutError("of its own")

    with running(lambda: fails) as server, capture_logs() as logs:
        answer = server.ask(get("/"))
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert json.loads(answer.body)["detail"] == (
        "TimeoutError while answering; see the program's log"
    )
    assert [(each["event"], each["log_level"]) for each in logs] == [("request failed", "error")]


def test_an_application_cannot_send_two_headers_as_one() -> None:
    def route(_request: AppRequest) -> Response:
        return PlainTextResponse("yes", headers={"x-it": "a\r\nset-cookie: b"})

    with running(lambda: Starlette(routes=[Route("/", route)])) as server, capture_logs():
        answer = server.ask(get("/"))
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert answer.headers == ()


def test_a_stream_without_an_end_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_server, "MAX_ANSWER_BYTES", 10_000)

    def route(_request: AppRequest) -> Response:
        return StreamingResponse(repeat(b"x" * 100))

    with running(lambda: Starlette(routes=[Route("/", route)])) as server, capture_logs():
        answer = server.ask(get("/"))
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert b"larger than 10000 bytes" in answer.body


def test_a_long_run_of_blanks_costs_little() -> None:
    """Searched from each of its blanks, it would take minutes, and hold up all threads."""
    with running() as server:
        said = json.loads(server.ask(get("/heard", {"x-it": f"a{' ' * 1_000_000}b\n c"})).body)
    assert ["x-it", f"a{' ' * 1_000_000}b c"] in said["headers"]


def test_many_workers_ask_while_the_program_ends() -> None:
    """Each gets an answer at once: none waits for an event loop that has ended."""
    answers: list[int] = []
    with capture_logs():
        with running() as server:
            for _ in range(WORKERS):
                run_once("worker", lambda: _ask_until_refused(server, answers), SystemClock())
            while len(answers) < WORKERS:
                Alarm().wait(0.001)
        deadline = SystemClock().monotonic() + PATIENCE_SECONDS / 2
        while answers.count(HTTPStatus.SERVICE_UNAVAILABLE) < WORKERS:
            assert SystemClock().monotonic() < deadline, answers
            Alarm().wait(0.01)
    assert set(answers) == {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}


def _ask_until_refused(server: AppServer, answers: list[int]) -> None:
    status = 0
    while status != HTTPStatus.SERVICE_UNAVAILABLE:
        status = server.ask(get("/cookies")).status
        answers.append(status)
