"""The few requests that tests make to the API server by themselves, over the standard library.

The product's own client is what is being tested; tests do not check it with itself.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUEST_SECONDS = 60.0
FIRST_STATUS_OF_ERRORS = 400

Json = Any


class ApiError(Exception):
    """The API server answered, and it was a refusal."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        """Keeps the status code and the text of the answer."""
        super().__init__(f"{method} {path}: {status}: {body[:500]}")
        self.status = status
        self.body = body


@dataclass(frozen=True, kw_only=True)
class ApiClient:
    """Requests as one user. Each opens a connection of its own, so it may be used by any thread."""

    host: str
    port: int
    token: str
    ca_file: Path

    def request(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = "application/json",
    ) -> Json:
        """Makes one request and returns the decoded answer, or its text when it is not JSON.

        Raises:
            ApiError: the server refused.
            OSError: no server answers (`http.client.HTTPException` when it hangs up half way).
        """
        with closing(self._connect()) as connection:
            return self._exchange(connection, method, path, body, {"Content-Type": content_type})

    def create_all(self, path: str, objects: Iterable[Json]) -> None:
        """Creates many objects over one connection: a handshake each would triple the time."""
        with closing(self._connect()) as connection:
            for one in objects:
                headers = {"Content-Type": "application/json"}
                self._exchange(connection, "POST", path, one, headers)

    def is_ready(self) -> bool:
        """Whether the server answers that it is ready; False also when nobody answers."""
        try:
            self.request("GET", "/readyz")
        except (ApiError, OSError, http.client.HTTPException):
            return False
        return True

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=REQUEST_SECONDS, context=context
        )

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Json,
        headers: Mapping[str, str],
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **headers}
        connection.request(method, path, body=data, headers=sent)
        response = connection.getresponse()
        text = response.read().decode()
        if response.status >= FIRST_STATUS_OF_ERRORS:
            raise ApiError(method, path, response.status, text)
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
