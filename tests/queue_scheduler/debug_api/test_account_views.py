"""Who has used how much, as the debug API answers it, and what it hides."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from queue_scheduler.debug_api.account_views import AccountPage, view_accounts
from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import Ledger
from shared_api.debug_api.access import open_access
from shared_api.question_errors import QuestionError
from shared_api.resource_list import Amounts
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

BEGIN = 1_800_000_000  # 2027-01-15T08:00:00Z
GPU_HOURS = {"cpu": 2000, "nvidia.com/gpu": 1}


class Charge(NamedTuple):
    account: Account
    amounts: Amounts


def ledger_of(*charges: Charge, hours: int = 3) -> Ledger:
    ledger = Ledger()
    ledger.advance(BEGIN)
    ledger.set_edges((BEGIN - 7200, BEGIN + 3600, BEGIN + 7200))
    for charge in charges:
        ledger.on_charge(None, charge)
    ledger.advance(BEGIN + hours * 3600)
    return ledger


def of(namespace: str, user: str = "ann", quota: str = "a") -> Charge:
    return Charge(Account(quota, "q", namespace, "", user), GPU_HOURS)


def view(ledger: Ledger, *readable: str, offset: int = 0, limit: int = 100) -> AccountPage:
    return view_accounts(ledger, set(readable), offset, limit, leader=True)


def test_use_is_in_hours_and_by_period() -> None:
    page = view(ledger_of(of("ns")), "ns")
    (account,) = page.items
    assert account.used == {"cpu": "6", "nvidia.com/gpu": "3"}
    assert account.this_period == account.last_period == {"cpu": "2", "nvidia.com/gpu": "1"}
    assert page.at == "2027-01-15T11:00:00Z"
    assert page.complete_from == "2027-01-15T08:00:00Z"
    assert (page.last_period_from, page.this_period_from) == (
        "2027-01-15T09:00:00Z",
        "2027-01-15T10:00:00Z",
    )


def test_without_periods_all_use_is_before_them() -> None:
    ledger = ledger_of(of("ns"))
    ledger.set_edges(())
    page = view(ledger, "ns")
    assert (page.this_period_from, page.last_period_from) == (None, None)
    assert (page.items[0].this_period, page.items[0].last_period) == ({}, {})


def test_pages_are_in_the_order_of_names() -> None:
    ledger = ledger_of(*(of("ns", f"u{number}") for number in (3, 1, 2)))
    page = view(ledger, "ns", offset=1, limit=1)
    assert ([each.user for each in page.items], page.total) == (["u2"], 3)


@pytest.mark.parametrize("hidden", [1, 2])
def test_a_sum_over_few_namespaces_is_not_shown(hidden: int) -> None:
    ledger = ledger_of(of("mine"), *(of(f"other-{number}", "bob") for number in range(hidden)))
    page = view(ledger, "mine")
    assert [(each.namespace, each.user) for each in page.items] == [("mine", "ann")]
    assert [(each.quota, each.accounts, each.use) for each in page.others] == [("a", hidden, None)]
    assert "bob" not in page.model_dump_json()


def test_a_sum_over_many_namespaces_has_no_names() -> None:
    others = [of(f"other-{number}", "bob") for number in range(3)]
    page = view(ledger_of(of("mine"), *others, of("other-1", "eve", quota="b")), "mine")
    first, second = page.others
    assert (first.quota, first.accounts, second.quota, second.use) == ("a", 3, "b", None)
    assert first.use is not None
    assert first.use.used == {"cpu": "18", "nvidia.com/gpu": "9"}
    assert not {"bob", "eve", "other-1"} & set(page.model_dump_json().split(chr(34)))


def test_the_route_answers_where_accounts_are_kept(kit: ShellKit) -> None:
    state = StateAnswers(kit.shared, lambda: True, kit.clock.now)
    with served(build_app(state, open_access, (), "0.0.0")) as client:
        missing = client.get("/debug/accounts")
        assert missing.status_code == 404
        assert "accounts.enabled" in missing.text
        kit.engine.usage.ledger = Ledger()
        kit.add_unit("a", cpu=2)
        kit.shared.decide_next("team", 0.0, kit.clock.now())
        kit.clock.advance(5400.0)
        page = client.get("/debug/accounts").json()
    (account,) = page["items"]
    assert (account["quota"], account["user"], account["used"]) == (
        "team",
        "namespace:default",
        {"cpu": "3"},
    )


def test_reading_changes_nothing(kit: ShellKit) -> None:
    kit.engine.usage.ledger = ledger = Ledger()
    state = StateAnswers(kit.shared, lambda: True, kit.clock.now)
    asked: list[str] = []
    ledger.on_charge(None, of("ns"))
    before = ledger.state()

    def may_read(namespace: str) -> bool:
        assert not state.turn.locked(), "the API server is asked without the turn"
        asked.append(namespace)
        return False

    assert state.accounts(may_read, 0, 10).items == []
    assert (asked, ledger.state()) == (["ns"], before)
    kit.engine.usage.ledger = None
    with pytest.raises(QuestionError):
        state.accounts(may_read, 0, 10)
