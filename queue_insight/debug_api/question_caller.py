"""Who asks a question: whose share of computing it is charged to."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from shared_api.authorization.caller import bearer_token
from shared_api.caller_shares import address_key, token_key, user_key

CALLER: Final = "koord-queue-caller"
"""The header by which the scheduler tells the insight program who asks. That answers processes of
its own user only; no port that others reach reads it."""


def caller_of(request: Request) -> str:
    """Return the key of the caller: the user of the route's guard, the token, or the address.

    A user may have any number of tokens.
    """
    user = getattr(request.state, "user", "")
    if user:
        return user_key(user)
    token = bearer_token(request.headers.get("authorization", ""))
    if token:
        return token_key(token)
    return address_key("" if request.client is None else request.client.host)


def caller_named_by_scheduler(request: Request) -> str:
    """Return the caller that the scheduler names to the insight program, "" if it names none."""
    return request.headers.get(CALLER, "")
