"""What a request would do, read from its method, path and query as the API server reads it.

The rules are those of `k8s.io/apiserver/pkg/endpoints/request.RequestInfoFactory`: authorization
decides by them, so a path must mean here what it means to the API server.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec

from shared_api.authorization.rights import PathRight, ResourceRight

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NO_SUBRESOURCES: Final = frozenset({"proxy", "watch"})
_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_NAME_SELECTOR: Final = "metadata.name="
_LEAST_PARTS: Final = 3
"""Prefix, group and version."""


class RequestTarget(msgspec.Struct, frozen=True):
    """Path and query of a request."""

    path: str
    """Decoded, as the application sees it."""
    query: str

    @classmethod
    def of(cls, target: str) -> RequestTarget:
        """Return the parts of a request's target, split as the application gets it."""
        path, _, query = target.partition("?")
        return cls(unquote(path), query)


def right_of(method: str, target: RequestTarget) -> ResourceRight | PathRight:
    """Return the right that a request needs.

    Args:
        method: "GET".
        target: Path and query.
    """
    parts = target.path.strip("/").split("/")
    if len(parts) <= _LEAST_PARTS or parts[0] != "apis":
        return PathRight(target.path, method.lower())
    _, group, _, *rest = parts
    verb = _VERBS.get(method, "")
    if rest[0] in _NO_SUBRESOURCES and len(rest) > 1:
        verb, *rest = rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:  # noqa: PLR2004 - there is a resource
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    if verb in _NO_SUBRESOURCES:
        subresource = ""
    if not name and verb in {"get", "delete"}:
        verb, name = _of_collection(verb, target.query)
    return ResourceRight(
        verb=verb,
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _of_collection(verb: str, query: str) -> tuple[str, str]:
    """Return the verb on a collection, and the one name that a selector asks for."""
    if verb == "delete":
        return "deletecollection", ""
    parameters = parse_qs(query, keep_blank_values=True)
    watches = parameters.get("watch", ["false"])[0].lower() not in {"false", "0"}
    terms = parameters.get("fieldSelector", [""])[0].split(",")
    names = [each for each in terms if each.startswith(_NAME_SELECTOR)]
    name = names[0].removeprefix(_NAME_SELECTOR).removeprefix("=") if names else ""
    return "watch" if watches else "list", name if "/" not in name else ""
