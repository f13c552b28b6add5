"""Takes what was kept of accounts by the leader before this one. Pure.

What is charged now counts from when it was charged, not from when this process saw it. With many
accounts that takes too long for one hold of the engine's lock, so it can be done in slices. Then it
begins with what is charged at the first slice, and changes of charges and the time are held back
until the last one. What follows is as if all had been done at once, and the changes had come after
it.

Between two slices the accounts say nothing. So whatever asks them, or changes what they count by,
does the slices that are left first: each decision, and each change of queues, quotas and policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from queue_scheduler.cache.charge_times import dating
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cache.usage import Charge, HeldChange, count_held
from queue_scheduler.engine.budget_changes import BudgetChanges
from queue_scheduler.tenants.ledger import StoredAccounts
from shared_api.objects.meta import Uid

STEPS: Final = 200
"""Steps of a slice, at 1 to 5 us each: a slice takes about a millisecond."""


class _Begun(msgspec.Struct, gc=False):
    """A restore that has begun.

    Attributes:
        stored: What was kept.
        records: The units when it began.
        charges: What was charged then.
        seconds: The time, as the ledger, decayed use and the use of quotas had it.
    """

    stored: StoredAccounts
    records: tuple[CachedUnit, ...]
    charges: dict[Uid, Charge]
    seconds: tuple[int, int, int]


class AccountRestore:
    """Does it at once, or in slices."""

    def __init__(self, units: UnitCache, budgets: BudgetChanges) -> None:
        self._units, self._usage = units, units.usage
        self._budgets = budgets
        self._begun: _Begun | None = None
        # None at rest: copies are, and checkpoints of them can hold no generator.
        self._steps: Iterator[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether slices are left: `go_on` does the next one."""
        return self._usage.held is not None

    def begin(self, stored: StoredAccounts) -> None:
        """Begin with what was kept; `go_on` or `finish` must follow."""
        self.finish()
        usage = self._usage
        ledger, of_quotas = usage.ledger, usage.quota_use
        seconds = (
            0 if ledger is None else ledger.second,
            usage.fair.second,
            0 if of_quotas is None else of_quotas.second,
        )
        begun = _Begun(stored, tuple(self._units), dict(usage.charges), seconds)
        self._start(begun, [])

    def go_on(self) -> None:
        """Do the next slice, if any is left."""
        steps = self._steps
        if steps is not None and sum(1 for _ in islice(steps, STEPS)) < STEPS:
            self._begun, self._steps, self._usage.held = None, None, None

    def finish(self) -> None:
        """Do the slices that are left, if any."""
        while self.is_behind:
            self.go_on()

    def advance(self, second: int) -> None:
        """Hold a second back until the last slice."""
        held = self._usage.held
        assert held is not None, "no slices are left"
        held.append(second)

    def finish_as(self, other: AccountRestore) -> None:
        """Do from its first step what another engine has begun, of which this one's is a fork."""
        if other._begun is not None:
            self._start(other._begun, list(other._usage.held or ()))
            self.finish()

    # --- inside -------------------------------------------------------------------------------

    def _start(self, begun: _Begun, held: list[HeldChange]) -> None:
        self._begun, self._usage.held = begun, held
        self._steps = self._do(begun, held)

    def _do(self, begun: _Begun, held: list[HeldChange]) -> Iterator[None]:
        """Restore all in steps of some microseconds, and then count what was held back."""
        usage, stored = self._usage, begun.stored
        ledger, fair, of_quotas = usage.ledger, usage.fair, usage.quota_use
        second, fair.second, of_quotas_second = begun.seconds
        dated = yield from dating(self._units, begun.records, begun.charges, max(begun.seconds))
        if ledger is not None:
            ledger.second = usage.budgets.accounts.second = second
            yield from ledger.restoring(stored, [(since, each) for _, since, each in dated])
            yield from self._budgets.restoring(stored, dated)
        # Also where no queue orders accounts yet: one that becomes known later may.
        yield from fair.restarting(dated, stored.uses)
        if of_quotas is not None:
            of_quotas.second = of_quotas_second
            yield from of_quotas.restarting(dated, stored.uses)
            # Ranks may be smaller than before.
            self._units.queues.turns.on_use_replaced()
        for each in held:  # what comes meanwhile is added at its end
            count_held(usage, each)
            yield
