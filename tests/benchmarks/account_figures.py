"""What accounts cost: decisions with and without them, a charge, a copy, memory, and keeping them.

All times are CPU times of this process.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Final, NamedTuple

from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import Ledger, StoredAccount, StoredAccounts
from queue_scheduler.tenants.shards import FORMAT, MAX_IN_SHARD, Shard, encode_shard
from shared_api.resource_list import Amounts
from tests.benchmarks.engine_load import flat_load
from tests.benchmarks.figures import Figure

ACCOUNTS: Final = 10_000
LIVES: Final = 15_000
TURNS: Final = 7
SECOND: Final = 1_800_000_000
QUEUES: Final = 100
AT_MOST_SECONDS: Final = 8.0
AMOUNTS: Final = {"cpu": 4000, "memory": 2**34, "nvidia.com/gpu": 8}


class Charge(NamedTuple):
    """A charge, as `Ledger` takes it."""

    account: Account
    amounts: Amounts


def run(*, quick: bool = False) -> list[Figure]:
    """Return all figures; `quick` has a tenth of the units."""
    pending = 1_000 if quick else 10_000
    return [*_decisions(pending), *_ledger_figures(), _told_figure(pending)]


def _decisions(pending: int) -> list[Figure]:
    """Return decisions per second with accounts; the control is without."""
    plain = flat_load(pending, QUEUES, has_room=True)
    kept = flat_load(pending, QUEUES, has_room=True)
    kept.engine.usage.ledger = ledger = Ledger()
    ledger.advance(SECOND)
    kept.engine.on_accounts(StoredAccounts())  # what the load has started is charged now
    for load in (plain, kept):
        load.run(LIVES // 5, at_most_seconds=AT_MOST_SECONDS)
        load.forget_figures()
    for _ in range(5):  # in turn, so that both have the same machine
        for load in (plain, kept):
            load.run(load.lives + LIVES // 5, at_most_seconds=AT_MOST_SECONDS)
    return [
        Figure(
            name="accounts_decisions_per_second",
            value=kept.per_second,
            unit="1/s",
            control=plain.per_second,
            note=f"{pending} pending, {len(ledger)} accounts; control: without accounts",
        )
    ]


def _ledger_figures() -> list[Figure]:
    tracemalloc.start()
    ledger, charges = Ledger(), _charges()
    before = tracemalloc.get_traced_memory()[0]
    ledger.advance(SECOND)
    ledger.set_edges((SECOND + 10, SECOND + 20))
    for second in (15, 25):  # all have use at both edges
        for charge in charges:
            ledger.on_charge(None, charge)
        ledger.advance(SECOND + second)
        for charge in charges:
            ledger.on_charge(charge, None)
    for charge in charges:
        ledger.on_charge(None, charge)
    megabytes = (tracemalloc.get_traced_memory()[0] - before) / 1e6
    tracemalloc.stop()
    plain = {charge.account: dict(charge.amounts) for charge in charges}
    accounts = f"{ACCOUNTS} accounts of three resources"
    return [
        Figure(name="account_memory_mb", value=megabytes, unit="MB", note=accounts),
        Figure(
            name="account_charge_us",
            value=1e6 * _median_seconds(lambda: _charge_all(ledger, charges)) / (2 * ACCOUNTS),
            unit="us",
            control=1e6 * _median_seconds(lambda: _add_all(plain, charges)) / (2 * ACCOUNTS),
            note="a charge begins or ends; control: three additions to a dict of dicts",
        ),
        Figure(
            name="account_fork_ms",
            value=1e3 * _median_seconds(ledger.fork),
            unit="ms",
            control=1e3 * _median_seconds(lambda: dict(plain)),
            note=f"a copy, under the engine's lock; {accounts}; control: one dict of as many",
        ),
        Figure(
            name="account_kept_ms",
            value=1e3 * _median_seconds(lambda: _encode_all(ledger)),
            unit="ms",
            note=f"{accounts} as texts, each minute if all have changed; without the lock",
        ),
    ]


def _charges() -> list[Charge]:
    return [
        Charge(Account(f"q{n % 50}", "q", f"ns{n % 100}", "lab", f"user-{n}"), dict(AMOUNTS))
        for n in range(ACCOUNTS)
    ]


def _charge_all(ledger: Ledger, charges: list[Charge]) -> None:
    for charge in charges:
        ledger.on_charge(charge, None)
    for charge in charges:
        ledger.on_charge(None, charge)


def _add_all(plain: dict[Account, Amounts], charges: list[Charge]) -> None:
    for sign in (-1, 1):
        for charge in charges:
            total = plain[charge.account]
            for name, amount in charge.amounts.items():
                total[name] += sign * amount


def _told_figure(pending: int) -> Figure:
    """Return the longest slice in which a new leader is told the accounts; the control is all."""
    load = flat_load(pending, QUEUES, has_room=True)
    engine = load.engine
    engine.usage.ledger = Ledger()
    engine.on_time(datetime.fromtimestamp(SECOND, UTC))
    kept = (StoredAccount(each.account, AMOUNTS, changed=SECOND - 60) for each in _charges())
    stored = StoredAccounts(SECOND - 60, SECOND - 3600, tuple(kept))
    gc.collect()
    gc.freeze()
    longest = [_longest_slice(engine, stored) for _ in range(TURNS)]
    gc.unfreeze()
    return Figure(
        name="account_told_slice_ms",
        value=1e3 * median(longest),
        unit="ms",
        control=1e3 * _median_seconds(lambda: engine.on_accounts(stored)),
        note=f"a new leader is told {ACCOUNTS} accounts; the longest hold; control: all at once",
    )


def _longest_slice(engine: Engine, stored: StoredAccounts) -> float:
    seconds, began = [], time.process_time()
    engine.on_accounts(stored, in_slices=True)
    seconds.append(time.process_time() - began)
    while engine.account_restore.is_behind:
        began = time.process_time()
        engine.go_on_with_accounts()
        seconds.append(time.process_time() - began)
    return max(seconds)


def _encode_all(ledger: Ledger) -> int:
    accounts = [ledger.stored_account(account, line) for account, line in ledger]
    shards = (
        Shard(FORMAT, 1, ledger.second, 0, tuple(accounts[start : start + MAX_IN_SHARD]))
        for start in range(0, len(accounts), MAX_IN_SHARD)
    )
    return sum(len(encode_shard(shard)) for shard in shards)


def _median_seconds(act: Callable[[], object]) -> float:
    """Return the CPU seconds of an act: the median of some turns."""
    turns = []
    for _ in range(TURNS):
        began = time.process_time()
        made = act()
        turns.append(time.process_time() - began)
        del made  # a copy is freed outside the measured time
    return median(turns)
