"""The attributes of a request, as the API server's authorizers know them."""

from __future__ import annotations

import msgspec


class ResourceRight(msgspec.Struct, frozen=True, kw_only=True):
    """A verb on objects of a namespaced kind."""

    verb: str
    group: str
    resource: str
    """Plural name of the kind."""
    namespace: str
    """"" for all."""
    name: str = ""
    """Name of the object; "" for all."""
    subresource: str = ""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        where = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"{self.verb} {self.resource}{named} in {where}"


class PathRight(msgspec.Struct, frozen=True):
    """A verb on a non-resource path."""

    path: str
    verb: str = "get"

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class TokenOnly(msgspec.Struct, frozen=True):
    """Any identity that the cluster knows."""


ReviewedRight = ResourceRight | PathRight
"""What the API server can review."""

Right = ReviewedRight | TokenOnly
"""What a reader needs in addition to a valid token."""


def list_units_in(namespace: str) -> ResourceRight:
    """Return the right to list the units of a namespace."""
    group = "scheduling.x-k8s.io"
    return ResourceRight(verb="list", group=group, resource="queueunits", namespace=namespace)
