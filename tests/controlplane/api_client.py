"""The requests that tests send to the API server themselves, with the standard library.

The product's own client is under test, so tests do not check it with itself.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

REQUEST_SECONDS = 60.0
FIRST_STATUS_OF_ERRORS = 400

Json = Any


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        """Keep the status code and the text of the answer."""
        super().__init__(f"{method} {path}: {status}: {body[:500]}")
        self.status = status
        self.body = body


@dataclass(frozen=True, kw_only=True)
class ApiClient:
    """Requests as one user. Each opens its own connection, so any thread may use it."""

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
        """Send one request and return the decoded answer, or its text if it is not JSON.

        Raises:
            ApiError: The server refused.
            OSError: No server answers (`http.client.HTTPException` if it closes the connection
                early).
        """
        with closing(self._connect()) as connection:
            return self._exchange(connection, method, path, body, {"Content-Type": content_type})

    def find(self, path: str) -> Json | None:
        """Return an object, None if it does not exist."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def create_all(self, path: str, objects: Iterable[Json]) -> None:
        """Create many objects over one connection, as a handshake each would triple the time."""
        with closing(self._connect()) as connection:
            for one in objects:
                headers = {"Content-Type": "application/json"}
                self._exchange(connection, "POST", path, one, headers)

    def is_ready(self) -> bool:
        """Return whether the server reports that it is ready; False also without an answer."""
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
