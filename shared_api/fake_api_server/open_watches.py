"""The open watches of the fake API server, and what a test does to them at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from http import HTTPStatus

from shared_api.fake_api_server.api_errors import RequestFailed
from shared_api.fake_api_server.faults import ANY_REQUEST, Match, RequestInfo
from shared_api.fake_api_server.list_and_watch import error_line
from shared_api.fake_api_server.watch_stream import FakeStream


class OpenWatches:
    """The streams of a server that are neither ended nor closed.

    Each method that takes a `match` returns how many watches matched.
    """

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        """Start without watches; `lock`: the server's, re-entrant, since an end calls back."""
        self._lock = lock
        self._streams: list[FakeStream] = []
        # Also those that have ended since: what was held back, and the end, are not read yet.
        self._stalled: list[FakeStream] = []

    def add(self, stream: FakeStream) -> None:
        """Take a watch that was opened."""
        with self._lock:
            self._streams.append(stream)

    def forget(self, stream: FakeStream) -> None:
        """Forget a watch that has ended, if it was open."""
        with self._lock:
            if stream in self._streams:
                self._streams.remove(stream)

    def drop(self, match: Match = ANY_REQUEST) -> int:
        """Break matching watches, without their unread lines."""
        return self._each(match, FakeStream.break_off)

    def end(self, match: Match = ANY_REQUEST) -> int:
        """End matching watches in order, as at their timeout."""
        return self._each(match, FakeStream.end)

    def expire(self, match: Match = ANY_REQUEST) -> int:
        """Send matching watches an ERROR event with 410 and end them."""
        gone = RequestFailed(HTTPStatus.GONE, "Expired", "too old resource version")

        def expire(stream: FakeStream) -> None:
            stream.push(error_line(gone))
            stream.end()

        return self._each(match, expire)

    def stall(self, match: Match = ANY_REQUEST) -> int:
        """Send nothing to matching watches until `resume`, not even their end."""

        def stall(stream: FakeStream) -> None:
            stream.stall()
            if stream not in self._stalled:
                self._stalled.append(stream)

        return self._each(match, stall)

    def resume(self) -> int:
        """Send all stalled watches what was held back; return how many there were."""
        with self._lock:
            stalled, self._stalled = self._stalled, []
            for stream in stalled:
                stream.resume()
            return len(stalled)

    def repeat_events(self, times: int, match: Match = ANY_REQUEST) -> int:
        """Send matching watches their next `times` events twice each."""
        return self._each(match, lambda stream: stream.repeat_events(times))

    @property
    def unread_lines(self) -> int:
        """The number of readable lines in all open watches; 0 if every reader is up to date."""
        with self._lock:
            return sum(stream.unread_lines for stream in self._streams)

    @property
    def requests(self) -> list[RequestInfo]:
        """The requests of the open watches."""
        with self._lock:
            return [stream.info for stream in self._streams]

    def _each(self, match: Match, do: Callable[[FakeStream], None]) -> int:
        with self._lock:
            streams = [stream for stream in self._streams if match.holds(stream.info)]
            for stream in streams:
                do(stream)
            return len(streams)
