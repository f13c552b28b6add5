"""Shares a bounded server among callers: a share of places and of seconds for each.

A server answers a few requests at once, its *places*. Each place that is occupied costs seconds,
and how many seconds per second there are is bounded as well, so that answers leave time for other
work. Without shares, one caller who asks in parallel takes all of it. With them:

- A caller begins another answer only while it has fewer places than are free. So one caller alone
  has up to half of them, and a newcomer finds a free place without waiting for another's answer to
  end: of four places, two greedy callers leave one. A server may allow a caller fewer: where
  answers keep one processor busy, more of them at once make none earlier.
- Each caller saves up seconds of its own, which nobody else can spend, and all callers together
  save up common ones. A caller may begin while either is left: what idle callers do not use is
  lent to those who ask. An answer in the making is charged to both as the time passes, down to a
  debt of as much as can be saved: it is soon forgiven.
- Who may not begin yet waits, in a queue that is bounded. If it is full, the caller with the most
  requests in it loses its newest one, which is the newcomer's if that caller is it.
- Of those who wait, the caller with the fewest places goes first, then the one with the most
  seconds left, then the one who has not begun for longest.
- Who is refused is told after how many seconds to ask again, and has cost nothing.

Source: dynamic thresholds (Choudhury and Hahne, 1998) for places; dropping from the longest queue
(McKenney, 1990). Nothing here reads a clock or takes a lock; `shared_api.process.caller_turns`
does. Callers are remembered up to a number; the one that has not asked for longest is forgotten.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

TicketT = TypeVar("TicketT", bound=Hashable)
"""What a server knows a request by; of requests that wait or are answered, no two are equal."""


SERVICE_ACCOUNT: Final = "system:serviceaccount:"
"""What the name of a service account begins with, before namespace and name."""


def user_key(user: str) -> str:
    """Return the caller that a user is, whichever of its tokens and sessions it asks with.

    All service accounts of a namespace are one: who may edit there can make any number, and ask as
    each of them.
    """
    if user.startswith(SERVICE_ACCOUNT):
        namespace = user.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
        return f"user/{SERVICE_ACCOUNT}{namespace}"
    return f"user/{user}"


def token_key(token: str) -> str:
    """Return the caller that a token is, where nothing says whose it is; not the token itself."""
    return f"token/{hashlib.sha256(token.encode('utf-8', 'surrogateescape')).hexdigest()}"


def address_key(host: str) -> str:
    """Return the caller that an address is, where nothing says which user asks."""
    return f"address/{host}"


MAX_RETRY_SECONDS: Final = 10
"""The latest time to ask again after a request was dropped from a full queue."""
_DROPPED_PER_SECOND: Final = 4
"""Requests for each place that come back in the same second, after they were dropped."""

_ROUNDING: Final = 1e-6
"""Seconds that do not count: sums of many small times are not exact."""


class ShareLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to share.

    Attributes:
        places: Answers at once.
        waiting: Requests that wait for a place or for seconds, of all callers together.
        patience_seconds: The longest wait.
        rate: Common seconds per second; `places` or more never runs out.
        own_rate: Seconds per second that each caller has for itself, more than 0.
        own_places: The most answers at once of one caller; None: as the places that are free allow.
        saved_seconds: The most that is saved up, and the deepest debt, of each caller and in
            common.
        callers: How many callers are remembered, more than can have places or wait.
    """

    places: int
    waiting: int
    patience_seconds: float
    rate: float
    own_rate: float
    own_places: int | None = None
    saved_seconds: float = 5.0
    callers: int = 1000


class Refusal(msgspec.Struct, Generic[TicketT], frozen=True):
    """A request that is not answered.

    Attributes:
        ticket: The request.
        retry_after: Whole seconds after which to ask again, at least 1.
    """

    ticket: TicketT
    retry_after: int


class Outcome(msgspec.Struct, Generic[TicketT], frozen=True):
    """What happens next.

    Attributes:
        begun: Requests that have a place from now on, until `CallerShares.end`.
        refused: Requests that are over.
    """

    begun: tuple[TicketT, ...] = ()
    refused: tuple[Refusal[TicketT], ...] = ()


