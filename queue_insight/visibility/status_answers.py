"""Refusals by the server, before the application is asked, in the API server's words."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from queue_insight.api_registration.api_service import GROUP
from queue_insight.visibility.statuses import JSON, StatusError, encode_status
from shared_api.authorization.caller import Caller
from shared_api.authorization.rights import PathRight, ReviewedRight
from shared_api.process.http_exchange import Answer


def status_answer(status: HTTPStatus, message: str) -> Answer:
    """Return a refusal as a `Status` object; `message` is for a person."""
    return _answer(StatusError(status, message))


def busy_answer(retry_after: int) -> Answer:
    """Return the refusal of a request whose caller has had its share; `retry_after`: in seconds."""
    text = f"too many requests of yours at once: ask again in {retry_after} s"
    return _answer(StatusError(HTTPStatus.TOO_MANY_REQUESTS, text, retry_after=retry_after))


NOT_REVIEWED: Final = "the API server could not be asked whether this is allowed: ask again"


def forbidden_answer(caller: Caller, right: ReviewedRight) -> Answer:
    """Return the refusal of a request whose caller has not its right."""
    text = forbidden_text(caller, right)
    if isinstance(right, PathRight) or right.group != GROUP:
        return status_answer(HTTPStatus.FORBIDDEN, text)
    named = StatusError(HTTPStatus.FORBIDDEN, text, resource=right.resource, name=right.name)
    return _answer(named)


def _answer(error: StatusError) -> Answer:
    content, headers = encode_status(error)
    return Answer(error.code.value, content, JSON, tuple(headers.items()))


def forbidden_text(caller: Caller, right: ReviewedRight) -> str:
    """Return the sentence with which the API server refuses."""
    who = f'User "{caller.user}" cannot {right.verb}'
    if isinstance(right, PathRight):
        return f'forbidden: {who} path "{right.path}"'
    about = f"{right.resource}.{right.group}" + (f' "{right.name}"' if right.name else "")
    what = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    where = f'in the namespace "{right.namespace}"' if right.namespace else "at the cluster scope"
    return f'{about} is forbidden: {who} resource "{what}" in API group "{right.group}" {where}'
