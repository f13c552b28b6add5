"""Places and seconds of a bounded server are shared among its callers."""

from __future__ import annotations

import msgspec
import pytest

from shared_api.caller_shares import (
    CallerShares,
    Outcome,
    ShareLimits,
    address_key,
    token_key,
    user_key,
)

PLACES = ShareLimits(places=8, waiting=6, patience_seconds=2.0, rate=8.0, own_rate=1.0)
"""Only places are short."""

SECONDS = ShareLimits(
    places=8, waiting=6, patience_seconds=2.0, rate=0.5, own_rate=0.1, saved_seconds=5.0
)
"""Seconds are short as well."""

START = 100.0


class Server:
    """Shares whose requests are called "greedy 1", and a time that the test advances."""

    def __init__(self, limits: ShareLimits) -> None:
        self.now = START
        self.shares: CallerShares[str] = CallerShares(limits, self.now)
        self.asked = 0

    def ask(self, caller: str, times: int = 1) -> list[str]:
        """Ask so many times; return what happens, in order."""
        happened = []
        for _ in range(times):
            self.asked += 1
            happened += reported(self.shares.ask(caller, f"{caller} {self.asked}", self.now))
            self.shares.validate()
        return happened

    def end(self, ticket: str) -> list[str]:
        """End an answer; return what happens then."""
        outcome = reported(self.shares.end(ticket, self.now))
        self.shares.validate()
        return outcome

    def pass_time(self, seconds: float) -> list[str]:
        """Let time pass; return what it changes."""
        self.now += seconds
        outcome = reported(self.shares.tick(self.now))
        self.shares.validate()
        return outcome

    def spend(self, caller: str, seconds: float) -> None:
        """Let a caller have an answer that takes so long."""
        (begun,) = self.ask(caller)
        self.now += seconds
        self.end(begun.removeprefix("begin "))


def reported(outcome: Outcome[str]) -> list[str]:
    return [
        *(f"begin {ticket}" for ticket in outcome.begun),
        *(f"refuse {each.ticket} for {each.retry_after} s" for each in outcome.refused),
    ]


def test_one_caller_gets_half_of_the_places_and_newcomers_begin_at_once() -> None:
    server = Server(PLACES)
    assert server.ask("greedy", 6) == [f"begin greedy {number}" for number in (1, 2, 3, 4)]
    assert (server.shares.running, server.shares.waiting) == (4, 2)
    assert server.ask("other") == ["begin other 7"]
    assert server.ask("third") == ["begin third 8"]


