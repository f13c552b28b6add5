"""The units of quotas that borrow, in the order in which a quota reclaims from them. Pure.

The cheapest bucket comes first, as within a queue. Where use is counted, of equal priority those
come first that are furthest above their share:

- where queues take turns by use, the units of the quota that has used the most (`QuotaUse`);
- of these, in a queue with the policy Fair, the units of the account that has used the most.

Accounts of different queues cannot be compared. So of each queue the account that has used the most
comes first, together with all units of queues that have no accounts, then of each the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from queue_scheduler.cache.admitted_units import Batch, Bucket, Buckets, in_buckets
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.queueing.fair_settings import levels_of
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.fair_use import counted_path

_Ranks = tuple[int, ...]
"""The use of an account and of those above it, the topmost first."""


class Borrowers:
    """Keys of units by bucket, the first to evict first; may be read several times.

    Args:
        units: All units.
        quotas: The quotas that borrow.
        below: Only units of priorities below this; None: all.
    """

    def __init__(self, units: UnitCache, quotas: Iterable[str], below: int | None) -> None:
        self._units = units
        self._below = below
        use = units.usage.quota_use
        tiers: dict[_Ranks, list[Buckets]] = {}
        for quota in quotas:
            ranks = () if use is None else use.ranks(quota)
            tiers.setdefault(ranks, []).extend(units.admitted.of_quota(quota))
        # Units of each are of quotas that have used equally much, the most first.
        self._tiers = [tiers[ranks] for ranks in sorted(tiers, reverse=True)]

    def __iter__(self) -> Iterator[Batch]:
        by_priority: dict[int, list[list[Batch]]] = {}
        for tier in self._tiers:
            for priority, found in groupby(in_buckets(tier, self._below), _priority_of):
                by_priority.setdefault(priority, []).append(list(found))
        counts_accounts = self._units.usage.fair.is_on
        for priority in sorted(by_priority):
            for batches in by_priority[priority]:
                if counts_accounts:
                    yield from self._by_account(batches)
                else:
                    yield from batches

    def _by_account(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        accounts = {key: self._account_of(key) for _, keys in batches for key in keys}
        places = self._places_of(accounts.values())
        found: dict[int, dict[Bucket, list[str]]] = {}
        for bucket, keys in batches:
            for key in keys:
                place = places.get(accounts[key], 0)
                found.setdefault(place, {}).setdefault(bucket, []).append(key)
        for place in sorted(found):
            yield from found[place].items()

    def _account_of(self, key: str) -> Account:
        charge = self._units.usage.charge_of(self._units.records[key].uid)
        assert charge is not None, f"{key} occupies quota and has nothing charged"
        return charge.account

    def _places_of(self, accounts: Iterable[Account]) -> dict[Account, int]:
        """Return, for accounts of Fair queues, how many of their queue have used more."""
        fair = self._units.usage.fair
        by_queue: dict[str, dict[Account, _Ranks]] = {}
        for account in dict.fromkeys(accounts):
            queue = fair.of_queue(account.queue)
            if queue is not None:
                levels = levels_of(counted_path(queue, account))
                ranks = tuple(queue.rank_of(each, fair.second) for each in levels)
                by_queue.setdefault(account.queue, {})[account] = ranks
        places: dict[Account, int] = {}
        for of_queue in by_queue.values():
            most_first = sorted(set(of_queue.values()), reverse=True)
            place_of = {ranks: place for place, ranks in enumerate(most_first)}
            places.update((account, place_of[ranks]) for account, ranks in of_queue.items())
        return places


def _priority_of(batch: Batch) -> int:
    return batch[0][0]
