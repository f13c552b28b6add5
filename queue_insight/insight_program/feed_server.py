"""Receives what the scheduler's feed sends, one connection at a time.

A newer connection replaces an older one: a scheduler that was killed and started again must not
wait until the kernel has noticed. Errors of a connection end that connection; the sender begins
again with a new copy of its engine.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from queue_insight.insight_feed.frames import Frame, FrameError, FrameReader, Kind
from queue_insight.insight_feed.messages import (
    OTHER_STATE,
    PROTOCOL,
    Checkpoint,
    Digest,
    Hello,
    State,
    decode_message,
    describe_interpreter,
)
from queue_insight.insight_program.follow_metrics import FollowMetrics
from queue_insight.insight_program.followed_engine import (
    FollowedEngine,
    FollowError,
    OtherStateError,
)
from queue_insight.record.call_codec import decode_call
from queue_insight.record.checkpoint_error import CheckpointError
from queue_scheduler.cycles.engine_call import EngineCall
from shared_api.process.local_socket import (
    OtherUserError,
    accept_same_user,
    shut_down,
    wait_readable,
)
from shared_api.version import VERSION
from shared_api.work_queue import log_failure

REST_SECONDS: Final = 0.5
"""Longest wait of a step, and so the longest delay of a stop."""

RECEIVE_BYTES: Final = 262_144

log = structlog.get_logger("feed_server")


class Recorder(Protocol):
    """Keeps what was received; called on the feed's thread, must be quick."""

    def on_hello(self, hello: Hello) -> None:
        """Note who sends."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a whole engine; what comes next follows it."""

    def on_call(self, call: EngineCall, encoded: bytes, answer: object) -> None:
        """Keep a call that was played, and what the engine has answered."""


class FeedServer:
    """The step of the thread that receives.

    Args:
        listener: The socket for feeds; closed by `close`.
        engine: Plays the calls.
        recorders: Told all that is received.
        metrics: Counts.
        on_error: Counts exceptions of recorders.
    """

    def __init__(
        self,
        listener: socket.socket,
        engine: FollowedEngine,
        recorders: tuple[Recorder, ...],
        metrics: FollowMetrics,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_error = on_error
        self._listener = listener
        self._engine = engine
        self._recorders = recorders
        self._metrics = metrics
        self._connection: socket.socket | None = None
        self._reader = FrameReader()
        self._hello: Hello | None = None

    @property
    def is_connected(self) -> bool:
        """Whether a scheduler is connected and has said who it is."""
        return self._hello is not None

    def step(self) -> float:
        """Wait for something to come, and take it."""
        connection = self._connection
        waited = [self._listener] if connection is None else [self._listener, connection]
        readable = wait_readable(waited, REST_SECONDS)
        if self._listener in readable:
            self._accept()
        elif connection is not None and connection in readable:
            self._receive(connection)
        return 0.0

    def close(self) -> None:
        """End the connection and stop to listen; call it after the thread has ended."""
        self._hang_up("")
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection = accept_same_user(self._listener)
        except OtherUserError:
            log.warning("a process of another user has connected, and is refused")
            return
        self._hang_up("another connection replaces this one")
        self._connection, self._reader = connection, FrameReader()

    def _receive(self, connection: socket.socket) -> None:
        try:
            piece = connection.recv(RECEIVE_BYTES)
            if not piece:
                self._hang_up("")
                return
            for frame in self._reader.feed(piece):
                self._take(frame)
        except OtherStateError as error:
            self._on_other_state(error)
        except (OSError, FrameError, FollowError, CheckpointError, ValueError) as error:
            log.warning("the feed broke off", error=str(error))
            self._hang_up(str(error))

    def _take(self, frame: Frame) -> None:
        if self._hello is None and frame.kind is not Kind.HELLO:
            raise FrameError(f"a {frame.kind.name} came first")
        match frame.kind:
            case Kind.HELLO:
                self._on_hello(decode_message(frame, Hello))
            case Kind.CHECKPOINT:
                self._on_checkpoint(decode_message(frame, Checkpoint))
            case Kind.CALL:
                self._on_call(frame.content)
            case Kind.STATE:
                self._engine.note_state(decode_message(frame, State))
            case Kind.DIGEST:
                self._engine.compare(decode_message(frame, Digest))
                self._metrics.digests_compared.inc()

    def _on_hello(self, hello: Hello) -> None:
        got = (hello.protocol, hello.version, hello.interpreter)
        own = (PROTOCOL, VERSION, describe_interpreter())
        if got != own:
            raise FollowError(f"the scheduler is {got}, this program is {own}")
        self._hello = hello
        for each in self._recorders:
            each.on_hello(hello)
        log.info("a scheduler has connected", identity=hello.identity)

    def _on_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._engine.begin(checkpoint)
        self._metrics.checkpoints.inc()
        for each in self._recorders:
            each.on_checkpoint(checkpoint)
        log.info("took over an engine", number=checkpoint.number, bytes=len(checkpoint.engine))

    def _on_call(self, encoded: bytes) -> None:
        call = decode_call(encoded)
        answer = self._engine.play(call)
        self._metrics.calls.inc()
        for each in self._recorders:
            try:
                each.on_call(call, encoded, answer)
            except Exception as error:  # noqa: BLE001 - it misses this call; the feed goes on
                log_failure(f"call {call.number}", error)
                self._on_error()

    def _on_other_state(self, error: OtherStateError) -> None:
        self._metrics.digest_mismatches.inc()
        log.error("the engine differs from the scheduler's, a new copy is needed", error=str(error))
        self._hang_up(OTHER_STATE)

    def _hang_up(self, reason: str) -> None:
        connection, self._connection, self._hello = self._connection, None, None
        if connection is None:
            return
        with contextlib.suppress(OSError):
            connection.settimeout(0)
            connection.sendall(reason.encode()[:200])
        shut_down(connection)
        connection.close()
