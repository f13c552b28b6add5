"""Who asks the aggregated API, and what it may read."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from queue_insight.api_registration.api_service import GROUP, VERSION

__all__ = ["CALLER", "GROUP", "VERSION", "AccessVerdict", "Caller", "Rights"]

CALLER: Final = "caller"
"""Key of the `Caller` in the state of a request: `scope["state"][CALLER]`."""


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


class AccessVerdict(msgspec.Struct, frozen=True):
    """Whether a caller may do something.

    Attributes:
        status: OK, FORBIDDEN, or SERVICE_UNAVAILABLE if the API server could not be asked.
        reason: For a person; "" if allowed.
    """

    status: HTTPStatus
    reason: str = ""

    @property
    def is_allowed(self) -> bool:
        """Return whether it may."""
        return self.status is HTTPStatus.OK


class Rights(Protocol):
    """The rights of callers, in the group of the aggregated API and others; thread-safe."""

    def may(
        self,
        caller: Caller,
        verb: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        group: str = GROUP,
    ) -> AccessVerdict:
        """Return whether a caller may do something; may wait for the API server.

        Args:
            caller: Who asks.
            verb: "get", "list" or "create".
            resource: Plural name of the kind.
            subresource: "" for the object itself.
            namespace: "" for all namespaces.
            name: Name of the object; "" for all.
            group: The group of the kind.
        """
        ...
