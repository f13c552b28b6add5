"""Sums up what accounts use, hour by hour, from the charges of an engine as they change. Exact.

Each account and kind of job is a line: a rate, and what was used since the last part was taken. A
change of a charge settles the lines that it concerns and nothing else; a part settles all of them.
The meter counts by the time of the engine's ledger, so its sums are those of the ledger, divided
among hours. Not thread-safe: it is called under the lock of the engine that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from queue_insight.record.use_sums import (
    MAX_KEYS_OF_NAMESPACE,
    QuotaUse,
    UseBlock,
    UseKey,
    UsePart,
    UseRow,
    add_amounts,
    add_quota_use,
    namespace_key,
)
from queue_scheduler.cache.unit_state import checkpoint_of
from queue_scheduler.cache.usage import Charge
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import MAX_ACCOUNTS
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts

HOUR: Final = 3600
MOST_HOURS: Final = 48
"""Hours that are closed at once; a wall clock that leaps further was set, and no use was missed."""
MAX_KEYS: Final = MAX_ACCOUNTS
"""Keys of an hour, as many as the ledger has accounts."""
MAX_KIND: Final = 63
"""Characters of a kind: as many as Kubernetes allows."""
MAX_CLOSED: Final = 10_000
"""Runs that are no longer charged, while it is not known yet whether they were evicted."""


class _Line(msgspec.Struct, gc=False):
    """The use of one key; `used`: from the beginning of the part until `since`."""

    since: int
    rates: Amounts
    used: Amounts

    def settle(self, second: int) -> None:
        seconds = second - self.since
        if seconds > 0:
            used = self.used
            for name, rate in self.rates.items():
                used[name] = used.get(name, 0) + rate * seconds
            self.since = second

    def change(self, amounts: Mapping[str, int], sign: int) -> None:
        rates = self.rates
        for name, amount in amounts.items():
            rate = rates.get(name, 0) + sign * amount
            if rate:
                rates[name] = rate
            else:
                rates.pop(name, None)


class _Run(msgspec.Struct, gc=False):
    """What is charged for one uid, and what it has used since its unit was admitted last."""

    key: UseKey
    line: _Line
    is_evicted: bool = False
    """What it uses from now on is lost as well: its pods live on for a while."""
    checkpoint: int = 0
    """When it last saved its work, in seconds since the epoch: what it used before is not lost."""


class UseMeter:
    """Meters the charges of one engine after the other.

    Attributes:
        second: The time up to which it has counted, in seconds since the epoch.
        is_on: Whether the engine keeps accounts: otherwise nothing is counted.
    """

    def __init__(self) -> None:
        self.second = 0
        self.is_on = False
        self._engine: Engine | None = None
        self._since = 0
        self._lines: dict[UseKey, _Line] = {}
        self._of_hour: dict[str, set[UseKey]] = {}  # by namespace
        self._keys_of_hour = 0
        self._runs: dict[Uid, _Run] = {}
        self._closed: dict[Uid, _Run] = {}
        self._kinds: dict[Uid, str] = {}
        self._events: dict[UseKey, UseRow] = {}
        self._quotas: dict[str, QuotaUse] = {}
        self._parts: list[UsePart] = []

    def begin(self, engine: Engine, second: int) -> None:
        """Take an engine in place of the one before; what that has used until now stays.

        Args:
            engine: The engine; it reports changes of charges from now on, if it keeps accounts.
            second: The time. Nothing is counted between the former `second` and this one.
        """
        if self.is_on:
            self._close_part()
        ledger = engine.usage.ledger
        self.is_on = ledger is not None
        self._engine = engine if self.is_on else None
        for each in (self._lines, self._runs, self._closed):
            each.clear()
        if ledger is None:
            return
        # A part never covers a time twice, though the clock may have been set back.
        self.second = self._since = max(self.second, second, ledger.second)
        engine.usage.watch = self
        self._kinds = {record.uid: kind_of(record.unit) for record in engine.units}
        for uid, charge in engine.usage.charges.items():
            self._charge(uid, charge)

    def advance(self, second: int) -> None:
        """Let time pass; an earlier second than the present one changes nothing."""
        if second <= self.second or not self.is_on:
            return
        if second - self.second > MOST_HOURS * HOUR:
            self._close_part()
            self._begin_hour()
            self._leap(second)
            return
        while (edge := (self.second // HOUR + 1) * HOUR) <= second:
            self.second = edge
            self._close_part()
            self._begin_hour()
        self.second = second

    def take(self) -> list[UsePart]:
        """Return the parts since the last call, in order; each is of one hour."""
        self._close_part()
        taken, self._parts = self._parts, []
        return taken

    # --- what happens -------------------------------------------------------------------------

    def on_call(self, call: EngineCall) -> None:
        """Take the call that is replayed on the engine next: its unit may be charged in it."""
        if not self.is_on:
            return
        if call.name == Engine.on_queue_unit.__name__:
            unit = call.args[0]
            self._kinds[unit.metadata.uid] = kind_of(unit)
            self._save(unit)
        elif call.name == Engine.on_queue_unit_gone.__name__:
            self._kinds.pop(call.args[0].metadata.uid, None)

    def on_charge(self, uid: Uid, before: Charge | None, after: Charge | None) -> None:
        """Take a change of what is charged for a uid (`cache.usage.ChargeWatch`)."""
        self._catch_up()
        run = self._runs.get(uid)
        is_new = after is not None and after.is_admitted and not (before and before.is_admitted)
        if run is not None:
            self._end(uid, run, stays=after is not None and not is_new)
        if after is not None:
            self._charge(uid, after, run=None if is_new else run)

    def on_admitted(self, uid: Uid, wait_bin: int) -> None:
        """Note for how long a unit had waited that was just admitted, as a bin."""
        run = self._runs.get(uid)
        if run is not None:
            waits = self._row(run.key).waits
            waits[wait_bin] = waits.get(wait_bin, 0) + 1

    def on_end(self, uid: Uid, *, is_evicted: bool) -> None:
        """Note that a run has ended: what an evicted one has used is lost."""
        run = self._closed.pop(uid, None) or self._runs.get(uid)
        if run is None or not is_evicted:
            return
        self._row(run.key).evictions += 1
        if self._runs.get(uid) is run:
            self._catch_up()
            run.line.settle(self.second)
        self._lose(run)
        run.is_evicted = True

    def note_waiting(self, keys: Iterable[UseKey]) -> None:
        """Note the keys of units that wait: even without use, they have rows."""
        for key in keys:
            self._row(self._bounded(key))

    def note_quotas(self, quotas: Mapping[str, QuotaUse]) -> None:
        """Add what quotas have borrowed and lent since it was noted last."""
        for name, use in quotas.items():
            self._quotas[name] = add_quota_use(self._quotas.get(name), use)

    def _catch_up(self) -> None:
        """Go to the time of the engine's ledger."""
        assert self._engine is not None, "it meters an engine"
        assert self._engine.usage.ledger is not None, "the engine keeps accounts"
        self.advance(self._engine.usage.ledger.second)

    # --- lines --------------------------------------------------------------------------------

    def _charge(self, uid: Uid, charge: Charge, run: _Run | None = None) -> None:
        if run is None:
            self._closed.pop(uid, None)  # nothing more is reported of an earlier one
        key = self._bounded(self._key_of(uid, charge.account, run))
        self._change(key, charge.amounts, 1)
        used = {} if run is None else run.line.used
        is_evicted = run is not None and run.is_evicted
        of_run = _Line(self.second, dict(charge.amounts), used)
        checkpoint = 0 if run is None else run.checkpoint
        self._runs[uid] = _Run(key, of_run, is_evicted, checkpoint)

    def _end(self, uid: Uid, run: _Run, *, stays: bool) -> None:
        self._change(run.key, run.line.rates, -1)
        run.line.settle(self.second)
        if stays:
            return
        if run.is_evicted:
            self._lose(run)
        del self._runs[uid]
        self._closed.pop(uid, None)
        self._closed[uid] = run
        if len(self._closed) > MAX_CLOSED:
            del self._closed[next(iter(self._closed))]

    def _change(self, key: UseKey, amounts: Amounts, sign: int) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self.second, {}, {})
        line.settle(self.second)
        line.change(amounts, sign)

    def _lose(self, run: _Run) -> None:
        """Count what a run has used since it was counted last as lost.

        One that is closed was settled when it was.
        """
        add_amounts(self._row(run.key).lost, run.line.used)
        run.line.used = {}

    def _save(self, unit: QueueUnit) -> None:
        """Note what a run's new checkpoint has saved: all that it used before.

        A checkpoint is reported within about a minute. What was used since it was made counts at
        the present rate.
        """
        run = self._runs.get(unit.metadata.uid)
        if run is None or run.is_evicted:
            return
        moment = checkpoint_of(unit)
        if moment is None or (saved := int(moment.timestamp())) <= run.checkpoint:
            return  # as for most units: nothing is settled for them
        self._catch_up()
        if saved > self.second:
            return
        line, run.checkpoint = run.line, saved
        line.settle(self.second)
        since = {name: rate * (self.second - saved) for name, rate in line.rates.items()}
        line.used = {
            name: min(used, since[name]) for name, used in line.used.items() if since.get(name)
        }

    def _row(self, key: UseKey) -> UseRow:
        row = self._events.get(key)
        if row is None:
            row = self._events[key] = UseRow(key, {}, {}, 0, {})
        return row

    def _key_of(self, uid: Uid, account: Account, run: _Run | None) -> UseKey:
        return UseKey(*account, self._kinds.get(uid, "" if run is None else run.key.kind))

    def _bounded(self, key: UseKey) -> UseKey:
        """Return the key that one counts as: itself, or its namespace's if there are too many."""
        known = self._of_hour.setdefault(key.namespace, set())
        if key in known:
            return key
        if len(known) >= MAX_KEYS_OF_NAMESPACE or self._keys_of_hour >= MAX_KEYS:
            return namespace_key(key)
        known.add(key)
        self._keys_of_hour += 1
        return key

    # --- parts --------------------------------------------------------------------------------

    def _close_part(self) -> None:
        """Make a part of what was used since the last one; lines without charges are dropped."""
        if self.second <= self._since:
            return
        rows = self._events
        for key, line in list(self._lines.items()):
            line.settle(self.second)
            if line.used:
                self._row(key).used = line.used
                line.used = {}
            if not line.rates:
                del self._lines[key]
        self._parts.append(
            UsePart(self._since, self.second, UseBlock(list(rows.values()), self._quotas))
        )
        self._events, self._quotas, self._since = {}, {}, self.second

    def _begin_hour(self) -> None:
        """Count keys anew; those that are charged keep theirs."""
        self._of_hour, self._keys_of_hour = {}, len(self._lines)
        for key in self._lines:
            self._of_hour.setdefault(key.namespace, set()).add(key)

    def _leap(self, second: int) -> None:
        self.second = self._since = second
        for line in (*self._lines.values(), *(run.line for run in self._runs.values())):
            line.since = second


def kind_of(unit: QueueUnit) -> str:
    """Return the kind of job that a unit belongs to; "": it does not say."""
    reference = unit.spec.consumer_ref
    return "" if reference is None else reference.kind[:MAX_KIND]
