"""Which error the client raises for an answer of the server."""

from __future__ import annotations

import pytest

from shared_api.client.errors import (
    MAX_MESSAGE_CHARS,
    AlreadyExists,
    ApiError,
    ApiFailure,
    BadRequest,
    Conflict,
    ConnectionLost,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    StreamIdle,
    Timeout,
    TooManyRequests,
    Unauthorized,
    error_of,
)


@pytest.mark.parametrize(
    ("status", "reason", "want"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (415, "UnsupportedMediaType", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_status_and_reason_decide_the_class(status: int, reason: str, want: type[ApiError]) -> None:
    body = f'{{"kind":"Status","reason":"{reason}","message":"because"}}'.encode()
    got = error_of(status, {}, body)
    assert type(got) is want
    assert (got.status, got.reason, got.message) == (status, reason, "because")
    assert not got.after_retry


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"<html>Bad Gateway</html>\n", "<html>Bad Gateway</html>"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"", ""),
        (b"x" * 10_000, "x" * MAX_MESSAGE_CHARS),
        (b'{"message": 3}', '{"message": 3}'),
        (b'{"a":' + b"[" * 100_000, ('{"a":' + "[" * 100_000)[:MAX_MESSAGE_CHARS]),
        (b'{"message": "\xff"}', '{"message": "\N{REPLACEMENT CHARACTER}"}'),
    ],
)
def test_a_body_that_is_not_a_status_becomes_the_message(body: bytes, want: str) -> None:
    assert error_of(502, {}, body).message == want


@pytest.mark.parametrize(
    ("header", "want"),
    [("3", 3.0), (" 3 ", 3.0), ("Sun, 01 Nov 2026 10:00:00 GMT", 0.0), ("-1", 0.0), (None, 0.0)],
)
def test_retry_after_is_in_seconds(header: str | None, want: float) -> None:
    headers = {} if header is None else {"retry-after": header}
    assert error_of(429, headers, b"").retry_after_seconds == want


def test_all_errors_have_one_base_class() -> None:
    assert issubclass(Timeout, ConnectionLost)
    assert issubclass(ServerError, ApiError)
    for kind in (ApiError, ConnectionLost, StreamIdle):
        assert issubclass(kind, ApiFailure)


def test_the_text_of_an_error_is_one_line() -> None:
    assert str(error_of(409, {}, b'{"reason":"Conflict","message":"m"}')) == "409 Conflict: m"
