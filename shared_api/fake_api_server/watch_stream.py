"""One open watch of the fake API server: a queue of lines, filled by changes, read by a client.

`offer` is called with each change, under the server's lock, and turns it into a line if the watch's
selectors say so. `read_line` takes lines out, on the client's thread.

Waiting. With `waits=True` a reader of an empty queue waits on the clock (`Clock.wait`). With
`waits=False`, the deterministic mode, it never waits and no time passes: `read_line` raises
`StreamIdle` at once, whatever its timeout. So a caller must judge a stalled watch by its own clock,
and the test moves the time. Bookmarks and the end (`timeoutSeconds`) fall due by the clock
and are noticed by the next `read_line`; there is no thread and no timer behind a stream.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from shared_api.client.errors import ConnectionLost, StreamIdle
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.process.clock import Clock

MAX_UNREAD_LINES: Final = 100_000
"""The real server ends a watch whose reader does not keep up, much earlier."""

_State = Literal["open", "ended", "broken", "closed"]


class StreamPlan(msgspec.Struct, frozen=True):
    """How a stream goes if nothing happens to it."""

    status: int = 200
    headers: dict[str, str] = {}
    """Headers of the response, in addition to the content type."""
    waits: bool = False
    """Whether `read_line` waits for lines."""
    ends_at: float | None = None
    """Monotonic time of the orderly end; None: only when told to."""
    bookmark_seconds: float | None = None
    """A bookmark is due so long after the last one; None: none."""


class FakeStream:
    """A `ResponseStream` in process."""

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
            clock: decides when it is idle, gets a bookmark, and ends.
            plan: what is known beforehand.
            make_bookmark: puts a bookmark into the queue.
            on_close: called once, when the stream is over for whatever reason.
        """
        self.info = info
        self.status = plan.status
        self.headers = {"content-type": "application/json", **plan.headers}
        self._clock = clock
        self._plan = plan
        self._make_bookmark = make_bookmark
        self._on_close = on_close
        self._bookmark_at = self._next_bookmark(clock.monotonic())
        # Appended to by writers under the server's lock, taken from by the one reader.
        self._lines: deque[bytes] = deque()
        self._state: _State = "open"
        self._is_stalled = False
        self._repeats = 0
        self._news = threading.Event()

    # ------------------------------------------------------------------- the client's side

    def read_line(self, timeout_seconds: float) -> bytes | None:
        """Return the next line, or None at the end; see `ResponseStream`.

        Raises:
            StreamIdle: nothing came in that time (`waits=False`: nothing is there).
            ConnectionLost: the stream broke or was closed.
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
        """Return a line that is there already, or None."""
        if not self._lines or self._is_stalled:
            return None
        return self._lines.popleft()

    def close(self) -> None:
        """End the stream from the reader's side; a blocked reader raises ConnectionLost."""
        self._finish("closed")

    @property
    def unread_lines(self) -> int:
        """How many lines wait to be read (none while stalled: the reader cannot see them)."""
        return 0 if self._is_stalled else len(self._lines)

    @property
    def is_open(self) -> bool:
        """Whether changes still come in."""
        return self._state == "open"

    # ------------------------------------------------------------------- the server's side

    def push(self, line: bytes) -> None:
        """Queue a line. A reader that left too many unread is cut off, as by the real server."""
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
        """End it in order: the reader gets what is queued, then None."""
        self._finish("ended")

    def break_off(self) -> None:
        """Break it: what is queued is lost, the reader gets ConnectionLost."""
        self._lines.clear()
        self._finish("broken")

    def stall(self) -> None:
        """Bring not one byte more, bookmarks included, until `resume`."""
        self._is_stalled = True

    def resume(self) -> None:
        """Bring what was held back, late."""
        self._is_stalled = False
        self._wake()

    def repeat_events(self, times: int) -> None:
        """Bring each of the next events twice."""
        self._repeats = times

    # --------------------------------------------------------------------------- private

    def _wake(self) -> None:
        # Setting an event takes a lock, for each change of each watch; often no thread waits.
        if self._plan.waits and not self._news.is_set():
            self._news.set()

    def _finish(self, state: _State) -> None:
        was_open, self._state = self._state == "open", state
        self._wake()
        if was_open and self._on_close is not None:
            self._on_close(self)

    def _is_due(self, now: float) -> bool:
        """Do what has fallen due; True if there is something new to look at."""
        if self._is_stalled or self._state != "open":
            return False
        if self._plan.ends_at is not None and now >= self._plan.ends_at:
            self.end()
            return True
        if self._bookmark_at is not None and now >= self._bookmark_at:
            self._bookmark_at = self._next_bookmark(now)
            if self._make_bookmark is not None:
                self._make_bookmark(self)
            return True
        return False

    def _next_bookmark(self, now: float) -> float | None:
        seconds = self._plan.bookmark_seconds
        return None if seconds is None else now + seconds

    def _wait(self, now: float, gives_up_at: float) -> None:
        until = [gives_up_at]
        if not self._is_stalled:
            until += [at for at in (self._plan.ends_at, self._bookmark_at) if at is not None]
        self._news.clear()
        # A line that came before the clearing set an event for which no thread waits now.
        if self.unread_lines or self._state != "open":
            return
        self._clock.wait(self._news, max(min(until) - now, 0.0))
