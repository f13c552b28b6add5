"""Runs the application on a thread of its own, for the workers of a port.

A worker hands over a request and waits for the whole answer. The port has read the request from its
connection, so nothing is parsed a second time: the application gets the request as an ASGI scope
(asgi.readthedocs.io, HTTP & WebSocket 2.4). The client's address, the scheme and the state of the
request come from the port: no header that a client sends can change them.

The application is built at the first request: its imports take 14 MB and a third of a second of
CPU, and most replicas never get a request.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import unquote

import msgspec
import structlog
from starlette.types import ASGIApp, Message, Scope

from shared_api.process.alarm import Alarm
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import (
    MAX_ANSWER_BYTES,
    Answer,
    AnswerTooLargeError,
    BrokenAnswerError,
    Request,
)

ANSWER_SECONDS: Final = 60.0
"""Time limit of an answer: the insight program alone is given 30 s."""

GRACE_SECONDS: Final = 2.0
"""Time for answers in progress when the program ends; after it they are canceled."""

Problem = Callable[[HTTPStatus, str], Answer]
"""Returns a refusal, of a status and a text for a person."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A method, or the name of a header (RFC 9110, 5.6.2)."""

_TARGET: Final = re.compile(r"[!-~]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_LINE_ENDS: Final = re.compile(r"[\r\n]+")

_OF_THE_CONNECTION: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of requests that are about the client's connection, or about how a body is sent."""

_WRITTEN_BY_THE_PORT: Final = frozenset(
    {"connection", "content-length", "content-type", "date", "keep-alive", "transfer-encoding"}
)

_ENDED: Final = "the program ends"

log = structlog.get_logger("debug_api")


class _InvalidRequestError(ValueError):
    """The request is not valid HTTP."""


class _FailedError(Exception):
    """The application has raised an exception, the cause, before it answered."""


class AppServer:
    """The application, and the thread that runs it.

    Args:
        build: Returns the application. Called once, at the first request, on the thread of `step`.
        server: The address and port that the application sees as its own.
        scheme: The scheme that it sees.
        clock: The time, for deadlines.
        problem: Makes the refusals, in the format of the application's own.
    """

    def __init__(
        self,
        build: Callable[[], ASGIApp],
        *,
        server: tuple[str, int],
        scheme: Literal["http", "https"],
        clock: Clock,
        problem: Problem | None = None,
    ) -> None:
        self._build = build
        self._address = (server, scheme)
        self._clock = clock
        self._problem = problem or _problem
        self._wanted = Alarm()  # set by the first request, or by `end`
        self._changed = threading.Condition()  # guards the next two
        self._running: _Running | None = None
        self._has_ended = False

    def step(self) -> None:
        """Wait for the first request, then run the application until `end`."""
        self._wanted.wait(None)
        if not self._has_ended:
            app = self._build()
            with asyncio.Runner() as runner:  # its end cancels the answers that are in progress
                runner.run(self._run(app))

    async def _run(self, app: ASGIApp) -> None:
        running = _Running(app)
        with self._changed:
            if self._has_ended:
                return
            self._running = running
            self._changed.notify_all()
        await running.wait()

    def end(self) -> None:
        """Make `step` return within about `GRACE_SECONDS`; callable from any thread."""
        with self._changed:
            self._has_ended = True
            running, self._running = self._running, None
            self._changed.notify_all()
        if running is not None:
            running.end()
        self._wanted.set()

    def ask(self, request: Request) -> Answer:
        """Return the application's answer, or an error; callable from any worker's thread."""
        try:
            return self._ask(request)
        except _InvalidRequestError:
            return self._problem(HTTPStatus.BAD_REQUEST, "the request is not valid HTTP")
        except TimeoutError:
            return self._problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the answer took longer than {ANSWER_SECONDS:g} s: ask again, "
                "or for less with ?limit=",
            )
        except AnswerTooLargeError as error:
            return self._problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except BrokenAnswerError as error:
            log.warning(
                "an answer broke off",
                path=request.target,
                error=str(error),
                exc_info=error.__cause__,  # what the application has raised; None if it ends
            )
            return self._problem(HTTPStatus.SERVICE_UNAVAILABLE, "the answer broke off: ask again")
        except _FailedError as error:
            log.exception("request failed", path=request.target)
            detail = f"{type(error.__cause__).__name__} while answering; see the program's log"
            return self._problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)

    def _ask(self, request: Request) -> Answer:
        exchange = _Exchange(_scope(request, *self._address), request)
        until = self._clock.monotonic() + ANSWER_SECONDS
        self._wanted.set()
        self._begin(exchange)
        # One that comes later is dropped. It is not canceled: its thread would go on all the same,
        # and no longer count as one of those that the framework lets run at once.
        exchange.whole.result(until - self._clock.monotonic())
        return exchange.answer()

    def _begin(self, exchange: _Exchange) -> None:
        """Wait until the application runs; let it answer.

        Raises:
            TimeoutError: It does not run in time.
            BrokenAnswerError: It does not run any more.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._running or self._has_ended, ANSWER_SECONDS):
                raise TimeoutError
            if self._running is None:
                raise BrokenAnswerError(_ENDED)
            # Under the lock: `end` comes later, and finds this answer in progress.
            self._running.begin(exchange)


class _Running:
    """The application while requests are taken; made on the thread of its event loop."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self._is_over = asyncio.Event()

    async def wait(self) -> None:
        """Wait until `end`, and then a while for the answers in progress."""
        await self._is_over.wait()
        if answers := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(answers, timeout=GRACE_SECONDS)

    def end(self) -> None:
        """End `wait`; callable from any thread, while no request is begun any more."""
        self._loop.call_soon_threadsafe(self._is_over.set)  # after the starts of all answers

    def begin(self, exchange: _Exchange) -> None:
        """Begin an answer; callable from any thread."""
        asyncio.run_coroutine_threadsafe(exchange.run(self._app), self._loop)


