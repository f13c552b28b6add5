"""Whose share a question is charged to: users, whichever tokens they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from queue_insight.debug_api.question_caller import caller_of
from shared_api.authorization.authorizer import Authorizer
from shared_api.caller_shares import address_key, token_key, user_key
from shared_api.debug_api.access import ReviewedAccess
from shared_api.program import READERS

if TYPE_CHECKING:
    from tests.queue_scheduler.shell_kit import ShellKit


def request(token: str = "") -> Request:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/debug/queues"}
    return Request(scope | {"headers": headers, "client": ("10.0.0.1", 4711)})


def test_tokens_of_one_user_are_one_caller(kit: ShellKit) -> None:
    reviews = kit.server.reviews
    reviews.users |= {"one": {"username": "ann"}, "two": {"username": "ann"}}
    reviews.allows = lambda _: True
    guard = ReviewedAccess(Authorizer(kit.client, kit.clock, READERS))
    asked = [request("one"), request("two")]
    for each in asked:
        guard(each)
    assert [caller_of(each) for each in asked] == [user_key("ann")] * 2


def test_where_no_guard_knows_the_user_it_is_the_token_and_else_the_address() -> None:
    assert caller_of(request("one")) == token_key("one")
    assert caller_of(request()) == address_key("10.0.0.1")