class _Account(Generic[TicketT]):
    """Seconds that are saved up, less the time of answers in the making."""

    __slots__ = ("as_of", "dropped", "last_begun", "limits", "rate", "running", "saved", "waiting")

    def __init__(self, limits: ShareLimits, rate: float, now: float) -> None:
        self.limits = limits
        self.rate = rate
        self.saved = limits.saved_seconds
        self.as_of = now
        self.running = 0
        self.waiting: dict[TicketT, None] = {}  # the oldest first
        self.last_begun = 0
        self.dropped = 0  # since it was idle, for a full queue

    def charge(self, now: float) -> None:
        """Count the time that has passed; to be called before `running` changes."""
        most = self.limits.saved_seconds
        change = (self.rate - self.running) * (now - self.as_of)
        self.saved = min(most, max(-most, self.saved + change))
        self.as_of = now

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class CallerShares(Generic[TicketT]):
    """The requests of all callers, those that wait and those that are answered.

    Every method takes the time in monotonic seconds, which never decreases from call to call.

    Args:
        limits: How much there is to share.
        now: The time.
    """

    def __init__(self, limits: ShareLimits, now: float) -> None:
        assert limits.own_rate > 0, "a caller in debt would be shut out for ever"
        assert limits.callers > limits.places + limits.waiting, "those that are busy are kept"
        self._limits = limits
        self._common: _Account[TicketT] = _Account(limits, limits.rate, now)
        # The one that has not asked for longest first.
        self._accounts: dict[str, _Account[TicketT]] = {}
        self._waiting: dict[TicketT, tuple[str, float]] = {}  # caller and deadline, oldest first
        self._running: dict[TicketT, str] = {}
        self._begun = 0

    def ask(self, caller: str, ticket: TicketT, now: float) -> Outcome[TicketT]:
        """Take a request; return what becomes of it, if that is known, and of others.

        Args:
            caller: Who asks.
            ticket: The request.
            now: The time.
        """
        account = self._account(caller, now)
        wait = self._seconds_until(account, now)
        if wait > self._limits.patience_seconds:
            return Outcome(refused=(_refuse(ticket, wait),))
        account.waiting[ticket] = None
        self._waiting[ticket] = (caller, now + self._limits.patience_seconds)
        outcome = self.tick(now)
        if len(self._waiting) <= self._limits.waiting:
            return outcome
        dropped = self._drop(account, now)
        return msgspec.structs.replace(outcome, refused=(*outcome.refused, dropped))

    def end(self, ticket: TicketT, now: float) -> Outcome[TicketT]:
        """Give the place of a request back; return what becomes of those that wait."""
        account = self._accounts[self._running.pop(ticket)]
        for each in (account, self._common):
            each.charge(now)
            each.running -= 1
        if account.is_idle:
            account.dropped = 0
        return self.tick(now)

    def leave(self, ticket: TicketT) -> None:
        """Forget a request that waits, whose client has gone."""
        caller, _ = self._waiting.pop(ticket)
        del self._accounts[caller].waiting[ticket]

    def tick(self, now: float) -> Outcome[TicketT]:
        """Return what becomes of those that wait, as the time has passed."""
        begun: list[TicketT] = []
        while (account := self._next(now)) is not None:
            begun.append(self._begin(account, now))
        refused = [self._refuse_waiting(ticket, now) for ticket in self._late(now)]
        return Outcome(tuple(begun), tuple(refused))

    def seconds_to_tick(self, now: float) -> float | None:
        """Return in how many seconds time alone changes something; None: never."""
        if not self._waiting:
            return None
        _, deadline = next(iter(self._waiting.values()))
        waits = (
            self._seconds_until(account, now)
            for account in self._with_waiting()
            if self._has_place_for(account)
        )
        return max(0.0, min(deadline - now, min(waits, default=deadline - now)))

    @property
    def running(self) -> int:
        """How many places are taken."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def callers(self) -> int:
        """How many callers are remembered."""
        return len(self._accounts)

    def validate(self) -> None:
        """Check what always holds."""
        limits, accounts = self._limits, self._accounts.values()
        assert len(self._running) <= limits.places
        assert len(self._waiting) <= limits.waiting
        assert len(self._accounts) <= limits.callers
        assert sum(each.running for each in accounts) == len(self._running)
        most = limits.places if limits.own_places is None else limits.own_places
        assert all(each.running <= most for each in accounts)
        assert self._common.running == len(self._running)
        waiting = {ticket for each in accounts for ticket in each.waiting}
        assert waiting == set(self._waiting)
        assert not waiting & set(self._running)

    # ------------------------------------------------------------------------ inside

    def _account(self, caller: str, now: float) -> _Account[TicketT]:
        """Return the account of a caller, as the one that has asked last."""
        account = self._accounts.pop(caller, None)
        if account is None:
            account = _Account(self._limits, self._limits.own_rate, now)
            self._make_room()
        self._accounts[caller] = account
        return account

    def _make_room(self) -> None:
        """Forget the idle caller that has not asked for longest, if one more is too many."""
        if len(self._accounts) >= self._limits.callers:
            del self._accounts[next(name for name, each in self._accounts.items() if each.is_idle)]

    def _seconds_until(self, account: _Account[TicketT], now: float) -> float:
        """Return in how many seconds a caller may spend any, if it has no place until then."""
        for each in (account, self._common):
            each.charge(now)
        return min(_seconds_of(each) for each in (account, self._common))

    @property
    def _free(self) -> int:
        return self._limits.places - len(self._running)

    def _has_place_for(self, account: _Account[TicketT]) -> bool:
        own = self._limits.own_places
        return account.running < self._free and (own is None or account.running < own)

    def _with_waiting(self) -> Iterator[_Account[TicketT]]:
        callers = dict.fromkeys(caller for caller, _ in self._waiting.values())
        return (self._accounts[caller] for caller in callers)

    def _next(self, now: float) -> _Account[TicketT] | None:
        """Return the caller whose request begins now, or None."""
        able = [
            account
            for account in self._with_waiting()
            if self._has_place_for(account) and self._seconds_until(account, now) <= 0
        ]
        return min(
            able, key=lambda each: (each.running, -each.saved, each.last_begun), default=None
        )

    def _begin(self, account: _Account[TicketT], now: float) -> TicketT:
        ticket = next(iter(account.waiting))
        del account.waiting[ticket]
        self._running[ticket], _ = self._waiting.pop(ticket)
        for each in (account, self._common):
            each.charge(now)
            each.running += 1
        self._begun += 1
        account.last_begun = self._begun
        return ticket

    def _late(self, now: float) -> list[TicketT]:
        late: list[TicketT] = []
        for ticket, (_, deadline) in self._waiting.items():
            if deadline > now:
                break
            late.append(ticket)
        return late

    def _drop(self, newcomer: _Account[TicketT], now: float) -> Refusal[TicketT]:
        """Refuse the newest request of the caller with the most that wait."""
        longest = max(self._with_waiting(), key=lambda each: (len(each.waiting), each is newcomer))
        longest.dropped += 1
        # Who asks with so many at once would come back with all of them in the same second.
        later = 1 + longest.dropped // (_DROPPED_PER_SECOND * self._limits.places)
        refusal = self._refuse_waiting(next(reversed(longest.waiting)), now)
        after = max(refusal.retry_after, min(later, MAX_RETRY_SECONDS))
        return msgspec.structs.replace(refusal, retry_after=after)

    def _refuse_waiting(self, ticket: TicketT, now: float) -> Refusal[TicketT]:
        account = self._accounts[self._waiting[ticket][0]]
        self.leave(ticket)
        return _refuse(ticket, self._seconds_until(account, now))


def _seconds_of(account: _Account[TicketT]) -> float:
    return 0.0 if account.saved > -_ROUNDING else -account.saved / account.rate


def _refuse(ticket: TicketT, seconds: float) -> Refusal[TicketT]:
    return Refusal(ticket, max(1, math.ceil(seconds - _ROUNDING)))
