"""What all visitors are shown parts of: read from one copy of the engine, and kept for a second."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar, cast

import msgspec

from queue_insight.page.sources import EngineAtTime, PageSources
from queue_insight.page.units_to_act_on import (
    UnitGroup,
    find_pods_not_running,
    find_units_to_act_on,
    find_unqueued,
)
from queue_scheduler.cache.known_units import units_by_key
from queue_scheduler.cache.unit_state import PENDING, CachedUnit
from queue_scheduler.cycles.engine_reader import OwnEngine
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.fair_views import FairAccountsView, view_fair_accounts
from queue_scheduler.debug_api.limit_views import LimitUse, find_limit_uses
from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.engine.engine import Engine
from shared_api.unit_problems import Ready

T = TypeVar("T")


class Waiting(msgspec.Struct):
    """The pending units of one namespace in one queue.

    Attributes:
        count: How many there are.
        oldest: The earliest creation time, as in their objects; "" if it is not known.
    """

    count: int = 0
    oldest: str = ""


class Users(msgspec.Struct):
    """The namespaces whose units are in the amounts of one quota.

    Attributes:
        charged: Those with units that are charged to it.
        pending: Those with units that wait for it.
    """

    charged: set[str] = msgspec.field(default_factory=set)
    pending: set[str] = msgspec.field(default_factory=set)


class UnitSummary:
    """What takes a look at each unit of a state: found when it is first asked for.

    Callable from any thread. News of what has changed take none of it.

    Args:
        engine: A copy, which nothing else uses.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Guards what follows, and the copy: a question may complete what an engine keeps.
        self._lock = threading.Lock()
        self._found: dict[Callable[[Engine], object], object] = {}

    @property
    def waiting(self) -> dict[str, dict[str, Waiting]]:
        """The pending units, by queue and namespace."""
        return self._once(_count)[0]

    @property
    def users(self) -> dict[str, Users]:
        """The namespaces whose units are in its amounts, by quota."""
        return self._once(_count)[1]

    @property
    def to_act(self) -> tuple[UnitGroup, ...]:
        """The units that wait until a user acts, by reason."""
        return self._once(find_units_to_act_on)

    @property
    def not_running(self) -> tuple[tuple[str, Ready], ...]:
        """The admitted units whose pods do not run, with what is said of that."""
        return self._once(find_pods_not_running)

    @property
    def unqueued(self) -> tuple[str, ...]:
        """The pending units that stand in no queue, by key."""
        return self._once(find_unqueued)

    def _once(self, find: Callable[[Engine], T]) -> T:
        with self._lock:
            if find not in self._found:
                self._found[find] = find(self._engine)
            return cast("T", self._found[find])


class KnownState(msgspec.Struct, frozen=True):
    """One state of the engine.

    Attributes:
        number: The number of the state.
        state_at: The time that it is as of.
        leader: Whether the replica decides.
        queues: All queues, by name, with everything that is known.
        trees: The quota trees, likewise.
        missing_quotas: Which plugins have quotas that are not among the trees, as text.
        policy_problems: Why QuotaPolicies do not count as they say, as text.
        reservation_problems: The same of QueueReservations.
        limit_uses: What users and groups have in quotas that limit them.
        fair_accounts: The accounts of queues with the policy Fair, by queue.
        records: All units, by key.
        units: What they are together.
    """

    number: int
    state_at: datetime
    leader: bool
    queues: tuple[views.QueueView, ...]
    trees: tuple[views.QuotaNodeView, ...]
    missing_quotas: tuple[str, ...]
    policy_problems: tuple[str, ...]
    reservation_problems: tuple[str, ...]
    limit_uses: tuple[LimitUse, ...]
    fair_accounts: dict[str, FairAccountsView]
    records: Mapping[str, CachedUnit]
    units: UnitSummary


