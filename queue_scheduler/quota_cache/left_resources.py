"""Resources that left the max of a quota while they were in use there.

koord-scheduler counts a pod by the resources that the max of its quota names when the pod comes,
and takes the same off when it goes. So once a resource is taken out of a max, new pods do not count
on it and the quota is not limited by it, but what was there before keeps its claim in the division,
and presses the other quotas. What is charged is kept as it came, so this is all that must be
remembered: who held how much at the edit. A restart forgets it, here as in koord-scheduler.

Source: observed (a key added or removed later), and group_quota_manager.go in
pkg/scheduler/plugins/elasticquota/core of koordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota_cache.quota_ledger import Holder, QuotaLedger
from shared_api.resource_list import Amounts, add

Held: TypeAlias = dict[Holder, Amounts]
"""By holder: amounts of resources that the max of its quota no longer names."""


class LeftResources:
    """What still counts, by the name of the quota."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def fork(self) -> LeftResources:
        """Return an independent copy."""
        copy = LeftResources()
        copy._held = {
            quota: {holder: dict(amounts) for holder, amounts in held.items()}
            for quota, held in self._held.items()
        }
        return copy

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._held)

    def on_edit(self, old: QuotaSpec, new: QuotaSpec, ledger: QuotaLedger) -> None:
        """Note what an edit of a quota takes out of its max, and forget what is in it again."""
        held: Held = {}
        for holder, amounts in self._held.pop(new.name, {}).items():
            _keep(held, holder, {key: n for key, n in amounts.items() if key not in new.max})
        gone = old.max.keys() - new.max.keys()
        if gone:
            for holder, demand in ledger.holders(new.name):
                _keep(held, holder, {key: demand.amounts.get(key, 0) for key in gone})
        if held:
            self._held[new.name] = held

    def on_quota_gone(self, quota: str) -> None:
        """Forget a quota: what ran in it leaves all counts."""
        self._held.pop(quota, None)

    def on_charge(self, holder: Holder, quota: str, demand: Demand | None) -> bool:
        """Take what a holder is charged now (None: nothing); return whether less is held."""
        changed = False
        for name, held in list(self._held.items()):
            had = held.pop(holder, None)
            if had is None:
                continue
            has = demand.amounts if demand is not None and name == quota else {}
            _keep(held, holder, {key: min(n, has.get(key, 0)) for key, n in had.items()})
            changed = changed or held.get(holder) != had
            if not held:
                del self._held[name]
        return changed

    def sums(self) -> Mapping[str, Amounts]:
        """Return what is still counted in each quota."""
        sums: dict[str, Amounts] = {}
        for quota, held in self._held.items():
            total: Amounts = {}
            for amounts in held.values():
                total = add(total, amounts)
            sums[quota] = total
        return sums


def _keep(held: Held, holder: Holder, amounts: Amounts) -> None:
    positive = {key: amount for key, amount in amounts.items() if amount > 0}
    if positive:
        held[holder] = {**held.get(holder, {}), **positive}
