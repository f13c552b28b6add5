r"""Tells of spent budgets in events, and evicts what runs on where a budget asks for that.

    spent budget, enforce Stop, after its grace --> its units: Evicted=True/BudgetSpent

The job's side carries the eviction out, as any other. The unit is then pending again, without a
backoff, and starts when the budget has room for it.
"""

from __future__ import annotations

from typing import Final

from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.overspent_budgets import (
    SpentBudget,
    find_reason_to_stop,
    find_spent,
    find_units,
)
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from queue_scheduler.unit_controllers.unit_reconciler import (
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    UnitSweep,
)
from queue_scheduler.unit_writes.eviction_patches import build_request
from shared_api.client.resource_types import QUOTA_POLICIES
from shared_api.evictions import BUDGET_SPENT
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock

SWEEP_SECONDS: Final = 5.0
"""Between two looks at the budgets, as the engine is told the time."""


class SpentBudgets:
    """Follows the budgets of which nothing is left.

    Args:
        access: How units are read and written.
        clock: The time.
    """

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._report = access.report
        self._clock = clock
        # Budgets with an event, each with its text; a process that begins reports them again.
        self._reported: dict[BudgetKey, str] = {}
        self._reconciler = UnitReconciler(access, self._reconcile, lambda _: [])
        self._sweep = UnitSweep(access, clock, self._reconciler, SWEEP_SECONDS, self._find_spent)

    def step(self) -> float:
        """Reconcile one unit; return after how many seconds to be called again."""
        return self._sweep.step()

    def _find_spent(self) -> None:
        spent = self._shared.ask(find_spent)
        for each in spent:
            if self._reported.get(each.key) != each.text:
                self._record_event(each)
            if each.is_stopped:
                for key in self._shared.ask(_list_units, each.key):
                    self._reconciler.add(key)
        self._reported = {each.key: each.text for each in spent}

    def _record_event(self, spent: SpentBudget) -> None:
        policy = self._shared.ask(lambda engine: engine.policies.find(spent.policy))
        if policy is None:
            return
        meta = policy.api_object.metadata
        self._report(
            Notice(
                kind=QUOTA_POLICIES.kind,
                key=meta.key,
                uid=meta.uid,
                reason=BUDGET_SPENT,
                note=spent.text,
            )
        )

    def _reconcile(self, key: str) -> Result:
        found = self._shared.ask(_find_reason, key)
        if found is None:
            return None
        unit, why = found
        status = build_request(unit, BUDGET_SPENT, why, self._clock.now())
        return SendStatus(unit, status)


def _list_units(engine: Engine, key: BudgetKey) -> list[str]:
    return sorted(record.key for record in find_units(engine, key))


def _find_reason(engine: Engine, key: str) -> tuple[QueueUnit, str] | None:
    """Return a unit that is to be stopped, and why; None: it is not."""
    record, spent = engine.record(key), find_reason_to_stop(engine, key)
    return None if record is None or spent is None else (record.unit, spent.text)
