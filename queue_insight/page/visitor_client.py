"""Asks the API server for a visitor: with the visitor's own token, and with nothing else.

What is read is what the visitor may read by its own rights, and it is kept nowhere. The transport
has no credentials (`connection_settings.WithoutCredentials`), so that a request without a token is
one of nobody.

No visitor chooses what is asked: paths are made of a fixed kind, and of names that are checked
here, since a name such as `..` would lead to another path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import structlog

from shared_api.client.errors import (
    AnswerTooLarge,
    ApiError,
    ApiFailure,
    ConnectionLost,
    NotFound,
    Timeout,
    Unauthorized,
    error_of,
)
from shared_api.client.transport import Request, Transport
from shared_api.process.clock import Clock
from shared_api.version import VERSION

MAX_ANSWER_BYTES: Final = 4_194_304
"""Longest answer of the API server: an object has 1.5 MiB at most where etcd is as it comes, a page
of 500 events mostly half a MiB. As many as `api_routes.LIMITS` has places are in memory at once."""
QUESTION_SECONDS: Final = 10.0
"""Time for all requests of one answer."""
REQUEST_SECONDS: Final = 5.0
"""Time for one of them."""
MAX_SAID: Final = 500
"""Characters that are shown of what the API server says."""

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SEGMENT: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
"""A DNS subdomain, as names of what a unit has are: it has no slash, no `%`, and is not `..`."""
MAX_SEGMENT: Final = 253

log = structlog.get_logger("page")


class VisitorClient:
    """Reads for one answer to one visitor.

    Args:
        transport: Sends requests without credentials of its own.
        token: The visitor's token.
        clock: The time; the answer has `QUESTION_SECONDS` from now on.
    """

    def __init__(self, transport: Transport, token: str, clock: Clock) -> None:
        self._transport = transport
        self._token = token
        self._clock = clock
        self._until = clock.monotonic() + QUESTION_SECONDS

    def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the body of the answer for a path. It is asked once: the visitor may ask again.

        Args:
            path: Made of names for which `is_segment` holds.
            query: Parameters, not encoded.

        Raises:
            ApiFailure: There is no answer, or it is a refusal.
        """
        if not _TOKEN.fullmatch(self._token):  # "" after the session has ended
            raise Unauthorized(HTTPStatus.UNAUTHORIZED, message="the session has ended")
        headers = (
            ("Accept", "application/json"),
            ("Authorization", f"Bearer {self._token}"),
            ("User-Agent", f"koord-queue-page/{VERSION}"),
        )
        request = Request("GET", path, tuple((query or {}).items()), headers)
        seconds = min(REQUEST_SECONDS, self._until - self._clock.monotonic())
        if seconds <= 0:
            raise Timeout("time was up before the request was sent", sent=False)
        response = self._transport.send(request, seconds)
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise error_of(response.status, response.headers, response.body)
        return response.body


def is_segment(text: str) -> bool:
    """Return whether a text can stand in a path of the API server as one name."""
    return len(text) <= MAX_SEGMENT and _SEGMENT.fullmatch(text) is not None


def segment(text: str) -> str:
    """Return a text as one name in a path.

    Raises:
        NotFound: No object can have that name; nothing is asked.
    """
    if not is_segment(text):
        raise not_there("a name in it cannot be that of an object")
    return text


def not_there(why: str) -> NotFound:
    """Return the error for what is not asked of the API server, since it cannot have it."""
    return NotFound(HTTPStatus.NOT_FOUND, message=why)


def in_words(failure: ApiFailure) -> str:
    """Return for a visitor why the API server has not answered what was asked."""
    match failure:
        case Unauthorized():
            return "The API server does not accept your token any more. Log in again."
        case ApiError(status=HTTPStatus.FORBIDDEN):
            return f"The API server does not let you read this: {_said(failure)}"
        case ApiError(status=HTTPStatus.NOT_FOUND):
            return f"There is no such object: {_said(failure)}"
        case ApiError(status=HTTPStatus.TOO_MANY_REQUESTS):
            after = f" in {failure.retry_after_seconds:g} s" if failure.retry_after_seconds else ""
            return f"The API server has too many requests. Try again{after}."
        case ApiError():
            return f"The API server answered {failure.status}: {_said(failure)}"
        case AnswerTooLarge():
            size = MAX_ANSWER_BYTES // 2**20
            return f"The answer has more than {size} MiB. Use the command."
        case Timeout():
            return "The API server has not answered in time. Try again."
        case ConnectionLost():
            # What went wrong names addresses within the cluster.
            log.warning("the API server cannot be asked for a visitor", error=str(failure))
            return "The API server cannot be reached."
        case _:
            return "The answer of the API server cannot be read."


def _said(error: ApiError) -> str:
    return " ".join(error.message.split())[:MAX_SAID] or error.reason or "it gives no reason"
