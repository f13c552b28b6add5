"""Questions about order by use: who or which queue comes first, and who has used how much. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator
from fractions import Fraction
from typing import Final, NamedTuple

from queue_scheduler.cache.known_units import held_for
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, unit_key
from queue_scheduler.queueing.fair_settings import Level, Path, levels_of
from queue_scheduler.queueing.queue_questions import queue_head
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.tenants.fair_use import UNKNOWN, QueueUse, path_of
from queue_scheduler.tenants.quota_use import QuotaUse
from queue_scheduler.tenants.scaled_use import ScaledUse
from shared_api.submitters import NAMESPACE_USER

MOST_SHOWN: Final = 1000
"""Times a share; whoever is alone at first may have any number."""


class AccountShare(NamedTuple):
    """What one account of a queue has used of its share.

    Attributes:
        path: The account; one above others stands for all of these.
        level: Between what it is compared.
        weight: Its weight among those beside it.
        hundredths: How many hundredths of its share it has used; None: without a weight it has
            none.
        pending: Its units that wait, those on hold included.
        running: Its admitted units.
        namespaces: Those of its units, sorted; `UNKNOWN` among them for any that are not known.
    """

    path: Path
    level: Level
    weight: int
    hundredths: int | None
    pending: int
    running: int
    namespaces: tuple[str, ...] = ()


class QueueShares(NamedTuple):
    """The accounts of a queue that have used the most of their shares, and the least.

    Attributes:
        shares: These, the most first.
        total: How many accounts there are, those above others included.
    """

    shares: tuple[AccountShare, ...]
    total: int


def find_shares(engine: Engine, name: str, most: int, second: int = 0) -> QueueShares | None:
    """Return what the accounts of a queue have used of their shares; None: its policy is not Fair.

    Args:
        engine: A fork, as all accounts are looked through.
        name: The queue.
        most: How many accounts are returned at most; those in the middle are left out.
        second: The time, in seconds since the epoch; at rest the engine is not told it.
    """
    use = engine.usage.fair.of_queue(name)
    queue = engine.queues.find(name)
    if use is None or queue is None:
        return None
    second = max(second, engine.usage.fair.second)
    use = use.copy()
    use.advance(second)
    pending = _count_pending(engine, queue, use)
    averages = _averages(use, second)
    found = [
        _share_of(use, path, averages.get(path[:-1]), second, pending.get(path, 0))
        for path in {**use.uses, **pending}
    ]
    # Who has no share comes last in the queue, as if it had used more than all others.
    found.sort(key=lambda each: (each.hundredths is not None, -(each.hundredths or 0), each.path))
    first = (most + 1) // 2
    shown = found[:first] + found[max(first, len(found) - (most - first)) :]
    names = _namespaces_of(engine, queue, use, {each.path for each in shown})
    shares = tuple(each._replace(namespaces=tuple(sorted(names[each.path]))) for each in shown)
    return QueueShares(shares, len(found))


def _share_of(
    use: QueueUse, path: Path, average: tuple[ScaledUse, int] | None, second: int, pending: int
) -> AccountShare:
    weight, known = use.settings.weight_of(path), use.uses.get(path)
    hundredths: int | None = None
    if weight:
        hundredths = 0
        if average is not None and average[0].mantissa:
            hundredths = _hundredths(use.use_of(path, second), average, weight)
    running = 0 if known is None else known.charges
    level = use.settings.levels[len(path) - 1]
    return AccountShare(path, level, weight, hundredths, pending, running)


def _averages(use: QueueUse, second: int) -> dict[Path, tuple[ScaledUse, int]]:
    """Return the sums of use and weights of the accounts beside each other, by what is above."""
    found: dict[Path, tuple[ScaledUse, int]] = {}
    for path in use.uses:
        total, weights = found.get(path[:-1], (ScaledUse(), 0))
        more = use.use_of(path, second)
        found[path[:-1]] = total.plus(more), weights + use.settings.weight_of(path)
    return found


def _hundredths(use: ScaledUse, average: tuple[ScaledUse, int], weight: int) -> int:
    """Return 100 times what `QueueUse.share_used` does, rounded; fractions of all take long."""
    total, weights = average
    share, of = 100 * use.mantissa * weights, total.mantissa * weight
    shift = use.exponent - total.exponent
    if shift >= 0:
        share <<= shift
    elif -shift > share.bit_length():
        return 0  # an idle account's may be years of half-lives below
    else:
        of <<= -shift
    return (2 * share + of) // (2 * of)


def _count_pending(engine: Engine, queue: SchedulingQueue, use: QueueUse) -> dict[Path, int]:
    """Return how many units of each account wait, of those above others, too."""
    found: dict[Path, int] = {}
    for path, units, _ in _waiting(engine, queue, use):
        for each in levels_of(path):
            found[each] = found.get(each, 0) + units
    return found


def _waiting(
    engine: Engine, queue: SchedulingQueue, use: QueueUse
) -> Iterator[tuple[Path, int, Iterator[str]]]:
    """Yield accounts with a number of units that wait, and an iterator over their namespaces."""
    assert queue.fair is not None, f"queue {queue.name} has accounts, and no order of them"
    for (_, path), order in queue.fair.orders():
        yield path, len(order), (unit_key(key).partition("/")[0] for key in order)
    for key in held_for(engine.units, queue.name):
        record = engine.record(key)
        if record is not None and record.info is not None and record.state is UnitState.ON_HOLD:
            account = engine.usage.account_of(record.info)
            yield path_of(use.settings, account), 1, iter((account.namespace,))


def _namespaces_of(
    engine: Engine, queue: SchedulingQueue, use: QueueUse, paths: Container[Path]
) -> dict[Path, set[str]]:
    """Return the namespaces of all units of accounts: those that wait, run and have run."""
    found = {path: {*each.namespaces} for path, each in use.uses.items() if path in paths}
    for path, _, namespaces in _waiting(engine, queue, use):
        known = [each for each in levels_of(path) if each in paths]
        if known:
            names = {*namespaces}
            for each in known:
                found.setdefault(each, set()).update(names)
    if any(UNKNOWN in each for each in found.values()):
        _resolve(engine, queue, use, found)
    return found


def _resolve(
    engine: Engine, queue: SchedulingQueue, use: QueueUse, found: dict[Path, set[str]]
) -> None:
    """Put the names in place of `UNKNOWN`, where they are known from elsewhere."""
    for path, namespaces in found.items():
        if use.settings.levels[len(path) - 1] is Level.NAMESPACE:
            namespaces.clear()
            namespaces.add(path[-1])
        elif path[-1].startswith(NAMESPACE_USER):
            namespaces.clear()
            namespaces.add(path[-1].removeprefix(NAMESPACE_USER))
    ledger = engine.usage.ledger
    if ledger is None or ledger.folds:
        return  # what was folded is in no account of its user
    in_ledger: dict[Path, set[str]] = {}
    for account, _ in ledger:
        if account.queue == queue.name:
            for path in levels_of(path_of(use.settings, account)):
                in_ledger.setdefault(path, set()).add(account.namespace)
    for path, namespaces in found.items():
        if UNKNOWN in namespaces and path in in_ledger:
            namespaces.remove(UNKNOWN)
            namespaces.update(in_ledger[path])


def find_account_ahead(
    engine: Engine, queue: SchedulingQueue, info: QueueUnitInfo
) -> Refusal | None:
    """Return which account's unit is first in the place of a pending one, and what both have used.

    None if the first unit is of the same account, or of a higher priority where that comes first.
    The names of accounts are not in it: whoever asks may not be allowed to read them.
    """
    use = engine.usage.fair.of_queue(queue.name)
    first = next(queue.pending.in_order(), None)
    if use is None or first is None or unit_key(first) == info.key:
        return None
    record = engine.record(unit_key(first))
    assert record is not None, f"{unit_key(first)} is pending, and unknown"
    ahead = record.info
    assert ahead is not None, f"{unit_key(first)} is pending without a demand"
    (own_priority, own), (priority, other) = info.order_key[0], ahead.order_key[0]
    if own_priority != priority or own == other:
        return None
    # Of a tree of accounts, the level at which they differ decides.
    levels = zip(levels_of(own), levels_of(other), strict=True)
    one, two = next(pair for pair in levels if pair[0] != pair[1])
    second = engine.usage.fair.second
    level = use.settings.levels[len(one) - 1]
    mine, its = (use.share_used(path, second) for path in (one, two))
    # Ranks are renewed at charges, and each minute: until then the order may be the former one.
    late = "; the order follows within a minute" if mine < its else ""
    return Refusal(
        reason=Reason.BEHIND_ACCOUNT,
        quota=info.quota,
        other=ahead.key,
        detail=(
            f"its {level} has used {_times(mine)} times the share, the first {level} {_times(its)}"
            f" times{late}"
        ),
    )


def find_queue_ahead(engine: Engine, queue: SchedulingQueue, info: QueueUnitInfo) -> Refusal | None:
    """Return which queue goes first since its quota has used less, and what both have used.

    None if no queue of the same rank that competes with this one has a quota that has used less, or
    turns do not go by use.
    """
    use, turns = engine.usage.quota_use, engine.queues.turns
    if use is None:
        return None
    # Of several quotas a queue goes by the one that has used the least.
    own = min(queue.pending.by_quota, key=use.ranks)
    ahead = []
    for each in engine.queues:
        if turns.rank(each.name) == turns.rank(queue.name) and not each.rules.is_stopped:
            quota = min(each.pending.by_quota, key=use.ranks, default=own)
            if use.ranks(quota) < use.ranks(own):
                ahead.append((use.ranks(quota), each.name, quota))
    domains = frozenset[str]().union(*map(engine.plugins.domains, queue.pending.by_quota))
    for _, name, quota in sorted(ahead):
        other = engine.queues.find(name)
        assert other is not None, f"queue {name} has just been there"
        first = queue_head(other)
        competes = map(engine.plugins.domains, other.pending.by_quota)
        if first is not None and any(each & domains for each in competes):
            return Refusal(
                reason=Reason.BEHIND_QUEUE,
                quota=info.quota,
                other=unit_key(first),
                detail=f"queue {name} goes first{_uses_of(use, own, quota)}",
            )
    return None


def _uses_of(use: QuotaUse, own: str, other: str) -> str:
    """Return what both quotas have used, at the level of the tree that decides."""
    level = use.level_between(own, other)
    if level is None:
        return ""  # one is above the other, which is no level of comparison
    mine, its = (_times(use.share_used(quota)) for quota in level)
    one, two = ("yours", "its quota") if level == (own, other) else map("quota {}".format, level)
    return f": {two} has used {its} times its share, {one} {mine} times"


def _times(share: Fraction) -> str:
    return f">{MOST_SHOWN}" if share > MOST_SHOWN else f"{float(share):.2f}"
