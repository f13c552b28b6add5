"""Sends the insight program a copy of the engine, and then every call of it.

    no connection --connect--> checkpoint --> calls, a state after each batch, sometimes a digest
          ^                        ^                     |                |
          +------- lost -----------|---------------------+                |
                                   +--- overrun: calls were dropped ------+

Decisions never wait for it: the engine's lock is held for the copy only (some milliseconds for
10,000 units), and the log is bounded. Encoding runs beside the decisions in one interpreter, so it
goes in small batches with rests between them.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from queue_insight.insight_feed.feed_metrics import DIGEST, LOST, OVERRUN, FeedMetrics
from queue_insight.insight_feed.frames import FrameError, Kind, encode_frame
from queue_insight.insight_feed.messages import (
    FEED_SOCKET,
    OTHER_STATE,
    Checkpoint,
    Digest,
    Hello,
    Message,
    State,
    encode_message,
)
from queue_insight.record.call_codec import encode_call
from queue_insight.record.checkpoint import freeze
from queue_insight.record.digest import digest
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.shared_engine import SharedEngine
from shared_api.backoff import Backoff
from shared_api.process.clock import Clock
from shared_api.process.local_socket import connect_to, shut_down, wait_readable

BATCH: Final = 100
"""Calls in one message to the kernel: some milliseconds of encoding."""

REST_SECONDS: Final = 0.1
"""Between two looks at a log that was empty."""

PAUSE_SECONDS: Final = 0.002
"""Between two batches, so that encoding takes at most part of the interpreter's time."""

SEND_SECONDS: Final = 60.0
"""How long the program at the other end may read nothing; then the connection is lost. It reads
nothing while it makes an engine of a copy: some nine seconds of CPU for 200,000 units."""

CALLS_PER_DIGEST: Final = 10_000
CALLS_TO_FIRST_DIGEST: Final = 1000
"""The calls from a copy to its first digest: few, so that a wrong copy is detected soon."""

DIGEST_SHARE: Final = 0.01
"""Most of the time that digests may take: at full speed 10,000 calls take a second or two."""

RETRY: Final = Backoff(base_seconds=0.5, cap_seconds=5.0)

MAX_REASON_BYTES: Final = 256

log = structlog.get_logger("insight_feed")


class Replica(NamedTuple):
    """The replica that sends.

    Attributes:
        hello: What is sent first.
        is_leader: Returns whether it decides.
        may_begin: Returns whether its engine is worth a copy: before the caches are filled, all
            objects would be sent one by one.
    """

    hello: Hello
    is_leader: Callable[[], bool]
    may_begin: Callable[[], bool]


