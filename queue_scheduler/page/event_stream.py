"""Streams of events: one look a second for all, and each visitor sees what it may read.

Everything here runs in the loop of the server, on its one thread, but for what may wait: the look
and questions to the API server run on threads of its pool.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import msgspec
import structlog
from fastapi import FastAPI, HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from queue_scheduler.debug_api.engine_state import NoStateError
from queue_scheduler.page.live import Change, Changes, show_change
from queue_scheduler.page.sessions import Session
from queue_scheduler.page.sources import PageSources
from queue_scheduler.page.visitors import Visitor, Visitors

LOOK_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 15.0
AUTHORIZED_SECONDS: Final = 30.0
"""How often a stream's visitor is identified again, whatever is remembered of it."""
SEND_SECONDS: Final = 15.0
"""How long a client may not read."""
MAX_STREAMS: Final = 256
MAX_OF_SESSION: Final = 8
MAX_WAITING: Final = 30
"""Changes that wait for a client; one that is further behind begins again."""

_RESET: Final = b'data: {"reset": true}\n\n'
_HEARTBEAT: Final = b": still here\n\n"
_HEADERS: Final = {"content-type": "text/event-stream", "x-accel-buffering": "no"}

log = structlog.get_logger("page")


class _Listener:
    """One stream."""

    def __init__(self) -> None:
        self.waiting: deque[Change] = deque()
        self.is_behind = False
        self.arrived = anyio.Event()

    def put(self, change: Change) -> None:
        """Take a change."""
        if len(self.waiting) >= MAX_WAITING:
            self.waiting.clear()
            self.is_behind = True
        self.waiting.append(change)
        self.arrived.set()


class Streams:
    """All streams; used by the loop of the server only.

    Args:
        sources: What is looked at.
        recheck: Returns who has a session, asked of the API server and not of what is remembered;
            None: it may not read any more. May wait.
    """

    def __init__(
        self, sources: PageSources, recheck: Callable[[Session], Visitor | None]
    ) -> None:
        self._changes = Changes(sources)
        self._recheck = recheck
        self._listeners: set[_Listener] = set()
        self._is_looking = False

    def check_places(self, session: Session | None) -> None:
        """Check that there is a place for one more stream.

        Raises:
            HTTPException: 503: there are too many; 429: this session has too many.
        """
        if len(self._listeners) >= MAX_STREAMS:
            raise HTTPException(503, "too many pages are open; ask again", {"Retry-After": "30"})
        if session is not None and session.streams >= MAX_OF_SESSION:
            raise HTTPException(429, "you have too many pages open", {"Retry-After": "30"})

    async def serve(self, visitor: Visitor, last_id: str, send: Callable[[bytes], Any]) -> None:
        """Send events to a visitor until it may not read any more."""
        listener, session = _Listener(), visitor.session
        self._listeners.add(listener)
        if session is not None:
            session.streams += 1
        try:
            async with anyio.create_task_group() as tasks:
                if not self._is_looking:
                    self._is_looking = True
                    await self._look()
                await self._greet(listener, last_id, send)
                tasks.start_soon(self._keep_looking, listener)
                await self._tell(listener, visitor, send)
                tasks.cancel_scope.cancel()
        finally:
            self._listeners.discard(listener)
            if session is not None:
                session.streams -= 1

    # --- looking ------------------------------------------------------------------------------

    async def _keep_looking(self, listener: _Listener) -> None:
        """Look once a second while this stream is the one that looks for all."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            if next(iter(self._listeners), None) is listener:
                await self._look()

    async def _look(self) -> None:
        try:
            change = await run_in_threadpool(self._changes.look)
        except NoStateError:
            return
        except Exception:
            log.exception("the changes cannot be found")
            return
        if change is not None:
            for each in self._listeners:
                each.put(change)