class KnownStates:
    """Reads states; callable from any thread.

    Attributes:
        looked_at: When a state was read last, in monotonic seconds; whoever asks since is shown no
            older one.

    Args:
        sources: What is asked.
    """

    def __init__(self, sources: PageSources) -> None:
        self.looked_at = 0.0
        self._sources = sources
        self._lock = threading.Lock()  # guards the fields; held while one is read, for all callers
        self._last: KnownState | None = None
        self._until = 0.0

    def of_now(self) -> KnownState:
        """Return the state of now, at most a second old, but not older than any that was looked at.

        Raises:
            NoStateError: There is none.
        """
        with self._lock:
            last = self._last
            if last is not None and self._sources.clock.monotonic() < self._until:
                # Not without asking: the program may have lost its state meanwhile.
                self._sources.at(None)
                return last
            return self._read()

    def look(self) -> KnownState:
        """Return the current state; a visitor that has seen it is shown no older one.

        Raises:
            NoStateError: There is none.
        """
        with self._lock:
            return self._read()

    def _read(self) -> KnownState:
        """Return the state of this moment; with the lock held."""
        self.looked_at = self._sources.clock.monotonic()
        state, number, last = self._sources.at(None), self._sources.number(), self._last
        if last is not None and last.number == number and last.leader == state.is_leader:
            return msgspec.structs.replace(last, state_at=state.state_at)
        found = self._last = read_state(state, number)
        self._until = self._sources.clock.monotonic() + self._sources.kept_seconds
        return found

    def at(self, moment: datetime | None) -> KnownState:
        """Return the state of a time; None: of now.

        Raises:
            NoStateError: There is none.
        """
        return self.of_now() if moment is None else read_state(self._sources.at(moment), 0)


def read_state(state: EngineAtTime, number: int) -> KnownState:
    """Return what a state of the engine is."""
    engine = state.shared.fork()
    quotas = views.view_quotas(engine, leader=state.is_leader)
    snapshots = Snapshots(OwnEngine(engine), state.now)
    queues = snapshots.queues(snapshots.queue_names())
    return KnownState(
        number=number,
        state_at=state.state_at,
        leader=state.is_leader,
        queues=tuple(map(views.view_queue, queues)),
        trees=tuple(quotas.items),
        missing_quotas=tuple(views.hidden_quotas(engine)),
        policy_problems=tuple(views.policy_problems(engine)),
        reservation_problems=tuple(views.reservation_problems(engine)),
        limit_uses=tuple(find_limit_uses(engine)),
        fair_accounts=_fair_accounts(engine, state.now()),
        records=units_by_key(engine.units),
        units=UnitSummary(engine),
    )


def _fair_accounts(engine: Engine, now: datetime) -> dict[str, FairAccountsView]:
    if not engine.usage.fair.is_on:
        return {}
    second = int(now.timestamp())
    found = ((each.name, view_fair_accounts(engine, each.name, second)) for each in engine.queues)
    return {name: accounts for name, accounts in found if accounts is not None}


def _count(engine: Engine) -> tuple[dict[str, dict[str, Waiting]], dict[str, Users]]:
    """Return the pending units by queue and namespace, and who uses each quota."""
    waiting: defaultdict[str, dict[str, Waiting]] = defaultdict(dict)
    users: defaultdict[str, Users] = defaultdict(Users)
    charges = engine.usage.charges
    for record in engine.units:
        meta, info = record.unit.metadata, record.info
        is_pending = record.state in PENDING
        if info is not None:
            of_quota = users[info.quota]
            if is_pending:
                of_quota.pending.add(meta.namespace)
            if meta.uid in charges:
                of_quota.charged.add(meta.namespace)
        if is_pending:
            of_queue = waiting[record.queue_name]
            found = of_queue.get(meta.namespace)
            if found is None:
                found = of_queue[meta.namespace] = Waiting()
            found.count += 1
            created = meta.creation_timestamp
            if created and (not found.oldest or created < found.oldest):
                found.oldest = created
    return dict(waiting), dict(users)
