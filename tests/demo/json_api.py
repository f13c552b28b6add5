"""Plain JSON to and from an API server: objects are dictionaries, not decoded into types.

The demo must see objects as stored, not as the product's structs represent them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from shared_api.client.errors import AlreadyExists, NotFound, error_of
from shared_api.client.resource_client import ResourceType
from shared_api.client.transport import Request, Response, ResponseStream, Transport

Json = dict[str, Any]

REQUEST_SECONDS: Final = 15.0
PAGE_LIMIT: Final = 500
_FIRST_ERROR: Final = 400

Kind = ResourceType[Any]
"""The path of a kind; its struct is not used here."""


class JsonApi:
    """Sends requests over a transport, each once; refusals raise the errors of the client."""

    def __init__(self, transport: Transport, user_agent: str = "koord-queue-demo") -> None:
        self._transport = transport
        self._headers = (("Accept", "application/json"), ("User-Agent", user_agent))

    def close(self) -> None:
        """Close all connections; a request in flight ends with ConnectionLost."""
        self._transport.close()

    def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return one object.

        Raises:
            NotFound: It does not exist.
        """
        return self._ask("GET", kind.path(namespace, name))

    def get_path(self, path: str) -> Json:
        """Return the answer of any other path.

        Raises:
            ApiError: It is refused.
        """
        return self._ask("GET", path)

    def list_all(self, kind: Kind, namespace: str = "", label_selector: str = "") -> list[Json]:
        """Return all objects of a kind."""
        return self.list_with_version(kind, namespace, label_selector)[0]

    def list_with_version(
        self, kind: Kind, namespace: str = "", label_selector: str = ""
    ) -> tuple[list[Json], str]:
        """Return all objects of a kind, and the version from which a watch continues."""
        items: list[Json] = []
        token = ""
        while True:
            query = {"limit": str(PAGE_LIMIT), "continue": token, "labelSelector": label_selector}
            page = self._ask("GET", kind.path(namespace), query=query)
            items += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return items, page["metadata"]["resourceVersion"]

    def watch(self, kind: Kind, resource_version: str) -> ResponseStream:
        """Open a watch; each line is an event as JSON.

        Raises:
            Gone: The version is too old.
            ApiError: It is refused.
        """
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
        )
        request = Request("GET", kind.path(), query, self._headers)
        stream = self._transport.stream(request, REQUEST_SECONDS)
        if stream.status < _FIRST_ERROR:
            return stream
        with contextlib.closing(stream):
            body = stream.read_line(REQUEST_SECONDS) or b""
            raise error_of(stream.status, stream.headers, body)

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Json:
        """Create an object and return it.

        Raises:
            AlreadyExists: The name is taken.
        """
        return self._ask("POST", kind.path(body["metadata"].get("namespace", "")), body)

    def try_create(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Create an object unless its name is taken; return whether it was created."""
        try:
            self.create(kind, body)
        except AlreadyExists:
            return False
        return True

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> Json:
        """Apply a merge patch to an object and return it.

        Raises:
            NotFound: It does not exist.
        """
        return self._ask(
            "PATCH",
            kind.path(namespace, name, subresource),
            body,
            content_type="application/merge-patch+json",
        )

    def try_delete(
        self, kind: Kind, namespace: str, name: str, *, grace_seconds: int | None = None
    ) -> bool:
        """Delete an object with its dependents; return whether it existed."""
        options: Json = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._ask("DELETE", kind.path(namespace, name), options)
        except NotFound:
            return False
        return True

    def is_served(self, kind: Kind) -> bool:
        """Return whether the API server serves a kind."""
        path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            found = self.get_path(path)
        except NotFound:
            return False
        return any(resource["name"] == kind.plural for resource in found["resources"])

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        headers: tuple[tuple[str, str], ...] = self._headers
        if body is not None:
            headers = (*headers, ("Content-Type", content_type))
        data = b"" if body is None else json.dumps(body).encode()
        pairs = tuple((name, value) for name, value in (query or {}).items() if value)
        response = self._transport.send(
            Request(method, path, pairs, headers, data), REQUEST_SECONDS
        )
        return _read(response)


def _read(response: Response) -> Json:
    if response.status >= _FIRST_ERROR:
        raise error_of(response.status, response.headers, response.body)
    if response.status == HTTPStatus.NO_CONTENT:
        return {}
    answer: Json = json.loads(response.body)
    return answer
