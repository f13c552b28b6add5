"""Streams of events: one look a second for all, and each visitor sees what it may read.

Everything here runs in the loop of the server, on its one thread, but for what may wait: looks and
questions to the API server run on threads of the server's pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import anyio
import msgspec
import structlog
from fastapi import FastAPI, HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.page.caller_bound import EVENTS
from queue_insight.page.live import Change, Changes, merge, show_change
from queue_insight.page.sessions import Session
from queue_insight.page.visitors import Visitor
from shared_api.debug_api.debug_app import problems
from shared_api.process.clock import Clock

LOOK_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 15.0
AUTHORIZED_SECONDS: Final = 30.0
"""How often the token of a stream's visitor is reviewed, whatever is remembered of it."""
SEND_SECONDS: Final = 15.0
"""How long a client may not read."""
MAX_STREAMS: Final = 256

_HEARTBEAT: Final = b": still here\n\n"

log = structlog.get_logger("page")


class Recheck(Protocol):
    """Identifies the visitor of a session again."""

    def recheck(self, session: Session) -> Visitor | None:
        """Return the visitor, asked of the API server; None if the token is not accepted."""
        ...


class Streams:
    """All streams; used by the loop of the server only.

    Args:
        changes: Finds what changes.
        clock: The time, for the ends of sessions; looks are paced by the loop's own.
        recheck: Identifies visitors again; None if there is no login.
    """

    def __init__(self, changes: Changes, clock: Clock, recheck: Recheck | None) -> None:
        self._changes = changes
        self._clock = clock
        self._recheck = recheck
        self._count = 0
        self._is_looking = False
        self._next_look = 0.0
        # The changes, by their first and last number, and the message about them.
        self._last_for_all = ((0, 0), b"")

    @property
    def count(self) -> int:
        """How many are open."""
        return self._count

    def check_capacity(self) -> None:
        """Check that there is a place for one more stream.

        Raises:
            HTTPException: 503: there are too many.
        """
        if self._count >= MAX_STREAMS:
            raise HTTPException(503, "too many pages are open; ask again", {"Retry-After": "30"})

    async def serve(self, visitor: Visitor, last_id: str, send: Send) -> None:
        """Send events to a visitor until it may not read any more."""
        self._count += 1
        try:
            await self._stream(visitor, last_id, send)
        finally:
            self._count -= 1

    async def _stream(self, visitor: Visitor, last_id: str, send: Send) -> None:
        await self._look()
        changes, reader = self._changes, visitor
        place = changes.last if not last_id else changes.place_of(last_id)
        message = f"retry: 2000\nid: {changes.id_of(changes.last)}\n".encode()
        if place is None:
            message, place = message + b'data: {"reset":true}\n', changes.last
        await _send(send, message + b"\n")
        sent_at = anyio.current_time()
        while True:
            still = await self._identify(reader)
            if still is None:
                return
            reader = still
            found = changes.after(place)
            now = anyio.current_time()
            if found:
                place = found[-1].number
                await _send(send, await self._message_about(found, reader))
                sent_at = now
            elif now - sent_at >= HEARTBEAT_SECONDS:
                await _send(send, _HEARTBEAT)
                sent_at = now
            await anyio.sleep(LOOK_SECONDS)
            await self._look()

    async def _message_about(self, found: Sequence[Change], reader: Visitor) -> bytes:
        """Return the message about some changes; the same for all visitors who may read all."""
        number = self._changes.id_of(found[-1].number)

        def encode() -> bytes:
            data = msgspec.json.encode(show_change(merge(found), reader, number))
            return b"id: %s\ndata: %s\n\n" % (number.encode(), data)

        if not reader.reads_all:
            return await run_in_threadpool(encode)  # it may ask the API server
        about = (found[0].number, found[-1].number)
        if self._last_for_all[0] != about:
            self._last_for_all = (about, encode())
        return self._last_for_all[1]

    async def _identify(self, visitor: Visitor) -> Visitor | None:
        """Return who listens; None if it may not any more."""
        session, now = visitor.session, self._clock.monotonic()
        if session is None or self._recheck is None:
            return visitor
        if session.ends <= now:
            return None
        if now - visitor.checked < AUTHORIZED_SECONDS:
            return visitor
        return await run_in_threadpool(self._recheck.recheck, session)

    async def _look(self) -> None:
        """Look if it is time to, and no other stream does."""
        if self._is_looking or anyio.current_time() < self._next_look:
            return
        self._is_looking = True
        try:
            await run_in_threadpool(self._changes.look)
        except NoStateError:
            pass  # there is nothing to see yet
        except Exception:
            log.exception("what has changed cannot be found")
        finally:
            self._is_looking = False
            # A little less than the rest of a stream, so that no stream waits twice.
            self._next_look = anyio.current_time() + LOOK_SECONDS / 2


async def _send(send: Send, content: bytes) -> None:
    """Send a piece; a client that does not read for long is given up.

    Raises:
        TimeoutError: It does not read.
    """
    with anyio.fail_after(SEND_SECONDS):
        await send({"type": "http.response.body", "body": content, "more_body": True})


class EventStream(Response):
    """The answer that does not end.

    Args:
        streams: Serves it.
        visitor: Who listens.
        last_id: The id of the last message that it has seen; "" if it has seen none.
    """

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, visitor: Visitor, last_id: str) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self._visitor = visitor
        self._last_id = last_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the visitor goes, or may not listen any more."""
        del scope
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await send(start)
            try:
                await self._streams.serve(self._visitor, self._last_id, send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                log.info("a page does not read its events")
            tasks.cancel_scope.cancel()


def add_events(app: FastAPI, streams: Streams, identify: Callable[[Request], Visitor]) -> None:
    """Add the route of events."""

    async def events(request: Request) -> Response:
        visitor = await run_in_threadpool(identify, request)
        streams.check_capacity()
        return EventStream(streams, visitor, request.headers.get("last-event-id", ""))

    form = answers_with(EventStream.media_type)
    app.get(EVENTS, **form | {"responses": form["responses"] | problems(429)})(events)


def answers_with(media_type: str) -> dict[str, Any]:
    """Return what a route declares whose answers are texts of a media type, and refusals JSON."""
    return {
        "response_model": None,
        # Any class with a media type of its own would give that to refusals, too.
        "response_class": Response,
        "responses": {200: {"content": {media_type: {"schema": {"type": "string"}}}}},
    }