class _Exchange:
    """One request as an ASGI application sees it, and the answer that it sends.

    Attributes:
        whole: Is done when the whole answer is there, or none will come: then it has the error. The
            application may still be at work, for example on a task in the background.
    """

    def __init__(self, scope: Scope, request: Request) -> None:
        self.whole: Future[None] = Future()
        self._scope = scope
        self._request = request
        self._is_over = asyncio.Event()
        self._is_received = False
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self._length = 0

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer."""
        failure: Exception | None = None
        try:
            await app(self._scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001 - reported below, or by the worker
            failure = error
        except BaseException:  # it is canceled: the program ends
            self._end(BrokenAnswerError(_ENDED))
            raise
        if not self.whole.done():
            is_failed = failure is not None and not self._status
            reason = _FailedError() if is_failed else BrokenAnswerError("it is not whole")
            reason.__cause__ = failure
            self._end(reason)
        elif failure is not None:
            log.error("request failed", path=self._request.target, exc_info=failure)

    def _end(self, error: Exception | None = None) -> None:
        if self.whole.done():
            return
        if error is None:
            self.whole.set_result(None)
        else:
            self.whole.set_exception(error)
        self._is_over.set()

    async def _receive(self) -> Message:
        if self._is_received:
            await self._is_over.wait()
            return {"type": "http.disconnect"}
        self._is_received = True
        return {"type": "http.request", "body": self._request.body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if self.whole.done():
            msg = "the answer is over"
            raise OSError(msg)  # as the specification says of a client that has gone
        if message["type"] == "http.response.start":
            self._headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            _check_headers(self._headers)
            self._status = message["status"]
            return
        part = message.get("body", b"")
        self._length += len(part)
        if self._length > MAX_ANSWER_BYTES:
            self._parts.clear()
            self._end(AnswerTooLargeError(MAX_ANSWER_BYTES))
            return
        self._parts.append(part)
        if not message.get("more_body", False):
            self._end()

    def answer(self) -> Answer:
        """Return the whole answer, when it is there."""
        named = {name.lower(): value for name, value in self._headers}
        has_body = self._request.method != "HEAD"
        return Answer(
            self._status,
            b"".join(self._parts) if has_body else b"",
            named.get("content-type", "text/plain; charset=utf-8"),
            tuple(pair for pair in self._headers if pair[0].lower() not in _WRITTEN_BY_THE_PORT),
            None if has_body else int(named.get("content-length", self._length)),
        )


def _scope(request: Request, server: tuple[str, int], scheme: str) -> Scope:
    """Return a request as an application gets it.

    A header value that was folded over several lines becomes one line. The length of a body is that
    of the bytes that the port received.

    Raises:
        _InvalidRequestError: It has characters that HTTP does not allow there: the parser of most
            ports, the standard library's, lets them pass.
    """
    headers = {"host": ""} | {
        name: " ".join(line.strip() for line in _LINE_ENDS.split(value))
        for name, value in request.headers.items()
        if name not in _OF_THE_CONNECTION
    }
    if request.method == "POST":
        headers["content-length"] = str(len(request.body))
    try:
        _check_headers(headers.items())
    except ValueError as error:
        raise _InvalidRequestError from error
    if not (_TOKEN.fullmatch(request.method) and _TARGET.fullmatch(request.target)):
        raise _InvalidRequestError
    path, _, query = request.target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "server": server,
        "client": request.client,
        "scheme": scheme,
        "method": request.method,
        "root_path": "",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "state": dict(request.state),
    }


def _check_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Check that headers cannot be taken for anything else.

    Raises:
        ValueError: A name or a value has characters that HTTP does not allow there.
    """
    for name, value in headers:
        if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"HTTP has no such header: {name[:40]!r}: {value[:40]!r}")


def _problem(status: HTTPStatus, detail: str) -> Answer:
    """Return a refusal in the format of the application's own."""
    return Answer(status, msgspec.json.encode({"detail": detail}), "application/json")
