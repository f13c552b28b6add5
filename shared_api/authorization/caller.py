"""The caller of a request."""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """The identity of a client, as the API server knows it.

    Attributes:
        user: Its name; "" is not identified, which only `/healthz` and the like are answered.
        uid: Its UID; "" if it has none.
        groups: The groups that it belongs to.
        extra: Further facts about it, by key.
    """

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


def bearer_token(authorization: str) -> str:
    """Return the bearer token of a header Authorization; "" if it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
