"""Answers of a server in turn, each in its caller's share: those about now wait for no other time.

To restore an engine takes seconds, and each time that is asked for is another engine. If such
answers were made on the threads of the server, some dozen of them would take all, and nobody would
be answered. So they have a few threads, and each caller a share of these, by the rules of
`shared_api.caller_shares`. Answers about now have threads and shares of their own. Who waits for
its share waits in the server's loop, without a thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import partial, wraps
from typing import Any, Final, TypeVar

import anyio
from anyio import CapacityLimiter, Event, to_thread
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from shared_api.caller_shares import CallerShares, ShareLimits
from shared_api.process.caller_turns import Turn, announce, turn_refused
from shared_api.process.clock import Clock

T = TypeVar("T")

AT: Final = "at"
"""The parameter of a query that asks about an earlier time."""
PAST: Final = ShareLimits(
    places=4,  # engines are restored one at a time
    waiting=32,
    patience_seconds=15.0,
    own_places=1,
    # Half of the time of a thread for all callers, and a twentieth for each: nothing is decided in
    # the process, but it follows the scheduler, and answers about now.
    rate=0.5,
    own_rate=0.05,
    saved_seconds=10.0,
)
"""The shares of callers in answers about earlier times."""
NOW: Final = ShareLimits(
    places=8,
    waiting=64,
    patience_seconds=10.0,
    # One of these computes, and the others wait for it or for a review by the API server. More of
    # one caller would make none of its answers earlier.
    own_places=1,
    rate=1.0,
    own_rate=0.25,
    saved_seconds=10.0,
)
"""The shares of callers in answers about now, on a port that is open to others."""
REST_SECONDS: Final = (0.01, 1.0)
"""The shortest and the longest rest before the shares are looked at again."""

_REQUEST: Final = "request"

CallerOf = Callable[[Request, Mapping[str, Any]], str]
"""Returns who asks, of a request and what the route is called with."""


class LoopTurns:
    """Turns of functions on threads; used by one loop only.

    Args:
        clock: The time.
        limits: How much there is to share.
    """

    def __init__(self, clock: Clock, limits: ShareLimits) -> None:
        self._clock = clock
        self._shares: CallerShares[Turn[Event]] = CallerShares(limits, clock.monotonic())
        self._threads = CapacityLimiter(limits.places)

    async def run(self, caller: str, work: Callable[[], T]) -> T:
        """Return what a function returns, called on a thread in the caller's share.

        Args:
            caller: Who asks.
            work: What takes long.

        Raises:
            QuestionError: RESOURCE_EXHAUSTED: the caller has had its share for now.
        """
        ticket = await self._begin(caller)
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            announce(self._shares.end(ticket, self._clock.monotonic()))

    async def _begin(self, caller: str) -> Turn[Event]:
        ticket = Turn(Event())
        announce(self._shares.ask(caller, ticket, self._clock.monotonic()))
        try:
            while not ticket.decided.is_set():
                seconds = self._shares.seconds_to_tick(self._clock.monotonic())
                with anyio.move_on_after(_clamp_rest(seconds)):
                    await ticket.decided.wait()
                announce(self._shares.tick(self._clock.monotonic()))
        except BaseException:  # the server ends
            self._leave(ticket)
            raise
        if ticket.retry_after:
            raise turn_refused(ticket.retry_after)
        return ticket

    def _leave(self, ticket: Turn[Event]) -> None:
        if not ticket.decided.is_set():
            self._shares.leave(ticket)
        elif not ticket.retry_after:
            announce(self._shares.end(ticket, self._clock.monotonic()))


class AnswerTurns:
    """The turns of one server's answers; used by its loop only.

    Args:
        clock: The time.
        now: How much there is to share of answers about now; None: they are made on the threads of
            the server, whoever asks.
        past: How much of answers about earlier times.
    """

    def __init__(
        self, clock: Clock, now: ShareLimits | None = None, past: ShareLimits = PAST
    ) -> None:
        self._now = None if now is None else LoopTurns(clock, now)
        self._past = LoopTurns(clock, past)

    def in_turn(
        self, answer: Callable[..., object], caller_of: CallerOf
    ) -> Callable[..., Coroutine[Any, Any, Response]]:
        """Return a route for FastAPI that answers in the caller's share.

        Models are encoded on the thread that makes them.

        Args:
            answer: The route; it may block.
            caller_of: Returns who asks.
        """
        declared = inspect.signature(answer)
        passes_request = _REQUEST in declared.parameters

        @wraps(answer)
        async def route(**given: Any) -> Response:  # noqa: ANN401 - what the route takes
            request: Request = given[_REQUEST] if passes_request else given.pop(_REQUEST)
            work = partial(_encoded, partial(answer, **given))
            if AT in request.query_params:
                return await self._past.run(caller_of(request, given), work)
            if self._now is None:
                return await run_in_threadpool(work)
            return await self._now.run(caller_of(request, given), work)

        if not passes_request:
            own = inspect.Parameter(_REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request)
            declared = declared.replace(parameters=[*declared.parameters.values(), own])
        route.__signature__ = declared  # type: ignore[attr-defined]  # what FastAPI reads
        return route


def _clamp_rest(seconds: float | None) -> float:
    shortest, longest = REST_SECONDS
    return longest if seconds is None else min(longest, max(shortest, seconds))


def _encoded(answer: Callable[[], object]) -> Response:
    found = answer()
    if isinstance(found, BaseModel):
        return Response(found.model_dump_json(by_alias=True), media_type="application/json")
    assert isinstance(found, Response), "a route returns a model, or an answer"
    return found