class InsightFeed:
    """The step of the feed's thread.

    Args:
        shared: The engine, with `calls` as its log.
        calls: Its log; started and taken from here only.
        folder: Where the sockets are.
        replica: The replica that sends.
        clock: The time.
        metrics: Counts.
    """

    def __init__(
        self,
        shared: SharedEngine,
        calls: CallLog,
        folder: Path,
        replica: Replica,
        clock: Clock,
        metrics: FeedMetrics,
    ) -> None:
        self._shared = shared
        self._calls = calls
        self._path = folder / FEED_SOCKET
        self._replica = replica
        self._clock = clock
        self._metrics = metrics
        self._connection: socket.socket | None = None
        self._failures = 0
        self._sent = 0  # number of the last call sent
        self._current_at = math.nan  # monotonic time at which all calls were sent
        self._next_digest = 0  # the number of calls from which on one is due
        self._next_digest_at = -math.inf
        self._digest: Digest | None = None
        metrics.connected.set_function(lambda: float(self.is_connected))
        metrics.lag.set_function(lambda: float(len(calls)))
        metrics.age.set_function(lambda: clock.monotonic() - self._current_at)

    @property
    def is_connected(self) -> bool:
        """Whether the program at the other end has a copy and is told the calls."""
        return self._connection is not None

    def step(self) -> float:
        """Connect, or send a batch; return the seconds to rest."""
        try:
            if self._connection is None:
                return self._begin() if self._replica.may_begin() else REST_SECONDS
            return self._send_batch(self._connection)
        except (OSError, FrameError) as error:
            return self._on_lost(error)
        except Exception:
            self._drop()  # the loop logs it, counts it, and calls again after a pause
            raise

    def close(self) -> None:
        """Close the connection; call it after the thread has ended."""
        self._drop()

    def end(self) -> None:
        """End the connection, so that a step that sends returns; callable from any thread."""
        if (connection := self._connection) is not None:
            shut_down(connection)

    def _begin(self) -> float:
        connection = connect_to(self._path, SEND_SECONDS)
        try:
            connection.sendall(encode_message(self._replica.hello))
            self._send_checkpoint(connection)
        except BaseException:
            connection.close()
            self._calls.stop()
            raise
        self._connection = connection
        self._failures = 0
        log.info("the insight program follows", number=self._sent)
        return 0.0

    def _send_checkpoint(self, connection: socket.socket) -> None:
        self._digest = None
        wall = self._clock.now()
        number, copy = self._shared.checkpoint(starts_log=True)
        self._sent = number
        self._next_digest = number + CALLS_TO_FIRST_DIGEST
        engine = freeze(copy, self._give_way)
        checkpoint = Checkpoint(number=number, wall=wall, engine=engine)
        connection.sendall(encode_message(checkpoint))
        self._metrics.checkpoints.inc()

    def _give_way(self) -> None:
        self._clock.sleep(PAUSE_SECONDS)

    def _send_batch(self, connection: socket.socket) -> float:
        _check_open(connection)
        began, wall = self._clock.monotonic(), self._clock.now()
        taken = self._calls.take(self._most())
        if not self._calls.is_on:
            log.warning(
                "calls were not sent in time, sending a new copy", overruns=self._calls.overruns
            )
            self._metrics.restarts.labels(OVERRUN).inc()
            self._send_checkpoint(connection)
            return 0.0
        frames = [encode_frame(Kind.CALL, encode_call(call)) for call in taken]
        if taken:
            self._sent = taken[-1].number
        is_current = not len(self._calls)
        if is_current:
            self._current_at = began
        elif taken:
            wall = datetime.fromtimestamp(taken[-1].wall, wall.tzinfo)
        frames += map(encode_message, self._messages(wall))
        connection.sendall(b"".join(frames))
        self._metrics.calls.inc(len(taken))
        self._plan_digest()
        return REST_SECONDS if is_current else PAUSE_SECONDS

    def _messages(self, wall: datetime) -> list[Message]:
        """Return what follows a batch."""
        found: list[Message] = [
            State(number=self._sent, wall=wall, is_leader=self._replica.is_leader())
        ]
        if self._digest is not None and self._digest.number == self._sent:
            found.append(self._digest)
            self._digest = None
        return found

    def _most(self) -> int:
        """Return how many calls to send: none beyond a digest that waits for them."""
        return BATCH if self._digest is None else min(BATCH, self._digest.number - self._sent)

    def _plan_digest(self) -> None:
        """Copy the engine for a digest if one is due; it is sent after the calls before it."""
        began = self._clock.monotonic()
        is_due = self._sent >= self._next_digest and began >= self._next_digest_at
        if self._digest is not None or not is_due:
            return
        number, copy = self._shared.checkpoint()
        self._digest = Digest(number=number, digest=digest(copy))
        self._next_digest = number + CALLS_PER_DIGEST
        ended = self._clock.monotonic()
        self._next_digest_at = ended + (ended - began) / DIGEST_SHARE

    def _on_lost(self, error: Exception) -> float:
        was_connected = self.is_connected
        self._drop()
        if was_connected:
            is_other = isinstance(error, _TurnedDownError) and error.reason == OTHER_STATE
            self._metrics.restarts.labels(DIGEST if is_other else LOST).inc()
        if was_connected or not self._failures:
            log.warning("the insight program does not follow", error=str(error) or repr(error))
        pause = RETRY.seconds(self._failures)
        self._failures += 1
        return pause

    def _drop(self) -> None:
        self._calls.stop()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _TurnedDownError(ConnectionError):
    """The program at the other end has ended the connection."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"it ended the connection: {reason or 'without a reason'}")
        self.reason = reason


def _check_open(connection: socket.socket) -> None:
    """Check that the other end is open; it sends nothing but why it closes."""
    if wait_readable([connection], 0.0):
        raise _TurnedDownError(connection.recv(MAX_REASON_BYTES).decode(errors="replace"))
