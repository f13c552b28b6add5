"""The ledger: lines, edges, bounds, and what is kept outside."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import (
    MAX_RESOURCES,
    MOST_AHEAD_SECONDS,
    Ledger,
    StoredAccount,
    StoredAccounts,
)
from shared_api.resource_list import Amounts

ANN = Account("a", "q", "ns", "", "ann")
BOB = Account("a", "q", "ns", "lab", "bob")
NOBODY = Account("a", "q", "ns", "", "namespace:ns")
BEGIN = 1_800_000_000
HOUR = 3600


class Charge(NamedTuple):
    account: Account
    amounts: Amounts


ONE = Charge(ANN, {"gpu": 1})
TWO = Charge(BOB, {"gpu": 2, "cpu": 500})


def ledger_at(second: int = BEGIN, **settings: int) -> Ledger:
    ledger = Ledger(**settings)
    ledger.advance(second)
    return ledger


def used(ledger: Ledger, account: Account = ANN) -> Amounts:
    line = ledger.line_of(account)
    return {} if line is None else line.used(ledger.second)


def test_a_charge_counts_for_the_time_that_it_stands() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, TWO)
    ledger.advance(BEGIN + 10)
    ledger.on_charge(TWO, Charge(BOB, {"gpu": 1, "memory": 4}))
    ledger.advance(BEGIN + 15)
    assert used(ledger, BOB) == {"gpu": 25, "cpu": 5000, "memory": 20}
    ledger.on_charge(Charge(BOB, {"gpu": 1, "memory": 4}), None)
    ledger.advance(BEGIN + 1000)
    assert used(ledger, BOB) == {"gpu": 25, "cpu": 5000, "memory": 20}


def test_a_charge_moves_from_one_account_to_another() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 10)
    ledger.on_charge(ONE, Charge(BOB, {"gpu": 1}))
    ledger.advance(BEGIN + 13)
    assert (used(ledger), used(ledger, BOB)) == ({"gpu": 10}, {"gpu": 3})


def test_short_jobs_count_exactly() -> None:
    """A thousand jobs of one second, one after the other."""
    ledger = ledger_at()
    for number in range(1000):
        ledger.on_charge(None, ONE)
        ledger.advance(BEGIN + number + 1)
        ledger.on_charge(ONE, None)
    assert used(ledger) == {"gpu": 1000}


def test_copies_change_by_themselves() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    first = ledger.fork()
    second = first.fork()
    for copy, amount in ((ledger, 2), (first, 3), (second, 4)):
        copy.on_charge(None, Charge(ANN, {"gpu": amount}))
        copy.advance(BEGIN + 10)
    assert [used(each)["gpu"] for each in (ledger, first, second)] == [30, 40, 50]
    third = ledger.fork()
    ledger.on_charge(ONE, None)
    for copy in (ledger, third):
        copy.advance(BEGIN + 20)
    assert [used(each)["gpu"] for each in (ledger, third)] == [50, 60]


def test_a_clock_that_steps_back_subtracts_nothing() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    for second in (10, 4, 9, 12):
        ledger.advance(BEGIN + second)
    assert used(ledger) == {"gpu": 12}


def test_amounts_beyond_64_bits_are_exact() -> None:
    ledger, huge = ledger_at(), 10**30 + 1
    ledger.on_charge(None, Charge(ANN, {"memory": huge}))
    ledger.advance(BEGIN + 7)
    assert used(ledger) == {"memory": 7 * huge}


# --- edges ---------------------------------------------------------------------------------------


def test_use_is_split_at_the_edges_of_periods() -> None:
    ledger = ledger_at()
    ledger.set_edges((BEGIN + 10, BEGIN + 20, BEGIN + 30))
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 25)
    line = ledger.line_of(ANN)
    assert line is not None
    assert ledger.kept_edges() == (BEGIN + 10, BEGIN + 20)
    assert [line.used_at_edge(each) for each in ledger.kept_edges()] == [{"gpu": 10}, {"gpu": 20}]
    ledger.on_charge(ONE, None)  # what it had used at the edges is written down now
    ledger.on_charge(None, TWO)
    line, other = ledger.line_of(ANN), ledger.line_of(BOB)
    assert line is not None
    assert other is not None
    assert [line.used_at_edge(each) for each in ledger.kept_edges()] == [{"gpu": 10}, {"gpu": 20}]
    assert [other.used_at_edge(each) for each in ledger.kept_edges()] == [{}, {}]


def test_an_edge_that_is_known_too_late_takes_nothing_from_the_period_before() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 100)
    ledger.on_charge(ONE, Charge(ANN, {"gpu": 3}))
    ledger.advance(BEGIN + 110)
    ledger.set_edges((BEGIN + 50,))
    line = ledger.line_of(ANN)
    assert line is not None
    assert line.used_at_edge(BEGIN + 50) == {"gpu": 100}


def test_only_the_last_two_edges_are_kept() -> None:
    ledger = ledger_at()
    ledger.set_edges(BEGIN + 10 * number for number in range(1, 10))
    for number in range(1, 8):
        ledger.on_charge(None, ONE)
        ledger.advance(BEGIN + 10 * number + 5)
        ledger.on_charge(ONE, None)
    line = ledger.line_of(ANN)
    assert line is not None
    assert [edge for edge, _ in line.marks] == [BEGIN + 60, BEGIN + 70]
    assert line.used_at_edge(BEGIN + 70) == {"gpu": 70}


# --- bounds --------------------------------------------------------------------------------------


def test_made_up_users_count_as_their_namespace() -> None:
    ledger = ledger_at(most_accounts=2)
    users = [Charge(ANN._replace(user=f"u{number}"), {"gpu": 1}) for number in range(5)]
    for charge in users:
        ledger.on_charge(None, charge)
    ledger.advance(BEGIN + 10)
    assert {account.user for account, _ in ledger} == {"u0", "u1", "namespace:ns"}
    assert used(ledger, NOBODY) == {"gpu": 30}
    assert ledger.folds == 3
    ledger.validate(users)
    for charge in users[1:]:
        ledger.on_charge(charge, None)
    ledger.advance(BEGIN + 20)
    assert used(ledger, NOBODY) == {"gpu": 30}
    ledger.validate(users[:1])


def test_a_folded_charge_is_released_where_it_was_charged() -> None:
    """Although there is room for an account of its own meanwhile."""
    ledger = ledger_at(most_accounts=1, keep_seconds=HOUR)
    first, late = Charge(BOB, {"gpu": 1}), Charge(ANN, {"gpu": 4})
    ledger.on_charge(None, first)
    ledger.on_charge(None, late)
    ledger.on_charge(first, None)
    ledger.advance(BEGIN + 2 * HOUR)
    assert ledger.line_of(BOB) is None
    ledger.on_charge(None, late)
    ledger.on_charge(late, Charge(ANN, {"gpu": 6}))
    ledger.validate([late, Charge(ANN, {"gpu": 6})])
    ledger.on_charge(Charge(ANN, {"gpu": 6}), None)
    ledger.on_charge(late, None)
    ledger.validate([])
    ledger.on_charge(None, late)  # all are gone: now it has its own
    assert ledger.fork().line_of(NOBODY) is not None


def test_an_account_has_at_most_so_many_resources() -> None:
    ledger = ledger_at()
    many = Charge(ANN, {f"example.com/r{number}": 1 for number in range(100)})
    ledger.on_charge(None, many)
    ledger.advance(BEGIN + 1)
    assert len(used(ledger)) == MAX_RESOURCES
    ledger.validate([many])
    ledger.on_charge(many, None)
    ledger.validate([])


def test_an_account_without_charges_is_dropped_after_the_time() -> None:
    ledger = ledger_at(keep_seconds=HOUR)
    ledger.on_charge(None, ONE)
    ledger.on_charge(ONE, None)
    ledger.on_charge(None, TWO)
    ledger.advance(BEGIN + HOUR - 1)
    assert len(ledger) == 2
    ledger.advance(BEGIN + HOUR)
    assert [account for account, _ in ledger] == [BOB]
    ledger.advance(BEGIN + 100 * HOUR)
    assert [account for account, _ in ledger] == [BOB]


# --- kept outside --------------------------------------------------------------------------------


def restored(stored: StoredAccounts, now: int, *charges: tuple[int, Charge]) -> Ledger:
    ledger = ledger_at(now)
    ledger.restore(stored, charges)
    return ledger


def test_what_is_charged_at_a_start_counts_from_the_later_time() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 100)
    kept = ledger.stored()
    got = restored(kept, BEGIN + 160, (BEGIN - 9999, ONE), (BEGIN + 150, TWO))
    assert (used(got), used(got, BOB)) == ({"gpu": 160}, {"gpu": 20, "cpu": 5000})
    assert got.complete_from == BEGIN
    got.validate([ONE, TWO])


def test_what_is_charged_now_replaces_what_was_seen_before() -> None:
    """A replica that did not lead has seen the same charges."""
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 100)
    twin = ledger.fork()
    twin.restore(ledger.stored(), [(BEGIN, ONE)])
    assert used(twin) == {"gpu": 100}


def test_lost_accounts_count_from_their_beginning() -> None:
    kept = StoredAccounts(BEGIN, BEGIN - 500, (StoredAccount(ANN, {"gpu": 7}),), is_rebuilt=True)
    got = restored(kept, BEGIN + 10, (BEGIN - 100, ONE), (BEGIN - 100, TWO))
    assert (used(got), used(got, BOB)) == ({"gpu": 17}, {"gpu": 220, "cpu": 55000})
    assert got.complete_from == BEGIN + 10


def test_a_clock_that_is_behind_the_last_leaders_counts_nothing_twice() -> None:
    kept = StoredAccounts(BEGIN + 30, BEGIN, (StoredAccount(ANN, {"gpu": 30}),))
    got = restored(kept, BEGIN + 20, (BEGIN, ONE))
    for second in range(20, 31):
        got.advance(BEGIN + second)
        assert used(got) == {"gpu": 30}
    got.advance(BEGIN + 40)
    assert used(got) == {"gpu": 40}


def test_a_time_far_ahead_does_not_stop_the_ledger() -> None:
    kept = StoredAccounts(BEGIN + 10**9, BEGIN, (StoredAccount(ANN, {"gpu": 30}),))
    got = restored(kept, BEGIN, (BEGIN, ONE))
    got.advance(BEGIN + MOST_AHEAD_SECONDS + 5)
    assert used(got) == {"gpu": 35}


@pytest.mark.parametrize("edge", [5, 50, 105, 120])
def test_edges_between_are_split_as_if_nothing_had_happened(edge: int) -> None:
    ledger = ledger_at()
    ledger.set_edges((BEGIN + edge,))
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 100)
    kept = ledger.stored()
    got = ledger_at(BEGIN + 110)
    got.set_edges(ledger.edges)
    got.restore(kept, [(BEGIN, ONE)])
    for each in (ledger, got):
        each.advance(BEGIN + 130)
        line = each.line_of(ANN)
        assert line is not None
        assert line.used_at_edge(BEGIN + edge) == {"gpu": edge}


def test_an_account_that_ended_while_nobody_led_is_not_idle_for_long() -> None:
    ledger = ledger_at(keep_seconds=HOUR)
    ledger.on_charge(None, ONE)
    ledger.advance(BEGIN + 10 * HOUR)
    got = ledger_at(BEGIN + 10 * HOUR + 60, keep_seconds=HOUR)
    got.restore(ledger.stored(), [])
    assert used(got) == {"gpu": 10 * HOUR}
    got.advance(BEGIN + 11 * HOUR + 61)
    assert got.line_of(ANN) is None


def test_a_difference_from_the_charges_is_found() -> None:
    ledger = ledger_at()
    ledger.on_charge(None, ONE)
    ledger.validate([ONE])
    with pytest.raises(AssertionError, match="ann"):
        ledger.validate([TWO])
    with pytest.raises(AssertionError):
        ledger.validate([ONE, TWO])
