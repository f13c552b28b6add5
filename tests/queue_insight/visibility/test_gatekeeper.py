"""In which lane requests go, as whose, and that none waits for another lane."""

from __future__ import annotations

from http import HTTPStatus
from itertools import chain

import pytest

from queue_insight.visibility.caller import CALLER
from queue_insight.visibility.gatekeeper import OWN_PLACES, PLACES, WAITING, Gatekeeper
from queue_insight.visibility.server import CALLERS
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.caller import Caller
from shared_api.process.http_exchange import Answer, Request
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to
from tests.queue_insight.visibility.server_kit import BASE, LIST, build_fake_server

MANY = 60
HELD = PLACES // 2 + WAITING
"""Requests that a caller has in a lane, if it is alone."""
HELD_ANSWERS = OWN_PLACES + WAITING
"""The same of answers about units."""


class Keeper:
    """A gatekeeper whose workers are the test."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.fake = build_fake_server()
        client = client_to(self.fake, self.clock)
        self.codes: list[int] = []
        self.asked: list[str] = []
        authorizer = Authorizer(client, self.clock, CALLERS)
        keeper = Gatekeeper(lambda: None, authorizer, self.answer, self.clock, self.codes.append)
        self.desk = keeper.desk()
        for user in ("ann", "bob"):
            self.fake.reviews.users[f"{user}-token"] = {"username": user}

    def answer(self, request: Request) -> Answer:
        caller = request.state[CALLER]
        assert isinstance(caller, Caller)
        self.asked.append(f"{caller.user} {request.target}")
        return Answer(200, b"")

    def ask(self, path: str, token: str = "", host: str = "10.0.0.7") -> list[int]:
        """Ask; return the list in which the code of the answer will be."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        heard: list[int] = []
        request = Request("GET", path, headers, (host, 4711))
        self.desk.ask(request, lambda answer: heard.append(answer.status))
        return heard

    def work(self) -> None:
        while self.desk.work():
            pass


@pytest.fixture
def keeper() -> Keeper:
    keeper = Keeper()
    for user in ("ann", "bob"):  # its token is known from now on
        keeper.ask(LIST, f"{user}-token")
    keeper.work()
    keeper.codes.clear()
    keeper.asked.clear()
    return keeper


def test_a_user_is_one_caller_whichever_token_it_has(keeper: Keeper) -> None:
    tokens = [f"more-{number}" for number in range(CALLERS.new_tokens_at_once // 2)]
    keeper.fake.reviews.users |= {each: {"username": "ann"} for each in tokens}
    for token in tokens:
        keeper.ask(LIST, token)
        keeper.work()
    heard = [keeper.ask(LIST, token) for token in tokens]
    assert sum(each == [429] for each in heard) == len(tokens) - HELD_ANSWERS
    other = keeper.ask(LIST, "bob-token")
    keeper.work()
    assert other == [200]


def test_answers_in_the_making_keep_no_document_waiting(keeper: Keeper) -> None:
    for _ in range(MANY):
        keeper.ask(LIST, "ann-token")
        keeper.ask(LIST, "bob-token")
    refused = len(keeper.codes)
    assert set(keeper.codes) == {HTTPStatus.TOO_MANY_REQUESTS}
    heard = [keeper.ask(path, "bob-token") for path in (BASE, "/apis", "/openapi/v2")]
    heard.append(keeper.ask("/readyz"))
    keeper.work()
    assert heard == [[200]] * 4
    assert len(keeper.codes) > refused


def test_tokens_that_are_made_up_are_one_caller_and_delay_no_known_one(keeper: Keeper) -> None:
    heard = [keeper.ask(LIST, f"made-up-{number}") for number in range(MANY)]
    assert sum(each == [429] for each in heard) == MANY - HELD
    assert keeper.asked == []
    known = keeper.ask(LIST, "bob-token")
    keeper.work()
    assert known == [200]
    assert keeper.asked == [f"bob {LIST}"]
    assert sorted(chain.from_iterable(heard)) == [401] * HELD + [429] * (MANY - HELD)


def test_a_new_token_of_another_address_takes_its_place_among_made_up_ones(
    keeper: Keeper,
) -> None:
    for number in range(MANY):
        keeper.ask(LIST, f"made-up-{number}")
    keeper.fake.reviews.users["carl-token"] = {"username": "carl"}
    heard = keeper.ask(LIST, "carl-token", host="10.0.0.8")
    keeper.work()
    assert heard == [200]


def test_made_up_tokens_spend_no_review_that_another_address_needs(keeper: Keeper) -> None:
    for round_ in range(2 * CALLERS.new_tokens_at_once // HELD):
        for number in range(HELD):
            keeper.ask(LIST, f"made-up-{round_}-{number}")
        keeper.work()
    keeper.fake.reviews.users["carl-token"] = {"username": "carl"}
    heard = keeper.ask(LIST, "carl-token", host="10.0.0.8")
    keeper.work()
    assert heard == [200]


def test_without_a_token_nobody_waits(keeper: Keeper) -> None:
    assert keeper.ask(LIST) == [401]
