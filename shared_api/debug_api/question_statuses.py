"""The status of HTTP for each reason that a question has no answer, and back."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from shared_api.question_errors import Code

STATUSES: Final[Mapping[Code, HTTPStatus]] = {
    Code.INVALID_ARGUMENT: HTTPStatus.UNPROCESSABLE_ENTITY,
    Code.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Code.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    Code.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    Code.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
}

_CODES: Final = {status.value: code for code, status in STATUSES.items()}


def code_of(status: int) -> Code:
    """Return what a server means by a status; of one that stands for no code, INTERNAL."""
    return _CODES.get(status, Code.INTERNAL)
