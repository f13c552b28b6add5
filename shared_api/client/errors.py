"""What can go wrong between a caller and the API server, as one hierarchy of exceptions.

    ApiFailure                     root; catch it for any call that did not succeed
      ApiError                     the server answered, and the answer is an error status
        BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404,
        Conflict / AlreadyExists 409, Gone 410, Invalid 422, TooManyRequests 429, ServerError 5xx
      ConnectionLost               no answer; `sent` says whether the server may have acted
        Timeout                    the same, because the time limit was reached
        AnswerTooLarge             the same, because the answer exceeds the limit of its bytes
      StreamIdle                   a watch is open and silent
      MalformedAnswer              the server answered with something that is not what was requested
      UndecodableObject            the server answered with an object we cannot read

Errors of sockets, TLS and the HTTP parser stop at the transport and are chained as the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shared_api.objects.meta import NO_UID, Uid

MAX_MESSAGE_CHARS: Final = 2_000
"""Longest error text that is kept; a webhook may answer with a page of HTML."""
MAX_RETRY_AFTER_SECONDS: Final = 60.0
"""Longest pause that a server or proxy is granted: otherwise one wrong header would stop a program
for good. An overloaded API server asks for 32 s at most (priority and fairness)."""


class ApiFailure(Exception):
    """A call to the API server did not succeed; the base of all errors of this package.

    Attributes:
        retry_after_seconds: A call repeated sooner would be refused, or not be sent at all. At most
            `MAX_RETRY_AFTER_SECONDS`; 0 if the server has not asked for a pause.
    """

    retry_after_seconds: float = 0.0


class ApiError(ApiFailure):
    """The server answered with an error status.

    Attributes:
        status: HTTP status code.
        reason: The machine-readable reason of the `Status` object ("Conflict"), "" without one.
        message: The server's text.
        retry_after_seconds: What `Retry-After` asks for, within the cap; 0 without it.
        after_retry: An earlier try of the same write may have reached the server. A 409 or 422
            may then result from its own success: read the object before deciding.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after_seconds: float = 0.0,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = min(retry_after_seconds, MAX_RETRY_AFTER_SECONDS)
        self.after_retry = False

    def __str__(self) -> str:
        return f"{self.status} {self.reason or type(self).__name__}: {self.message}"


class BadRequest(ApiError):
    """400: the server does not understand the request (a JSON patch that does not parse)."""


class Unauthorized(ApiError):
    """401: the server does not accept the credentials, even after a refresh."""


class Forbidden(ApiError):
    """403: RBAC or an admission plugin denies the request."""


class NotFound(ApiError):
    """404: no such object, or no such resource on this server."""


class Conflict(ApiError):
    """409, reason Conflict: the guard (resourceVersion, uid) no longer holds."""


class AlreadyExists(ApiError):
    """409, reason AlreadyExists: the name of an object to create is taken."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class Invalid(ApiError):
    """422: the schema, a CEL rule or a test of a JSON patch refuses the object."""


class TooManyRequests(ApiError):
    """429: priority and fairness, or a disruption budget, asks for a later retry."""


class ServerError(ApiError):
    """5xx: the server, etcd or a webhook behind it failed."""


class ConnectionLost(ApiFailure):
    """The connection could not be made, or broke before the whole answer had arrived.

    Attributes:
        sent: The whole request may have reached the server, so its outcome is unknown. False
            means that the server certainly has not acted on it.
        after_retry: An earlier try of the same write may have reached the server.
    """

    def __init__(self, message: str, *, sent: bool, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.sent = sent
        self.retry_after_seconds = retry_after_seconds
        self.after_retry = False


class Timeout(ConnectionLost):
    """The answer has not arrived, or not completely, within the time limit."""


class AnswerTooLarge(ConnectionLost):
    """The answer has more bytes than the transport takes; the rest of it was not read."""


class StreamIdle(ApiFailure):
    """An open watch delivered nothing within the time limit; it can be read again."""


class MalformedAnswer(ApiFailure):
    """The answer has status 200 but is not JSON of the expected shape: a gateway's page, say."""


class DecodeFailure(msgspec.Struct, frozen=True):
    """One object that could not be decoded into its struct, as far as it could be identified."""

    namespace: str = ""
    name: str = ""
    uid: Uid = NO_UID
    resource_version: str = ""
    error: str = ""
    """Includes the path to the field: "Expected `int`, got `str` - at `$.spec.priority`"."""
    salvaged: Any = None
    """The object without the fields that cannot be decoded, if its type supports that."""

    @property
    def key(self) -> str:
        """The key of the object, as `ObjectMeta.key`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class UndecodableObject(ApiFailure):
    """The server's answer to a get, create or patch does not fit the struct.

    A write that ends so was carried out.
    """

    def __init__(self, failure: DecodeFailure) -> None:
        super().__init__(f"{failure.namespace}/{failure.name}: {failure.error}")
        self.failure = failure


class _Status(msgspec.Struct, frozen=True):
    """The fields of a `v1.Status` body that are read."""

    reason: str = ""
    message: str = ""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_SERVER_ERRORS_FROM: Final = 500
_status_decoder: Final = msgspec.json.Decoder(_Status)


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error for an answer with a status of 400 or more.

    Args:
        status: HTTP status code.
        headers: Values by lower-case name.
        body: A `v1.Status` as JSON, or anything else (a proxy's page), which becomes the message.
    """
    try:
        said = _status_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        said = _Status(message=body[:MAX_MESSAGE_CHARS].decode("utf-8", "replace").strip())
    return status_error(
        status,
        said.reason,
        said.message,
        retry_after_seconds=_seconds(headers.get("retry-after", "")),
    )


def status_error(
    status: int, reason: str, message: str, *, retry_after_seconds: float = 0.0
) -> ApiError:
    """Return the error that fits a status code and reason."""
    kind = _BY_STATUS.get(status, ServerError if status >= _SERVER_ERRORS_FROM else ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(
        status, reason, message[:MAX_MESSAGE_CHARS], retry_after_seconds=retry_after_seconds
    )


def _seconds(retry_after: str) -> float:
    """Return the seconds of `Retry-After`; the API server sends whole ones, a date is ignored."""
    return float(retry_after) if retry_after.strip().isdecimal() else 0.0
