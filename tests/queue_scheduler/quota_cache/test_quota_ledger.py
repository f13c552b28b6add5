from __future__ import annotations

from sys import getsizeof

import pytest

from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota_cache.quota_ledger import ForeignCharge, QuotaLedger
from queue_scheduler.quota_cache.tree_usage import KEPT_BYTES


def filled() -> QuotaLedger:
    ledger = QuotaLedger()
    ledger.charge("u", "q", Demand({"x": 2}, non_preemptible=True))
    ledger.put_pod("p", ForeignCharge("q", Demand({"x": 3}), stage=PodStage.BOUND))
    return ledger


def test_parts_are_kept_separately() -> None:
    account = filled().account("q")
    assert (account.units.amounts, account.units.non_preemptible) == ({"x": 2}, {"x": 2})
    assert account.bound.amounts == {"x": 3}
    assert account.pending.is_empty()


def test_a_charge_replaces_its_owners_previous_one() -> None:
    ledger = filled()
    old = ledger.charge("u", "other", Demand({"x": 7}))
    assert old == ("q", Demand({"x": 2}, non_preemptible=True))
    assert ledger.charge_of("u") == ("other", Demand({"x": 7}))
    assert ledger.account("q").units.is_empty()
    assert ledger.account("other").units.amounts == {"x": 7}
    ledger.validate()


def test_a_released_amount_is_charged_to_no_quota() -> None:
    ledger = filled()
    assert ledger.release("u") == ("q", Demand({"x": 2}, non_preemptible=True))
    assert ledger.release("u") is None
    assert ledger.charge_of("u") is None
    assert ledger.account("q").units.is_empty()
    ledger.validate()


def test_a_bound_or_deleted_pod_is_charged_as_it_is_now() -> None:
    ledger = QuotaLedger()
    pending = ForeignCharge("q", Demand({"x": 3}), stage=PodStage.PENDING)
    assert ledger.put_pod("p", pending) is None
    assert ledger.account("q").pending.amounts == {"x": 3}
    bound = ForeignCharge("q", Demand({"x": 3}), stage=PodStage.BOUND)
    assert ledger.put_pod("p", bound) == pending
    account = ledger.account("q")
    assert account.bound.amounts == {"x": 3}
    assert account.pending.is_empty()
    assert ledger.put_pod("p", None) == bound
    assert ledger.account("q").is_empty()
    ledger.validate()


@pytest.mark.parametrize("changed", ["original", "fork"])
def test_a_fork_is_independent(changed: str) -> None:
    ledger = filled()
    fork = ledger.fork()
    changing, resting = (ledger, fork) if changed == "original" else (fork, ledger)
    changing.charge("other", "q", Demand({"x": 5}))
    changing.release("u")
    assert resting.charge_of("other") is None
    assert resting.account("q").units.amounts == {"x": 2}
    assert changing.account("q").units.amounts == {"x": 5}
    ledger.validate()
    fork.validate()


@pytest.mark.parametrize("stage", list(PodStage))
def test_of_a_pod_that_is_gone_nothing_is_kept(stage: PodStage) -> None:
    ledger = filled()
    wide = Demand({f"r{n}": 1 for n in range(1000)} | {"x": 1}, non_preemptible=True)
    size = getsizeof(ledger.account("q").bound.amounts)
    for turn in range(3):
        ledger.put_pod("wide", ForeignCharge("q", wide, stage))
        ledger.put_pod("wide", ForeignCharge(f"no such quota {turn}", wide, stage))
        ledger.put_pod("wide", None)
        assert [name for name, _ in ledger.accounts()] == ["q"]
    for sums in ledger.account("q").parts().values():
        assert not {**sums.amounts, **sums.non_preemptible}.keys() - {"x"}
        assert getsizeof(sums.amounts) <= size + KEPT_BYTES
    assert ledger.fork().account("q").bound.amounts == {"x": 3}
    ledger.validate()


def test_an_account_that_a_copy_shares_is_closed_in_one_of_them() -> None:
    ledger = QuotaLedger()
    ledger.put_pod("p", ForeignCharge("q", Demand({"x": 3}), PodStage.BOUND))
    fork = ledger.fork()
    fork.put_pod("p", None)
    assert ledger.account("q").bound.amounts == {"x": 3}
    fork.put_pod("p", ForeignCharge("q", Demand({"x": 1}), PodStage.BOUND))
    assert fork.account("q").bound.amounts == {"x": 1}
    ledger.validate()
    fork.validate()


def test_released_units_leave_no_zeros() -> None:
    ledger = filled()
    ledger.charge("wide", "q", Demand({"x": 1, "y": 1, "z": 1}, non_preemptible=True))
    ledger.charge("wide", "q", Demand({"z": 1}, firm={"z": 1}))
    units = ledger.account("q").units
    assert (units.amounts, units.non_preemptible) == ({"x": 2, "z": 1}, {"x": 2, "z": 1})
    ledger.release("wide")
    units = ledger.account("q").units
    assert (units.amounts, units.non_preemptible) == ({"x": 2}, {"x": 2})


def test_sums_that_do_not_add_up_are_found() -> None:
    ledger = filled()
    ledger.account("q").units.add(Demand({"x": 5}), 1)
    with pytest.raises(AssertionError, match="account 'q', units"):
        ledger.validate()


def test_a_negative_amount_frees_no_room() -> None:
    ledger = QuotaLedger()
    ledger.charge("u", "q", Demand({"x": -5}))
    assert not ledger.account("q").units.amounts


def test_foreign_pods_keep_their_non_preemptible_part_separate() -> None:
    ledger = QuotaLedger()
    for name, stage in (("one", PodStage.BOUND), ("two", PodStage.PENDING)):
        ledger.put_pod(name, ForeignCharge("q", Demand({"x": 3}, non_preemptible=True), stage))
    account = ledger.account("q")
    assert account.bound.non_preemptible == {"x": 3}
    assert account.pending.non_preemptible == {"x": 3}


def test_empty_accounts_are_closed() -> None:
    ledger = filled()
    ledger.charge("short", "left", Demand({"x": 1}))
    ledger.release("short")
    ledger.charge("free", "nothing", Demand({}))
    ledger.close_empty_accounts()
    assert [name for name, _ in ledger.accounts()] == ["q"]
    ledger.release("free")
    ledger.validate()
