"""Judges whose turn it is where use decides: which queue, which account, and who is reclaimed from.

- *turns*: of queues of equal rank that compete, the one whose quota has used the least goes first,
  and of those that are level the one that was served longest ago;
- *accounts*: in a queue with the policy Fair the account that has used the least goes first;
- *reclaims*: of equal priority, a quota takes first from whoever has used the most.

Use is added up in an engine that is told the same calls (`replayed_engine`), by `share_meters`. Its
bounds are those of a minute; whoever is within the bounds of another is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from queue_scheduler.cache.admitted_units import bucket_of
from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.cache.usage import Charge
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.decision import Dequeue, Preempt, Reason, Refused, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.queueing.queue_questions import refusal_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.meta import Uid
from shared_api.queue_unit_phases import RECLAIMED
from tests.simulation.share_meters import AccountMeter, QuotaMeter


@dataclass(frozen=True)
class _Standing:
    """A queue that has something to decide: its rank, its quotas, and when it was served."""

    name: str
    rank: int
    quotas: frozenset[str]
    served: int


@dataclass
class _Asked:
    """A queue that is asked for a decision.

    Attributes:
        line: Its units that are not refused.
        ahead: The queues that compete with it, could decide as well, and surely come before it.
        after: Those that surely come after it.
    """

    line: list[CachedUnit]
    ahead: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class ShareJudge:
    """Called before and after each call of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._quotas = None if engine.usage.quota_use is None else QuotaMeter(engine)
        self._accounts: dict[str, AccountMeter] = {}
        self._charges: dict[Uid, Charge] = {}
        self._assumed: set[Uid] = set()
        self._served: dict[str, int] = {}
        self._asked: _Asked | None = None

    def before(self, call: EngineCall) -> None:
        """Note the queues as they are before a decision."""
        self._asked = None
        is_asked = call.name == Engine.decide_next.__name__
        if not is_asked or self._engine.account_restore.is_behind:
            return
        name, _, wall = call.args
        queue = self._engine.queues.find(name)
        if queue is None:
            return
        second = int(wall.timestamp())
        if self._quotas is not None:
            self._quotas.pass_time(second)
        for meter in self._accounts.values():
            meter.pass_time(second)
        if self._quotas is not None or name in self._accounts:
            self._asked = self._look(queue)

    def after(self, call: EngineCall, answer: Any) -> None:
        """Take what a call has changed; raise AssertionError if what it decided is wrong."""
        if self._asked is not None:
            self._check(self._asked, call.args[0], answer, call.args[2])
        if isinstance(answer, Dequeue):
            self._served[answer.queue] = max(self._served.values(), default=0) + 1
            self._assumed.add(answer.uid)
        elif call.name == Engine.on_queue_gone.__name__:
            self._served.pop(call.args[0], None)
        if self._engine.account_restore.is_behind:
            self._accounts.clear()
            return
        if self._quotas is not None:
            self._quotas.follow()
        self._follow_accounts()

    def check(self) -> None:
        """Raise AssertionError if use, or the order of accounts, is not what was added up."""
        if self._engine.account_restore.is_behind:
            return
        if self._quotas is not None:
            self._quotas.check()
        for name, meter in self._accounts.items():
            meter.check(f"queue {name}")
            units = pending_units(self._engine.units, name)
            for before, after in pairwise(units):
                self._check_pair(name, after, before, "stands behind")

    # --- accounts -----------------------------------------------------------------------------

    def _follow_accounts(self) -> None:
        engine = self._engine
        fair, usage = engine.usage.fair, engine.usage
        before, self._charges = self._charges, dict(usage.charges) if fair.is_on else {}
        for queue in engine.queues if fair.is_on or self._accounts else ():
            use = fair.of_queue(queue.name)
            known = self._accounts.get(queue.name)
            if use is None or known is None or not known.is_of(use):
                self._begin(queue.name)
                continue
            known.pass_time(fair.second)
            known.take_settings(use.settings)
            if not self._follow_charges(queue.name, known, before):
                self._begin(queue.name)
        for name in [each for each in self._accounts if each not in engine.queues]:
            del self._accounts[name]
        admitted = (each.uid for each in engine.units if each.state is UnitState.ADMITTED)
        self._assumed = (self._assumed & usage.charges.keys()).difference(admitted)

    def _begin(self, name: str) -> None:
        use = self._engine.usage.fair.of_queue(name)
        self._accounts.pop(name, None)
        if use is not None and self._engine.usage.fair.second:
            self._accounts[name] = AccountMeter(self._engine, use, name)

    def _follow_charges(self, name: str, meter: AccountMeter, before: dict[Uid, Charge]) -> bool:
        """Return whether the meter knows all of the changes."""
        for uid in before.keys() | self._charges.keys():
            old, new = before.get(uid), self._charges.get(uid)
            if old is new and meter.is_rated(uid):
                continue
            if old is not None and not _counts(old, name):
                old = None
            if new is not None and not _counts(new, name):
                new = None
            is_undone = uid in self._assumed
            if (old or new) and not meter.follow(uid, new, is_undone=is_undone):
                return False
        return True

    # --- decisions ----------------------------------------------------------------------------

    def _look(self, queue: SchedulingQueue) -> _Asked:
        engine = self._engine
        line = [
            record
            for record in pending_units(engine.units, queue.name)
            if record.info is not None and refusal_of(queue, record.info).reason is Reason.WAITING
        ]
        asked = _Asked(line)
        standings = {} if self._quotas is None else {each.name: each for each in self._movable()}
        own = standings.pop(queue.name, None)
        if own is None:
            return asked
        for each in standings.values():
            if not self._domains(own.quotas) & self._domains(each.quotas):
                continue
            if self._is_ahead(each, own):
                asked.ahead.append(each.name)
            elif self._is_ahead(own, each):
                asked.after.append(each.name)
        return asked

    def _movable(self) -> Iterator[_Standing]:
        engine = self._engine
        for queue in engine.queues:
            if engine.turns.backs_off_until(queue.name) is not None or queue.next_key() is None:
                continue
            units = pending_units(engine.units, queue.name)
            quotas = frozenset(each.info.quota for each in units if each.info is not None)
            rank = -(queue.rules.api_object.spec.priority or 0)
            yield _Standing(queue.name, rank, quotas, self._served.get(queue.name, 0))

    def _domains(self, quotas: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._engine.plugins.domains, quotas))

    def _check(self, asked: _Asked, name: str, answer: Any, wall: datetime) -> None:
        if isinstance(answer, Rest):
            first = answer.behind
            assert first not in asked.after, f"turns: {name} rests behind {first}"
            return
        if isinstance(answer, Dequeue | Preempt | Refused):
            assert not asked.ahead, f"turns: {name} goes before {asked.ahead}"
        if isinstance(answer, Dequeue | Preempt):
            decided = self._engine.record(answer.unit)
            assert decided is not None
            for record in asked.line if name in self._accounts else ():
                self._check_pair(name, record, decided, "has its turn after")
        if isinstance(answer, Preempt) and answer.reason == RECLAIMED:
            self._check_reclaim(answer, wall)

    def _is_ahead(self, one: _Standing, other: _Standing) -> bool:
        """Return whether a queue surely has its turn before another."""
        assert self._quotas is not None, "turns do not go by use"
        if one.rank != other.rank:
            return one.rank < other.rank
        is_ahead = self._quotas.is_ahead
        if any(all(is_ahead(ours, each) for each in other.quotas) for ours in one.quotas):
            return True
        both = one.quotas | other.quotas
        if one.quotas != other.quotas and not all(map(self._quotas.is_unused, both)):
            return False
        return (one.served, one.name) < (other.served, other.name)

    def _check_pair(self, name: str, one: CachedUnit, other: CachedUnit, how: str) -> None:
        """Raise AssertionError if a unit must have its turn before another of its queue."""
        assert one.info is not None, f"{one.key} has no demand"
        assert other.info is not None, f"{other.key} has no demand"
        if one.uid == other.uid:
            return
        meter, account_of = self._accounts[name], self._engine.usage.account_of
        if meter.settings.is_priority_first and one.info.priority != other.info.priority:
            is_first = one.info.priority > other.info.priority
        else:
            paths = [meter.path_of(account_of(each.info)) for each in (one, other) if each.info]
            found = meter.is_ahead(*paths)
            is_first = one.info.order_key[1:] < other.info.order_key[1:] if found is None else found
        assert not is_first, f"accounts: {one.key} {how} {other.key}"

    # --- reclaims -----------------------------------------------------------------------------

    def _check_reclaim(self, decision: Preempt, wall: datetime) -> None:
        """Check that no victim goes in place of a unit of whoever has used more."""
        engine = self._engine
        preemptor = engine.record(decision.unit)
        queue = engine.queues.find(decision.queue)
        assert preemptor is not None
        assert preemptor.info is not None
        assert queue is not None
        if queue.in_flight:
            return  # these must go, too
        chosen = [each.uid for each in decision.victims]
        domains = engine.plugins.domains(decision.quota)
        leaving = [each.uid for each in engine.candidates.leaving(domains)]
        leaving = [uid for uid in leaving if uid not in chosen]
        for other in self._could_go(preemptor.info, chosen, wall):
            for victim in decision.victims:
                spares = engine.record(victim.unit)
                assert spares is not None
                if bucket_of(other)[0] != bucket_of(spares)[0] or not self._has_more(other, spares):
                    continue
                instead = [*(uid for uid in chosen if uid != victim.uid), other.uid]
                if self._is_enough(preemptor.info, leaving, instead):
                    raise AssertionError(f"reclaims: {victim.unit} goes, and not {other.key}")

    def _could_go(
        self, info: QueueUnitInfo, chosen: Sequence[Uid], wall: datetime
    ) -> Iterator[CachedUnit]:
        """Yield the units that could be evicted as well."""
        engine = self._engine
        terms = [plugin.reclaim_terms(at_least(info)) for plugin in engine.plugins.reclaiming]
        quotas = {quota for each in terms if each is not None for quota in each.quotas}
        protection = engine.candidates.protection(wall)
        for record in engine.units:
            if record.state is not UnitState.ADMITTED or record.uid in chosen:
                continue
            # One of its own queue may be spared since it would come back ahead of the preemptor.
            is_of = record.info is not None and record.info.quota in quotas
            if is_of and record.queue_name != info.queue and protection.why_kept(record) is None:
                yield record

    def _is_enough(self, info: QueueUnitInfo, leaving: Sequence[Uid], gone: Sequence[Uid]) -> bool:
        """Return whether a unit would start if these go, and no quota falls below its min."""
        plugins = self._engine.plugins
        if plugins.check_without(at_least(info), [*leaving, *gone]) is not None:
            return False
        for plugin in plugins.waking.guarantees:
            lent = plugin.lent_to(info, leaving, outranks=False)
            if lent is not None:
                return all(lent.take(uid, 1) for uid in gone)
        return True

    def _has_more(self, one: CachedUnit, other: CachedUnit) -> bool:
        """Return whether a unit is surely of a quota or an account that has used more."""
        assert one.info is not None
        assert other.info is not None
        if self._quotas is not None and one.info.quota != other.info.quota:
            return self._quotas.is_ahead(other.info.quota, one.info.quota)
        meter = self._accounts.get(one.info.queue)
        charges = [self._engine.usage.charge_of(each.uid) for each in (one, other)]
        if meter is None or one.info.queue != other.info.queue or None in charges:
            return False
        mine, theirs = (meter.path_of(each.account) for each in charges if each is not None)
        return meter.is_ahead(theirs, mine) is True


def _counts(charge: Charge, queue: str) -> bool:
    """Return whether a charge counts for an account of a queue."""
    return charge.is_admitted and charge.account.queue == queue
