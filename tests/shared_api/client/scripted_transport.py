"""A transport in process that answers by a test's script, in virtual time."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared_api.client.errors import ConnectionLost
from shared_api.client.transport import Request, Response, ResponseStream
from shared_api.testing.virtual_clock import VirtualClock

Answer = Response | Exception | Callable[[], Response | Exception]


def answer(status: int, body: Any = None, **headers: str) -> Response:
    """Return an answer with a JSON body; `retry_after="1"` becomes the header `retry-after`."""
    lower = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, lower, json.dumps(body if body is not None else {}).encode())


def refusal(status: int, reason: str = "", **headers: str) -> Response:
    """Return an answer with a `Status` object."""
    return answer(status, {"kind": "Status", "reason": reason, "message": "no"}, **headers)


class ListedStream:
    """A stream of prepared lines."""

    def __init__(
        self, status: int, lines: Sequence[bytes], headers: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers = headers or {}
        self.closed = False
        self._lines = deque(lines)

    def read_line(self, timeout_seconds: float) -> bytes | None:
        del timeout_seconds
        return self._lines.popleft() if self._lines else None

    def close(self) -> None:
        self.closed = True


class ScriptedTransport:
    """Returns the next answer of its script; the last one repeats."""

    def __init__(self, *script: Answer) -> None:
        self.script = deque(script)
        self.seen: list[Request] = []
        self.limits: list[float] = []
        self.streams: deque[ListedStream] = deque()

    def send(self, request: Request, timeout_seconds: float) -> Response:
        self.seen.append(request)
        self.limits.append(timeout_seconds)
        step = self.script.popleft() if len(self.script) > 1 else self.script[0]
        given = step() if callable(step) else step
        if isinstance(given, Exception):
            raise given
        return given

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        self.seen.append(request)
        self.limits.append(timeout_seconds)
        return self.streams.popleft()

    def close(self) -> None:
        pass


def query_of(request: Request) -> Mapping[str, str]:
    """Return the query as a mapping."""
    return dict(request.query)


def taking(clock: VirtualClock, seconds: float, then: Response | Exception) -> Answer:
    """Return an answer that takes this many seconds."""

    def give() -> Response | Exception:
        clock.advance(seconds)
        return then

    return give


def lost(*, sent: bool) -> Callable[[], Exception]:
    """Return an answer that is a broken connection, with a new error each time."""
    return lambda: ConnectionLost("broken", sent=sent)
