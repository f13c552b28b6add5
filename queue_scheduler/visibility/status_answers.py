"""Refusals of the aggregated API as `Status` objects, in the API server's words."""

from __future__ import annotations

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
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
}


def status_answer(
    status: HTTPStatus, message: str, details: dict[str, Any] | None = None
) -> Answer:
    """Return an answer with a `Status` object.

    Args:
        status: HTTP status code.
        message: For a person.
        details: Group, kind and name of the object that it is about.
    """
    late = status is HTTPStatus.SERVICE_UNAVAILABLE
    about = (details or {}) | ({"retryAfterSeconds": RETRY_SECONDS} if late else {})
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
    headers = (("Retry-After", str(RETRY_SECONDS)),) if late else ()
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
