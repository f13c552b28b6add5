"""What is pending, and what quotas have: answers from copies of the engine, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import wraps
from itertools import islice
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.account_views import AccountPage, view_accounts
from queue_scheduler.debug_api.fair_views import FairAccountsView, view_fair_accounts
from queue_scheduler.debug_api.hiding import MayRead
from queue_scheduler.debug_api.limit_views import (
    LimitUse,
    UserLimitPage,
    find_limit_uses,
    namespaces_of,
    view_user_limits,
)
from queue_scheduler.debug_api.parameters import DEFAULT_PAGE
from queue_scheduler.debug_api.queue_views import QueueViews
from queue_scheduler.debug_api.reservation_views import ReservationPage, view_reservations
from queue_scheduler.debug_api.snapshots import QueuePage, QueueSnapshot, Snapshots
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_policies import FAIR
from queue_scheduler.tenants.budget_figures import budgets_left
from queue_scheduler.tenants.ledger import Ledger
from shared_api.process.clock import SystemClock
from shared_api.question_errors import Code, QuestionError

ACCOUNTS_OFF: Final = "accounts are not kept: turn them on with the chart's accounts.enabled"


class HasTurn(Protocol):
    """Answers questions in turn."""

    @property
    def turn(self) -> threading.Lock:
        """What is held while an answer is built."""


P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
HasTurnT = TypeVar("HasTurnT", bound=HasTurn)


def in_turn(
    build: Callable[Concatenate[HasTurnT, P], AnswerT],
) -> Callable[Concatenate[HasTurnT, P], AnswerT]:
    """Return a method that builds its answer while no other is built."""

    @wraps(build)
    def answer(answers: HasTurnT, /, *args: P.args, **kwargs: P.kwargs) -> AnswerT:
        with answers.turn:
            return build(answers, *args, **kwargs)

    return answer


class StateAnswers:
    """Builds the answers about the engine's state, one at a time.

    Many requests at once would all wait for the engine's lock, and delay decisions by seconds. They
    would not end earlier either, since Python runs one thread at a time.

    Attributes:
        shared: The engine.
        is_leader: Returns whether this replica decides.
        now: Returns the time.
        turn: What is held while an answer is built.
        queue_views: The views of queues.

    Args:
        shared: The engine.
        is_leader: Returns whether this replica decides.
        now: Returns the time, for how long units have run; None: the system clock's.
    """

    def __init__(
        self,
        shared: EngineReader,
        is_leader: Callable[[], bool],
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.shared = shared
        self.is_leader = is_leader
        self.now = now or SystemClock().now
        self.queue_views = QueueViews()
        self._snapshots = Snapshots(shared, self.now)
        # Guards no field: it keeps many requests from the engine's lock. The holder waits for that
        # lock only.
        self.turn = threading.Lock()

    @in_turn
    def queues(self, offset: int = 0, limit: int = DEFAULT_PAGE) -> views.QueuePage:
        """All queues, by name."""
        names = self._snapshots.queue_names()
        self.queue_views.keep_only(names)
        facts = self._snapshots.queues(names[offset : offset + limit])
        return views.QueuePage(
            leader=self.is_leader(),
            total=len(names),
            offset=offset,
            limit=limit,
            items=[self.queue_views.view(queue) for queue in facts],
        )

    @in_turn
    def queue(self, name: str, offset: int = 0, limit: int = DEFAULT_PAGE) -> views.QueueDetail:
        """One queue and a page of its units: pending ones in order, then those on hold.

        Raises:
            QuestionError: NOT_FOUND: there is none.
        """
        found = next(iter(self._snapshots.queues([name])), None)
        queue = found_or_unknown(found, f"queue {name!r}")
        page = self._snapshots.page(name, offset, limit)
        first, last = (max(0, bound - page.length) for bound in (offset, offset + limit))
        held = islice(self._snapshots.held(queue), first, last)
        return views.QueueDetail(
            leader=self.is_leader(),
            queue=views.view_queue(queue),
            offset=offset,
            limit=limit,
            units=[views.view_unit(unit) for unit in (*page.units, *held)],
            accounts=self._fair_accounts(queue),
        )

    def _fair_accounts(self, queue: QueueSnapshot) -> FairAccountsView | None:
        """Return the accounts of a queue; a fork is asked only if there are any."""
        if queue.policy != FAIR.name:
            return None
        second = int(self.now().timestamp())
        return view_fair_accounts(self.shared.fork(), queue.queue.metadata.name, second)

    @in_turn
    def check_queue(self, name: str) -> None:
        """Check that there is a queue.

        Raises:
            QuestionError: NOT_FOUND: there is none.
        """
        found_or_unknown(next(iter(self._snapshots.queues([name])), None), f"queue {name!r}")

    @in_turn
    def queue_unit(self, namespace: str, name: str) -> views.UnitView:
        """One unit, with its position, why it waits, and the units that it would preempt.

        Raises:
            QuestionError: NOT_FOUND: there is none.
        """
        key = f"{namespace}/{name}"
        unit = found_or_unknown(self._snapshots.unit(key), f"queue unit {key}")
        waits = unit.refusal is not None and unit.position > 0
        would = None
        if waits:
            unit, would = self._snapshots.refresh(unit)
        return views.view_unit(unit, would)

    @in_turn
    def quotas(self) -> views.QuotaTreePage:
        """All quotas, as trees."""
        return views.view_quotas(self.shared.fork(), leader=self.is_leader())

    def accounts(self, may_read: MayRead, offset: int, limit: int) -> AccountPage:
        """Who has used how much; accounts that the caller may not read are summed up.

        Raises:
            QuestionError: NOT_FOUND: accounts are not kept.
        """
        ledger = self.copy_ledger()
        # The API server is asked without the turn, so that other requests do not wait for it.
        namespaces = {account.namespace for account, _ in ledger}
        readable = {namespace for namespace in sorted(namespaces) if may_read(namespace)}
        return self._view_accounts(ledger, readable, offset, limit)

    @in_turn
    def copy_ledger(self) -> Ledger:
        """Return a copy of the accounts, as of now.

        Raises:
            QuestionError: NOT_FOUND: accounts are not kept.
        """
        second = int(self.now().timestamp())
        ledger = self.shared.ask(_fork_ledger)
        if ledger is None:
            raise QuestionError(Code.NOT_FOUND, ACCOUNTS_OFF)
        ledger.advance(second)  # at rest the engine is not told the time
        return ledger

    @in_turn
    def budgets_left(self) -> dict[str, dict[str, str]]:
        """What is left of budgets now, by quota, and by resource or `amount`."""
        accounts = self.shared.fork().usage.budgets.accounts
        accounts.advance(int(self.now().timestamp()))  # at rest the engine is not told the time
        return budgets_left(accounts)

    @in_turn
    def _view_accounts(
        self, ledger: Ledger, readable: AbstractSet[str], offset: int, limit: int
    ) -> AccountPage:
        return view_accounts(ledger, readable, offset, limit, leader=self.is_leader())

    def user_limits(self, may_read: MayRead, quota: str, offset: int, limit: int) -> UserLimitPage:
        """What users and groups have where that is limited; what may not be read is counted.

        Args:
            may_read: Whether the caller may read the units of a namespace.
            quota: Only of this quota; "": of all.
            offset: Rows to leave out.
            limit: Rows at most.
        """
        uses = self._find_limit_uses(quota)
        # The API server is asked without the turn, so that other requests do not wait for it.
        readable = {name for name in namespaces_of(uses) if may_read(name)}
        return view_user_limits(uses, readable, offset, limit, leader=self.is_leader())

    @in_turn
    def _find_limit_uses(self, quota: str) -> list[LimitUse]:
        return find_limit_uses(self.shared.fork(), quota)

    @in_turn
    def reservations(self, offset: int = 0, limit: int = DEFAULT_PAGE) -> ReservationPage:
        """All reservations, by name."""
        second = int(self.now().timestamp())
        engine = self.shared.fork()
        return view_reservations(engine, second, offset, limit, leader=self.is_leader())

    @in_turn
    def waiting_pages(self, offset: int, limit: int) -> dict[str, QueuePage]:
        """Return a page of the pending units of each queue."""
        names = self._snapshots.queue_names()
        return {name: self._snapshots.page(name, offset, limit) for name in names}

    @in_turn
    def upstream_quotas(self) -> views.UpstreamQuotas:
        """Use per queue and quota, under upstream's path."""
        engine = self.shared.fork()
        return views.view_upstream_quotas(engine)


def _fork_ledger(engine: Engine) -> Ledger | None:
    ledger = engine.usage.ledger
    return None if ledger is None else ledger.fork()


def found_or_unknown(answer: AnswerT | None, what: str) -> AnswerT:
    """Return an answer that there is.

    Args:
        answer: What was found; None: nothing.
        what: What was asked for, with its name.

    Raises:
        QuestionError: NOT_FOUND: nothing was found.
    """
    if answer is None:
        raise QuestionError(Code.NOT_FOUND, f"{what} is unknown")
    return answer
