"""The API server, asked with the kubeconfig's own credentials."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from koord_queue.errors import EXIT_USAGE, CommandError
from koord_queue.reach.errors import Conflicting, Missing, NotServed, Refused
from koord_queue.reach.media_types import JSON
from shared_api.client.connection_settings import SettingsError
from shared_api.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ConnectionLost,
    Forbidden,
    NotFound,
    ServerError,
    StreamIdle,
    TooManyRequests,
    Unauthorized,
    error_of,
)
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord_queue.reach.choice import Choice
    from shared_api.client.transport import Transport
    from shared_api.process.clock import Clock

Query = tuple[tuple[str, str], ...]

SECONDS: Final = 30.0
"""Time limit of a request: an explanation with changes takes up to a second, a horizon 20."""
PAGE: Final = 500
"""Objects of one page of a list, as kubectl has it."""
CHANGES_SECONDS: Final = 1
"""How long changes of the past are waited for: the server has them at hand."""
KUBECONFIG_STEP: Final = "Check --context, --kubeconfig, and the network."
_ERROR_FROM: Final = 400


class Cluster:
    """Requests to the API server.

    Attributes:
        namespace: The one that is meant where none is named.
        host: Name and port of the server, for messages.
        answered_at: The server's time of the last answer, as its header `Date` has it.

    Args:
        transport: Carries requests.
        headers: The headers of each request.
        read_error: What a refusal of this server says; default: as the API server's `Status`.
        unreached_step: What a user can do where it does not answer.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        host: str,
        headers: Query = (),
        read_error: Callable[[Response], ApiError] | None = None,
        unreached_step: str = KUBECONFIG_STEP,
    ) -> None:
        self._transport = transport
        self._headers = headers
        self._read_error = read_error or read_status
        self._unreached_step = unreached_step
        self.namespace = namespace
        self.host = host
        self.answered_at = ""

    def get(self, path: str, query: Query = ()) -> bytes:
        """Return the body of an answer.

        Raises:
            CommandError: As `send`.
        """
        return self.send("GET", path, query=query)

    def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON, query: Query = ()
    ) -> bytes:
        """Send a request; return the body of the answer.

        Args:
            method: GET, POST, PATCH, PUT or DELETE.
            path: Names in it are as users wrote them, and are escaped here.
            body: What is sent.
            content_type: The type of the body.
            query: Names and values.

        Raises:
            Refused: The caller is unknown, or lacks a right; the message is the server's.
            Missing: There is no such object or path.
            Conflicting: The object has changed meanwhile, or is there already.
            CommandError: The server refuses it for another reason, or does not answer.
        """
        typed: Query = (("Content-Type", content_type),) if body else ()
        headers = (("Accept", JSON), *self._headers, *typed)
        try:
            answer = self._transport.send(
                Request(method, _escaped(path), query, headers, body), SECONDS
            )
        except ConnectionLost as error:
            raise self._unreached(error) from error
        self.answered_at = answer.headers.get("date", "")
        if answer.status >= _ERROR_FROM:
            raise _command_error(self._read_error(answer))
        return answer.body

    def changes_since(self, path: str, name: str, version: str) -> Iterator[bytes]:
        """Yield what has happened to one object of a list, as the lines of a watch.

        It ends when nothing more comes within `CHANGES_SECONDS`, and with what the server no longer
        remembers, which is a line of type ERROR.

        Args:
            path: The path of the list.
            name: The name of the object.
            version: The resourceVersion of an object of the list: changes after it are returned.

        Raises:
            CommandError: As `send`.
        """
        query = (
            ("watch", "true"),
            ("resourceVersion", version),
            ("fieldSelector", f"metadata.name={name}"),
            ("timeoutSeconds", str(CHANGES_SECONDS)),
        )
        headers = (("Accept", JSON), *self._headers)
        try:
            stream = self._transport.stream(Request("GET", _escaped(path), query, headers), SECONDS)
        except ConnectionLost as error:
            raise self._unreached(error) from error
        try:
            if stream.status >= _ERROR_FROM:
                body = stream.read_line(SECONDS) or b""
                raise _command_error(
                    self._read_error(Response(stream.status, stream.headers, body))
                )
            # The server ends it in time; the margin is for an end that comes late.
            while (line := stream.read_line(2.0 * CHANGES_SECONDS)) is not None:
                yield line
        except StreamIdle:
            return
        except ConnectionLost as error:
            raise self._unreached(error) from error
        finally:
            stream.close()

    def _unreached(self, error: ConnectionLost) -> CommandError:
        message = f"the server {self.host} does not answer: {error}"
        return CommandError(message, self._unreached_step)

    def pages(self, path: str, query: Query = ()) -> Iterator[bytes]:
        """Yield the pages of a list.

        Raises:
            CommandError: As `send`.
        """
        token = ""
        while True:
            more = (("limit", str(PAGE)), *((("continue", token),) if token else ()))
            body = self.get(path, (*query, *more))
            yield body
            token = msgspec.json.decode(body, type=_Page).metadata.continue_
            if not token:
                return

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


