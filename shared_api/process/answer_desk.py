"""Assigns the requests of a port to worker threads, by lane and with a share for each caller.

    sort --> lane: waits for its caller's share --> a worker answers --> reply
              |                                      |
              +-- refused: 429                       +-- or names the lane in which it continues

A lane has workers and places of its own, so that cheap answers that others depend on never wait
behind expensive ones. Within a lane `CallerShares` decides which requests begin, wait or are
refused. All lanes together hold a bounded number of requests.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import structlog

from shared_api.caller_shares import CallerShares, Outcome, ShareLimits, address_key, user_key
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import Answer, Request, text_answer

if TYPE_CHECKING:
    from shared_api.process.loop_thread import LoopThread, Step

log = structlog.get_logger("answer_desk")

PATIENCE_SECONDS: Final = 5.0
"""How long a request waits for a worker: less than clients give an answer."""


def limit_places(places: int, waiting: int) -> ShareLimits:
    """Return the limits of a lane in which only places are short, whatever an answer costs.

    Args:
        places: Answers at once.
        waiting: Requests that wait, of all callers together.
    """
    return ShareLimits(
        places=places,
        waiting=waiting,
        patience_seconds=PATIENCE_SECONDS,
        rate=float(places),
        own_rate=1.0,
    )


Answerer = Callable[[Request], Answer]
"""Returns the answer to a request."""

_ANSWERS: Final = "answers"


class LaneRequest(NamedTuple):
    """A request, with the lane and the caller that it is charged to.

    Attributes:
        lane: The name of its lane.
        caller: The caller whose share it takes (`shared_api.caller_shares`).
        request: The request.
    """

    lane: str
    caller: str
    request: Request


Reply = Callable[[Answer], None]
"""Takes the answer to a request; called once, on any thread, and never blocks."""


class Lane(NamedTuple):
    """One kind of requests.

    Attributes:
        limits: How many are answered at once, one worker for each, and how many wait.
        answer: Called on a worker; returns the answer, or the lane in which the request continues.
    """

    limits: ShareLimits
    answer: Callable[[Request], Answer | LaneRequest]


class _Ticket:
    """One request in a lane."""

    __slots__ = ("reply", "request")

    def __init__(self, request: Request, reply: Reply) -> None:
        self.request = request
        self.reply = reply


class AnswerDesk:
    """The lanes of a port.

    Args:
        lanes: By name.
        sort: Returns the lane of a request, or its answer; called on the port's thread, so it must
            not block.
        refuse: Returns the answer 429, given the whole seconds after which to retry.
        clock: The time.
    """

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        sort: Callable[[Request], Answer | LaneRequest],
        refuse: Callable[[int], Answer],
        clock: Clock,
    ) -> None:
        self._sort = sort
        self._lanes = {
            name: _RunningLane(lane, refuse, self._go_on, clock) for name, lane in lanes.items()
        }

    def threads(self, name: str, spawn: Callable[[str, Step], LoopThread]) -> Sequence[LoopThread]:
        """Return the workers of all lanes, not yet started."""
        return [
            worker
            for lane, running in self._lanes.items()
            for worker in running.threads(f"{name}-{lane}", spawn)
        ]

    def ask(self, request: Request, reply: Reply) -> None:
        """Submit a request, on the port's thread; `reply` takes the answer."""
        self._go_on(make_answer(self._sort, request), reply)

    def tick(self) -> None:
        """Refuse requests that have waited too long; on the port's thread, every half second."""
        for lane in self._lanes.values():
            lane.tick()

    def work(self) -> bool:
        """Make one answer, if a request has a place, as its worker does; return whether it had."""
        return any(lane.work() is not None for lane in self._lanes.values())

    def _go_on(self, found: Answer | LaneRequest, reply: Reply) -> None:
        if isinstance(found, Answer):
            reply(found)
        else:
            self._lanes[found.lane].ask(found, reply)


UserOf = Callable[[str], str]
"""Returns the user of a header Authorization if it is cached, else ""; it never blocks."""

NOBODY: Final[UserOf] = lambda _: ""  # noqa: E731 - with its type
"""Knows no user: callers are distinguished by their addresses."""


def one_lane(
    answer: Answerer,
    limits: ShareLimits,
    refuse: Callable[[int], Answer],
    clock: Clock,
    user_of: UserOf = NOBODY,
) -> AnswerDesk:
    """Return a desk with a single lane, whose callers are users, or else addresses.

    A token that is not reviewed yet identifies no caller: a client can invent thousands.

    Args:
        answer: Returns the answers.
        limits: How many answers are made at once, and how many requests wait.
        refuse: Returns the answer 429.
        clock: The time.
        user_of: Returns the user of a request.
    """

    def sort(request: Request) -> LaneRequest:
        user = user_of(request.headers.get("authorization", ""))
        return LaneRequest(_ANSWERS, user_key(user) if user else address_of(request), request)

    return AnswerDesk({_ANSWERS: Lane(limits, answer)}, sort, refuse, clock)


def address_of(request: Request) -> str:
    """Return the key of the caller by the address of its request."""
    return address_key(request.client[0] if request.client else "")


class _RunningLane:
    """A lane with its waiting requests and its workers."""

    def __init__(
        self,
        lane: Lane,
        refuse: Callable[[int], Answer],
        go_on: Callable[[Answer | LaneRequest, Reply], None],
        clock: Clock,
    ) -> None:
        self._answer = lane.answer
        self._places = lane.limits.places
        self._refuse = refuse
        self._go_on = go_on
        self._clock = clock
        self._lock = threading.Lock()  # guards _shares
        self._shares: CallerShares[_Ticket] = CallerShares(lane.limits, clock.monotonic())
        # Those that have a place. Some threads append and others pop: a deque needs no lock.
        self._begun: deque[_Ticket] = deque()
        self._workers: list[LoopThread] = []

    def threads(self, name: str, spawn: Callable[[str, Step], LoopThread]) -> Sequence[LoopThread]:
        self._workers = [spawn(f"{name}/{number}", self.work) for number in range(self._places)]
        return self._workers

    def ask(self, queued: LaneRequest, reply: Reply) -> None:
        ticket = _Ticket(queued.request, reply)
        with self._lock:
            outcome = self._shares.ask(queued.caller, ticket, self._clock.monotonic())
        self._carry_out(outcome)

    def work(self) -> float | None:
        """Make one answer, if a request has a place; return the seconds to rest."""
        try:
            ticket = self._begun.popleft()
        except IndexError:
            return None
        found = make_answer(self._answer, ticket.request)
        with self._lock:
            outcome = self._shares.end(ticket, self._clock.monotonic())
        self._carry_out(outcome)
        self._go_on(found, ticket.reply)
        return 0.0

    def tick(self) -> None:
        with self._lock:
            if not self._shares.waiting:
                return
            outcome = self._shares.tick(self._clock.monotonic())
        self._carry_out(outcome)

    def _carry_out(self, outcome: Outcome[_Ticket]) -> None:
        for each in outcome.refused:
            each.ticket.reply(self._refuse(each.retry_after))
        if not outcome.begun:
            return
        self._begun.extend(outcome.begun)
        for worker in self._workers:
            worker.wake()


AnswerT = TypeVar("AnswerT")


def make_answer(answer: Callable[[Request], AnswerT], request: Request) -> AnswerT | Answer:
    """Return what `answer` returns, or a 500 if it raises: an exception must not end the port."""
    try:
        return answer(request)
    except Exception:
        log.exception("a request cannot be answered", path=request.target)
        return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "see the program's log")
