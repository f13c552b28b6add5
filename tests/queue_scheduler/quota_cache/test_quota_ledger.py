from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.quota_ledger import ForeignPod, QuotaLedger


def filled() -> QuotaLedger:
    ledger = QuotaLedger()
    ledger.owners["u"] = ("q", Demand({"x": 2}, non_preemptible=True))
    ledger.open_account("q").add_unit(ledger.owners["u"][1], 1)
    ledger.pods["p"] = ForeignPod("q", Demand({"x": 3}), is_bound=True)
    ledger.open_account("q").add_pod(ledger.pods["p"], 1)
    return ledger


def test_parts_are_kept_apart() -> None:
    account = filled().accounts["q"]
    assert (account.units, account.units_np, account.bound) == ({"x": 2}, {"x": 2}, {"x": 3})
    assert not account.pending


def test_a_fork_is_independent() -> None:
    ledger = filled()
    fork = ledger.fork()
    fork.open_account("q").add_unit(Demand({"x": 5}), 1)
    assert ledger.accounts["q"].units == {"x": 2}
    ledger.validate()
    with pytest.raises(AssertionError, match="account 'q', units"):
        fork.validate()


def test_what_is_negative_gives_nobody_room() -> None:
    ledger = QuotaLedger()
    ledger.open_account("q").add_unit(Demand({"x": -5}), 1)
    assert not ledger.accounts["q"].units


def test_foreign_pods_keep_their_non_preemptible_part_apart() -> None:
    ledger = QuotaLedger()
    for is_bound in (True, False):
        pod = ForeignPod("q", Demand({"x": 3}, non_preemptible=True), is_bound)
        ledger.open_account("q").add_pod(pod, 1)
    account = ledger.accounts["q"]
    assert (account.bound_np, account.pending_np) == ({"x": 3}, {"x": 3})


def test_empty_accounts_are_closed() -> None:
    ledger = filled()
    demand = Demand({"x": 1})
    ledger.open_account("left").add_unit(demand, 1)
    ledger.open_account("left").add_unit(demand, -1)
    ledger.close_empty_accounts()
    assert list(ledger.accounts) == ["q"]
