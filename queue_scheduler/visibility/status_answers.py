"""Refusals of the aggregated API as `Status` objects, in the API server's words."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from queue_scheduler.visibility.caller import Caller
from shared_api.access_review import PathRight, ResourceRight
from shared_api.process.http_exchange import Answer

RETRY_SECONDS: Final = 5
"""After which a client asks again what could not be answered."""

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


def status_answer(
    status: HTTPStatus,
    message: str,
    details: Mapping[str, Any] | None = None,
    retry_after: int | None = None,
) -> Answer:
    """Return an answer with a `Status` object.

    Args:
        status: HTTP status code.
        message: For a person.
        details: Group, kind and name of the object that it is about.
        retry_after: Seconds after which to ask again; None: `RETRY_SECONDS` with a 503.
    """
    if retry_after is None and status is HTTPStatus.SERVICE_UNAVAILABLE:
        retry_after = RETRY_SECONDS
    late = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    about = {**(details or {}), **late}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(status, ""),
        **({"details": about} if about else {}),
        "code": status.value,
    }
    headers = (("Retry-After", str(retry_after)),) if late else ()
    return Answer(status.value, msgspec.json.encode(body), "application/json", headers)


def forbidden_answer(caller: Caller, right: ResourceRight | PathRight) -> Answer:
    """Return the refusal of a request whose caller has not its right."""
    return status_answer(HTTPStatus.FORBIDDEN, forbidden_text(caller, right), _details(right))


def forbidden_text(caller: Caller, right: ResourceRight | PathRight) -> str:
    """Return the sentence with which the API server refuses."""
    who = f'User "{caller.user}" cannot {right.verb}'
    if isinstance(right, PathRight):
        return f'forbidden: {who} path "{right.path}"'
    about = f"{right.resource}.{right.group}" + (f' "{right.name}"' if right.name else "")
    what = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    where = f'in the namespace "{right.namespace}"' if right.namespace else "at the cluster scope"
    return f'{about} is forbidden: {who} resource "{what}" in API group "{right.group}" {where}'


def _details(right: ResourceRight | PathRight) -> dict[str, Any]:
    if isinstance(right, PathRight):
        return {}
    named = {"name": right.name} if right.name else {}
    return {**named, "group": right.group, "kind": right.resource}
