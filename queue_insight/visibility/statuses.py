"""Errors of the aggregated API: `Status` objects, in the words of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from queue_insight.api_registration.api_service import GROUP
from shared_api.debug_api.question_statuses import STATUSES
from shared_api.question_errors import QuestionError

JSON: Final = "application/json"

RETRY_SECONDS: Final = 2
"""When to ask again, where nothing else is said: a scheduler fills its caches in some seconds."""

log = structlog.get_logger("visibility")

_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.NOT_ACCEPTABLE: "NotAcceptable",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}
"""What client-go compares an error's reason with (`metav1.StatusReason`)."""


class StatusError(Exception):
    """A request that is refused.

    Args:
        code: Status code.
        message: For a person.
        resource: Plural name of the kind that is asked for; "": none.
        name: Name of the object that is asked for; "": none.
        retry_after: Seconds after which to ask again; None: a usual time with a 503.
    """

    def __init__(
        self,
        code: HTTPStatus,
        message: str,
        *,
        resource: str = "",
        name: str = "",
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.resource = resource
        self.name = name
        self.retry_after = retry_after


def bad_request(message: str) -> StatusError:
    """Return the refusal of a request that cannot be read."""
    return StatusError(HTTPStatus.BAD_REQUEST, message)


def not_found(resource: str, name: str, why: str = "") -> StatusError:
    """Return the refusal for an object that is not there; `why`: what is known of it."""
    message = f'{resource}.{GROUP} "{name}" not found{f": {why}" if why else ""}'
    return StatusError(HTTPStatus.NOT_FOUND, message, resource=resource, name=name)


def status_response(error: StatusError, headers: Mapping[str, str] | None = None) -> Response:
    """Return a refusal as a `Status` object, with these headers as well."""
    content, own_headers = encode_status(error)
    return Response(content, error.code, {**(headers or {}), **own_headers}, JSON)


def encode_status(error: StatusError) -> tuple[bytes, dict[str, str]]:
    """Return the `Status` object of a refusal as JSON, and the headers that go with it."""
    details: dict[str, Any] = {}
    if error.resource:
        details |= {"group": GROUP, "kind": error.resource}
    if error.name:
        details["name"] = error.name
    headers: dict[str, str] = {}
    retry_after = error.retry_after
    if retry_after is None and error.code is HTTPStatus.SERVICE_UNAVAILABLE:
        retry_after = RETRY_SECONDS
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
        headers["Retry-After"] = str(retry_after)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": _REASONS.get(error.code, ""),
        **({"details": details} if details else {}),
        "code": error.code.value,
    }
    return msgspec.json.encode(status), headers


def _answer_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, StatusError)
    return status_response(error)


def _answer_http(request: Request, error: Exception) -> Response:
    """Return a refusal of the framework."""
    assert isinstance(error, HTTPException)
    code, message = HTTPStatus(error.status_code), str(error.detail)
    if code is HTTPStatus.NOT_FOUND and message == code.phrase:
        message = "the server could not find the requested resource"
    elif code is HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"{request.method} is not offered here"
    return status_response(StatusError(code, message), error.headers)


def _answer_question_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, QuestionError)
    code, after = STATUSES[error.code], error.retry_after
    return status_response(StatusError(code, error.detail, retry_after=after))


def answer_failure(request: Request, error: Exception) -> Response:
    """Return a short answer for an unexpected exception; the log has the traceback."""
    log.error("request failed", path=request.url.path, exc_info=error)
    message = f"{type(error).__name__} while answering; see the program's log"
    return status_response(StatusError(HTTPStatus.INTERNAL_SERVER_ERROR, message))


ERROR_HANDLERS: Final = {
    HTTPException: _answer_http,
    StatusError: _answer_refusal,
    QuestionError: _answer_question_error,
}