def _escaped(path: str) -> str:
    """Return a path that says what was written, whatever characters a user's names have.

    Raises:
        Missing: A part is `.` or `..`, which servers take for another path.
    """
    for part in path.split("/"):
        if part in {".", ".."}:
            raise Missing(f"{part!r} is no name of an object")
    # A name that is no UTF-8 has surrogates.
    return quote(path, safe="/:", errors="replace")


def open_cluster(choice: Choice, clock: Clock) -> Cluster:
    """Return the API server that the options and the kubeconfig name.

    Raises:
        CommandError: There is no kubeconfig, or it cannot be used.
    """
    from shared_api.client.kube_config import open_connection  # noqa: PLC0415 - with --server only

    try:
        found = open_connection(choice.kubeconfig, choice.context, clock=clock)
        transport = HttpTransport(found.settings, clock)
    except SettingsError as error:
        raise CommandError(
            f"no cluster is configured: {error}", "Name one with --kubeconfig or --context."
        ) from error
    host = f"{found.settings.host}:{found.settings.port}"
    return Cluster(transport, found.namespace or "default", host, _impersonation(choice))


def _impersonation(choice: Choice) -> Query:
    if choice.as_groups and not choice.as_user:
        raise CommandError("--as-group needs --as", exit_code=EXIT_USAGE)
    user = (("Impersonate-User", choice.as_user),) if choice.as_user else ()
    return (*user, *(("Impersonate-Group", group) for group in choice.as_groups))


class _Page(msgspec.Struct):
    class Meta(msgspec.Struct, rename={"continue_": "continue"}):
        continue_: str = ""

    metadata: Meta = msgspec.field(default_factory=Meta)


def read_status(answer: Response) -> ApiError:
    """Return what a refusal of the API server says."""
    return error_of(answer.status, answer.headers, answer.body)


def _command_error(error: ApiError) -> CommandError:
    """Return the error of a command for that of a server."""
    message = error.message or f"status {error.status}"
    # The API server answers so where it knows no path, and where an aggregated API is down: without
    # a Status.
    is_bare = not error.reason
    match error:
        case Unauthorized():
            return Refused(
                f"the server does not accept your credentials: {message}", "Log in again."
            )
        case Forbidden():
            return Refused(message)
        case NotFound() if not is_bare:
            return Missing(message)
        case NotFound() | ServerError(status=HTTPStatus.SERVICE_UNAVAILABLE) if is_bare:
            return NotServed(message)
        case Conflict() | AlreadyExists():
            return Conflicting(message)
        case TooManyRequests():
            wait = f"in {error.retry_after_seconds:g} s" if error.retry_after_seconds else "later"
            return CommandError(message, f"Ask again {wait}.")
        case _:
            return CommandError(message)