@pytest.mark.parametrize("places", range(1, 9))
def test_every_number_of_places_lets_one_begin(places: int) -> None:
    limits = ShareLimits(places=places, waiting=9, patience_seconds=2.0, rate=8.0, own_rate=1.0)
    assert len(Server(limits).ask("alone", 9)) == -(-places // 2)


def test_a_caller_has_no_more_places_than_each_may_have() -> None:
    server = Server(msgspec.structs.replace(PLACES, own_places=1))
    assert server.ask("greedy", 3) == ["begin greedy 1"]
    assert server.ask("other", 2) == ["begin other 4"]
    assert server.shares.seconds_to_tick(server.now) == PLACES.patience_seconds
    assert server.end("greedy 1") == ["begin greedy 2"]
    assert server.end("other 4") == ["begin other 5"]


def test_who_waits_begins_when_a_place_is_free() -> None:
    server = Server(PLACES)
    server.ask("greedy", 6)
    assert server.end("greedy 2") == ["begin greedy 5"]
    assert server.end("greedy 1") == ["begin greedy 6"]


def test_whoever_has_fewer_places_begins_first() -> None:
    server = Server(ShareLimits(places=2, waiting=6, patience_seconds=2.0, rate=2.0, own_rate=1.0))
    server.ask("greedy", 3)
    assert server.ask("other") == ["begin other 4"]
    assert server.ask("third") == []
    assert server.end("other 4") == ["begin third 5"]
    assert server.end("third 5") == []
    assert server.end("greedy 1") == ["begin greedy 2"]


def test_a_full_queue_drops_the_newest_request_of_who_has_the_most_in_it() -> None:
    server = Server(PLACES)
    server.ask("greedy", 10)
    assert server.ask("greedy") == ["refuse greedy 11 for 1 s"]
    assert server.ask("other", 2) == ["begin other 12", "begin other 13"]
    assert server.ask("other") == ["refuse greedy 10 for 1 s"]
    assert server.ask("third") == ["begin third 15"]
    assert server.ask("other") == ["refuse greedy 9 for 1 s"]


def test_who_asks_with_very_many_at_once_is_told_to_come_back_later() -> None:
    server = Server(PLACES)
    refused = server.ask("greedy", 500)[4:]
    seconds = [int(each.split()[-2]) for each in refused]
    assert (seconds[0], seconds[31], seconds[-1]) == (1, 2, 10)
    assert seconds == sorted(seconds)
    for number in range(1, 11):
        server.end(f"greedy {number}")
    assert "for 1 s" in server.ask("greedy", 11)[-1]


def test_who_waits_longer_than_the_patience_is_refused() -> None:
    server = Server(PLACES)
    server.ask("greedy", 4)
    server.ask("greedy")
    assert server.shares.seconds_to_tick(server.now) == 2.0
    assert server.pass_time(1.9) == []
    assert server.pass_time(0.1) == ["refuse greedy 5 for 1 s"]
    assert server.shares.seconds_to_tick(server.now) is None


def test_seconds_that_others_do_not_use_are_lent() -> None:
    server = Server(SECONDS)
    server.spend("alone", 6.0)  # 5 s were saved of its own, and 5 s in common
    assert server.ask("alone") == ["begin alone 2"]


def test_who_has_spent_its_own_and_the_common_seconds_is_told_when_to_come_back() -> None:
    server = Server(SECONDS)
    server.spend("greedy", 20.0)  # common: a debt of 5 s at most, that ends in 10 s
    assert server.ask("greedy") == ["refuse greedy 2 for 10 s"]
    server.pass_time(8.5)
    assert server.ask("greedy") == []  # it waits for the rest
    assert server.shares.seconds_to_tick(server.now) == pytest.approx(1.5, abs=0.01)
    assert server.pass_time(1.6) == ["begin greedy 3"]


def test_the_seconds_of_a_caller_are_left_to_it_whatever_others_spend() -> None:
    server = Server(SECONDS)
    server.spend("greedy", 100.0)
    assert server.ask("other") == ["begin other 2"]
    assert server.ask("greedy") == ["refuse greedy 3 for 10 s"]


def test_a_refusal_costs_its_caller_nothing() -> None:
    server = Server(SECONDS)
    server.spend("greedy", 20.0)
    first = server.ask("greedy", 500)
    assert set(first) == {f"refuse greedy {number} for 10 s" for number in range(2, 502)}
    server.pass_time(10.1)
    assert server.ask("greedy") == ["begin greedy 502"]


def test_an_answer_in_the_making_is_charged_before_it_ends() -> None:
    server = Server(SECONDS)
    server.ask("greedy", 2)
    server.now += 10.0
    assert server.ask("greedy") == ["refuse greedy 3 for 10 s"]


def test_an_answer_that_is_not_made_yet_costs_no_more_than_the_time_so_far() -> None:
    server = Server(PLACES)
    server.ask("steady", 4)
    for _ in range(1000):  # a place for each second: nobody runs out
        server.pass_time(10.0)
    assert server.end("steady 1") == []
    assert server.ask("newcomer") == ["begin newcomer 5"]


def test_a_request_whose_client_has_gone_is_forgotten() -> None:
    server = Server(PLACES)
    server.ask("greedy", 6)
    server.shares.leave("greedy 5")
    assert server.end("greedy 1") == ["begin greedy 6"]


def test_only_so_many_callers_are_remembered_and_busy_ones_always() -> None:
    server = Server(
        ShareLimits(places=4, waiting=2, patience_seconds=2.0, rate=0.5, own_rate=0.1, callers=8)
    )
    server.ask("busy")
    for number in range(100):
        server.spend(f"stranger {number}", 0.01)
    assert server.shares.callers == 8
    assert server.end("busy 1") == []


def test_keys_of_users_tokens_and_addresses_differ_and_hide_tokens() -> None:
    keys = {user_key("10.0.0.1"), token_key("10.0.0.1"), address_key("10.0.0.1")}
    assert len(keys) == 3
    assert not any("secret" in each for each in (token_key("secret"), token_key("secret\udcff")))


def test_service_accounts_of_a_namespace_are_one_caller() -> None:
    names = ("team:a", "team:b", "other:a")
    keys = [user_key(f"system:serviceaccount:{name}") for name in names]
    assert keys[0] == keys[1] != keys[2]
    assert user_key("team") != keys[0]
