"""Connections of a port that are bounded: each in time, and all of them in number.

    READING --head complete--> RECEIVING --body complete--> ANSWERING --answer made--> IDLE
       ^      5 s                 12 s                       |   ^      not cut           |  10 s
       |                                                 WRITING: 30 s                    |
       +----------------------------- the first byte of the next request -----------------+

While an answer is made, nothing is expected of the client. In all other stages it is waited for:
the connection has a deadline, which no single byte moves, and stands in a line. When there are more
connections than the port may have, one is cut whose client is waited for: of the address that has
most of these, the idlest, whose client has been waited for the longest. So a client that holds
connections loses its own, and a newcomer is served. Only if all connections are being answered, the
newcomer itself is cut.

uvicorn closes a connection that is kept for the next request, and forgets to as soon as one byte of
that has come. So the deadlines here do not rely on its timer.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the framework's own loop
from enum import Enum
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from shared_api.process.connection_gate import Observer, Outcome
from shared_api.process.victims import find_victim

HEAD_SECONDS: Final = 5.0
"""Time for the head of a request: of the first one from the end of the TLS handshake on, of others
from their first byte on."""
BODY_SECONDS: Final = 12.0
"""Time from a head to the end of its body; a little more than the application waits for it, so that
the client is told."""
ANSWER_SECONDS: Final = 30.0
"""Time in which a client must read, as on the other ports."""
KEEP_SECONDS: Final = 10
"""For how long a connection is kept for the next request, whole seconds; uvicorn closes it then. A
client that has not read all by `ANSWER_SECONDS` is not waited for."""


class _Stage(Enum):
    READING = "reading"
    RECEIVING = "receiving"
    ANSWERING = "answering"
    WRITING = "writing"
    IDLE = "idle"


def _seconds_of(stage: _Stage) -> float:
    """Return how long a client may take; looked up each time, so that a test can shorten it."""
    match stage:
        case _Stage.READING:
            return HEAD_SECONDS
        case _Stage.RECEIVING:
            return BODY_SECONDS
        case _Stage.WRITING | _Stage.IDLE:
            return ANSWER_SECONDS
        case _Stage.ANSWERING:
            return float("inf")


class Line:
    """The connections of a port whose clients are waited for; used by the loop of the server only.

    Attributes:
        limit: Most connections at once, in any stage.

    Args:
        limit: See above.
        observe: Called with the outcome of each connection that is cut.
    """

    def __init__(self, limit: int, observe: Observer) -> None:
        self.limit = limit
        self.observe = observe
        # The idlest first: dicts keep the order of insertion.
        self._waiting: dict[BoundedConnection, None] = {}

    def stand(self, connection: BoundedConnection) -> None:
        """Put a connection at the end: its client is waited for from now on."""
        self.leave(connection)
        self._waiting[connection] = None

    def leave(self, connection: BoundedConnection) -> None:
        """Take a connection out, if it stands there."""
        self._waiting.pop(connection, None)

    def make_room_for(self, newcomer: BoundedConnection) -> None:
        """Cut a connection: the newcomer, which stands last, only if no other one stands there."""
        others = (each for each in self._waiting if each is not newcomer)
        idlest = find_victim(others, lambda each: each.host)
        if idlest is None:
            newcomer.cut(Outcome.REFUSED)
        else:
            idlest.cut(Outcome.EVICTED)


class BoundedConnection(H11Protocol):
    """A connection that is cut if its client is late, or idle while a newcomer needs its place.

    Attributes:
        host: The address of its client.

    Args:
        line: Where the connections of the port stand.
        config: Settings of uvicorn.
        server_state: What uvicorn keeps of all connections.
    """

    def __init__(self, line: Line, config: uvicorn.Config, server_state: ServerState) -> None:
        super().__init__(config, server_state, app_state={})
        self._line = line
        self._stage = _Stage.READING
        self._is_over = False
        self.host = ""
        self._timer: asyncio.TimerHandle | None = None

    # --- what the loop and uvicorn call -------------------------------------------------------

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a type of the framework's loop
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        self._enter(_Stage.READING)
        if len(self.connections) > self._line.limit:
            self._line.make_room_for(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._finish()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the client has sent."""
        if self._stage is _Stage.IDLE and not self._is_over:
            # It keeps its place in the line: a byte is no request.
            self._begin(_Stage.READING)
        super().data_received(data)

    def handle_events(self) -> None:
        """Resume with the requests that have arrived."""
        super().handle_events()
        self._look()

    def on_response_complete(self) -> None:
        """Resume after an answer."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Resume writing."""
        super().resume_writing()
        self._look()

    # --- stages -------------------------------------------------------------------------------

    def _look(self) -> None:
        """Enter the stage that what has happened leads to, if it is another one."""
        stage = self._find_stage()
        if stage is not self._stage and not self._is_over:
            self._enter(stage)

    def _find_stage(self) -> _Stage:
        if self.flow.write_paused:
            return _Stage.WRITING
        # While uvicorn does not read, it is not the client that is waited for.
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return _Stage.RECEIVING
        # As uvicorn declares it, it cannot be None; it is until the first request.
        cycle = getattr(self, "cycle", None)
        if cycle is not None and not cycle.response_complete:
            return _Stage.ANSWERING
        return _Stage.READING if self._stage is _Stage.READING else _Stage.IDLE

    def _enter(self, stage: _Stage) -> None:
        if stage is _Stage.ANSWERING:
            self._line.leave(self)
        else:
            self._line.stand(self)
        self._begin(stage)

    def _begin(self, stage: _Stage) -> None:
        self._stage = stage
        self._forget_timer()
        if stage is not _Stage.ANSWERING:
            self._timer = self.loop.call_later(_seconds_of(stage), self.cut, Outcome.LATE)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        self._is_over = True
        self._line.leave(self)
        self._forget_timer()

    def cut(self, outcome: Outcome) -> None:
        """Close the connection at once; from now on it does not count."""
        self._finish()
        self.connections.discard(self)
        self._line.observe(outcome)
        self.transport.abort()
