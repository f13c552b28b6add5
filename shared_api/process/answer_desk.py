"""Who makes the answers of a port: threads by kind of request, and a share of them per caller.

    sort --> lane: waits for its caller's share --> a worker answers --> reply
              |                                      |
              +-- refused: 429                       +-- or says in which lane it goes on

A lane has workers and places of its own, so that cheap answers that others depend on never wait
behind dear ones. Within a lane `CallerShares` decides who begins, who waits and who is refused. All
lanes together hold a bounded number of requests, whatever is asked.
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
from shared_api.process.http_exchange import Answer, Request, say

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
"""Makes the answer to a request."""

_ANSWERS: Final = "answers"


class Asked(NamedTuple):
    """A request that is to be answered.

    Attributes:
        lane: The name of its lane.
        caller: Whose share it takes (`shared_api.caller_shares`).
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
        answer: Makes the answer, on a worker, or says in which lane the request goes on.
    """

    limits: ShareLimits
    answer: Callable[[Request], Answer | Asked]


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
        sort: Says where a request goes, or answers it; called on the port's thread: it may not
            wait for anything.
        refuse: Makes the answer 429, given the whole seconds after which to ask again.
        clock: The time.
    """

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        sort: Callable[[Request], Answer | Asked],
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
        """Have a request answered; on the port's thread."""
        self._go_on(make_answer(self._sort, request), reply)

    def tick(self) -> None:
        """Refuse those that have waited too long; on the port's thread, twice a second or more."""
        for lane in self._lanes.values():
            lane.tick()

    def work(self) -> bool:
        """Make one answer, if a request has a place, as its worker does; return whether it had."""
        return any(lane.work() is not None for lane in self._lanes.values())

    def _go_on(self, found: Answer | Asked, reply: Reply) -> None:
        if isinstance(found, Answer):
            reply(found)
        else:
            self._lanes[found.lane].ask(found, reply)


UserOf = Callable[[str], str]
"""Returns whom a header Authorization is known to be of; "": nobody known. It never waits."""

NOBODY: Final[UserOf] = lambda _: ""  # noqa: E731 - with its type
"""Where callers are told apart by their addresses."""


def one_lane(
    answer: Answerer,
    limits: ShareLimits,
    refuse: Callable[[int], Answer],
    clock: Clock,
    user_of: UserOf = NOBODY,
) -> AnswerDesk:
    """Return a desk with a single lane, whose callers are users, or else addresses.

    A token that nobody has reviewed says nothing: anybody can make up thousands.

    Args:
        answer: Makes the answers.
        limits: How many are made at once, and how many requests wait.
        refuse: Makes the answer 429.
        clock: The time.
        user_of: Who asks.
    """

    def sort(request: Request) -> Asked:
        user = user_of(request.headers.get("authorization", ""))
        return Asked(_ANSWERS, user_key(user) if user else address_of(request), request)

    return AnswerDesk({_ANSWERS: Lane(limits, answer)}, sort, refuse, clock)


def address_of(request: Request) -> str:
    """Return the caller that the address of a request is."""
    return address_key(request.client[0] if request.client else "")


class _RunningLane:
    """A lane, who waits in it, and its workers."""

    def __init__(
        self,
        lane: Lane,
        refuse: Callable[[int], Answer],
        go_on: Callable[[Answer | Asked, Reply], None],
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

    def ask(self, asked: Asked, reply: Reply) -> None:
        ticket = _Ticket(asked.request, reply)
        with self._lock:
            outcome = self._shares.ask(asked.caller, ticket, self._clock.monotonic())
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


FoundT = TypeVar("FoundT")


def make_answer(answer: Callable[[Request], FoundT], request: Request) -> FoundT | Answer:
    """Return what a function answers; an error 500 if it fails, which must not end the port."""
    try:
        return answer(request)
    except Exception:
        log.exception("a request cannot be answered", path=request.target)
        return say(HTTPStatus.INTERNAL_SERVER_ERROR, "see the program's log")
