"""One open watch of the fake API server: a queue of lines, written by changes, read by a client.

`push` appends a line for a change, under the server's lock. `read_line` removes lines, on the
client's thread.

Waiting: with `waits=True`, a reader of an empty queue waits on the clock (`Clock.wait`). With
`waits=False`, the deterministic mode, it never waits and no time passes: `read_line` raises
`StreamIdle` at once, whatever its timeout. So a caller must detect a stalled watch by its own
clock, which the test advances. Bookmarks and the end (`timeoutSeconds`) are due by the clock and
happen at the next `read_line`; a stream has no thread and no timer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, Literal

import msgspec

from shared_api.client.errors import ConnectionLost, StreamIdle
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.process.clock import Clock

LAST_BOOKMARK_SECONDS: Final = 2.0
"""So long before its end a watch gets a bookmark, as from the real server (its `cacheWatcher`)."""

MAX_UNREAD_LINES: Final = 100_000
"""More unread lines break the watch; the real server does so much earlier."""

_State = Literal["open", "ended", "broken", "closed"]


class StreamPlan(msgspec.Struct, frozen=True):
    """How a stream proceeds unless a test interferes."""

    status: int = 200
    headers: dict[str, str] = {}
    """Headers of the response, in addition to the content type."""
    waits: bool = False
    """Whether `read_line` waits for lines."""
    ends_at: float | None = None
    """Monotonic time of the regular end; None: only by `end`."""
    bookmark_seconds: float | None = None
    """Seconds between bookmarks; None: no bookmarks."""


class FakeStream:
    """A `ResponseStream` in memory."""

    def __init__(
        self,
        info: RequestInfo,
        clock: Clock,
        plan: StreamPlan,
        *,
        make_bookmark: Callable[[FakeStream], None] | None = None,
        on_close: Callable[[FakeStream], None] | None = None,
    ) -> None:
        """Open a stream.

        Args:
            info: the request it answers.
            clock: the time by which it is idle, gets a bookmark, and ends.
            plan: how it proceeds.
            make_bookmark: called to push a bookmark.
            on_close: called once when the stream is over, for any reason.
        """
        self.info = info
        self.status = plan.status
        self.headers = {"content-type": "application/json", **plan.headers}
        self._clock = clock
        self._plan = plan
        self._make_bookmark = make_bookmark
        self._on_close = on_close
        self._bookmark_at = self._next_bookmark(clock.monotonic())
        # Writers append under the server's lock; the only reader removes.
        self._lines: deque[bytes] = deque()
        self._state: _State = "open"
        self._is_stalled = False
        self._repeats = 0
        self._news = threading.Event()

    # ------------------------------------------------------------------- the client's side

    def read_line(self, timeout_seconds: float) -> bytes | None:
        """Return the next line, or None at the end; see `ResponseStream`.

        Raises:
            StreamIdle: No line came in time (`waits=False`: there is none).
            ConnectionLost: The stream is broken or closed.
        """
        gives_up_at = self._clock.monotonic() + timeout_seconds
        while True:
            if self._state in {"broken", "closed"}:
                raise ConnectionLost(f"the watch was {self._state}", sent=True)
            line = self.take_line()
            if line is not None:
                return line
            if self._state == "ended" and not self._lines:
                return None
            now = self._clock.monotonic()
            if self._is_due(now):
                continue
            if not self._plan.waits or now >= gives_up_at:
                raise StreamIdle(f"nothing came within {timeout_seconds} s")
            self._wait(now, gives_up_at)

    def take_line(self) -> bytes | None:
        """Return the next line without waiting, or None."""
        if not self._lines or self._is_stalled:
            return None
        return self._lines.popleft()

    def close(self) -> None:
        """End the stream from the reader's side; a blocked reader raises ConnectionLost."""
        self._finish("closed")

    @property
    def unread_lines(self) -> int:
        """The number of lines to read (0 while stalled, as the reader cannot see them)."""
        return 0 if self._is_stalled else len(self._lines)

    @property
    def is_open(self) -> bool:
        """Whether the stream still gets changes."""
        return self._state == "open"

    # ------------------------------------------------------------------- the server's side

    def push(self, line: bytes) -> None:
        """Append a line. Too many unread lines break the stream, as on the real server."""
        if self._state != "open":
            return
        self._lines.append(line)
        if self._repeats:
            self._repeats -= 1
            self._lines.append(line)
        if len(self._lines) > MAX_UNREAD_LINES:
            self.break_off()
        self._wake()

    def end(self) -> None:
        """End the stream: the reader gets the unread lines, then None."""
        self._finish("ended")

    def break_off(self) -> None:
        """Break the stream: unread lines are lost, and the reader gets ConnectionLost."""
        self._lines.clear()
        self._finish("broken")

    def stall(self) -> None:
        """Deliver nothing, not even bookmarks, until `resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        """Deliver what was held back."""
        self._is_stalled = False
        self._wake()

    def repeat_events(self, times: int) -> None:
        """Deliver each of the next `times` events twice."""
        self._repeats = times

    # --------------------------------------------------------------------------- private

    def _wake(self) -> None:
        # Setting an event takes a lock for each change of each watch, and often no thread waits.
        if self._plan.waits and not self._news.is_set():
            self._news.set()

    def _finish(self, state: _State) -> None:
        was_open, self._state = self._state == "open", state
        self._wake()
        if was_open and self._on_close is not None:
            self._on_close(self)

    def _is_due(self, now: float) -> bool:
        """Do what is due; return whether the reader should look again."""
        if self._is_stalled or self._state != "open":
            return False
        if self._bookmark_at is not None and now >= self._bookmark_at:
            self._bookmark_at = self._next_bookmark(now)
            if self._make_bookmark is not None:
                self._make_bookmark(self)
            return True
        if self._plan.ends_at is not None and now >= self._plan.ends_at:
            self.end()
            return True
        return False

    def _next_bookmark(self, now: float) -> float | None:
        seconds, ends_at = self._plan.bookmark_seconds, self._plan.ends_at
        if seconds is None:
            return None
        last = inf if ends_at is None else ends_at - LAST_BOOKMARK_SECONDS
        return last if now < last < now + seconds else now + seconds

    def _wait(self, now: float, gives_up_at: float) -> None:
        until = [gives_up_at]
        if not self._is_stalled:
            until += [at for at in (self._plan.ends_at, self._bookmark_at) if at is not None]
        self._news.clear()
        # A line that came before `clear` has set the event in vain, so check again.
        if self.unread_lines or self._state != "open":
            return
        self._clock.wait(self._news, max(min(until) - now, 0.0))
