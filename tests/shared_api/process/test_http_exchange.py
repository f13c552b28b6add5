"""Requests and answers, from and to bytes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared_api.process.http_exchange import (
    Answer,
    BadRequestError,
    Request,
    body_length,
    encode,
    head_length,
    is_head_complete,
    read_request,
)

NOON = datetime(2026, 11, 25, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("received", "want"),
    [
        (b"", False),
        (b"GET / HTTP/1.1\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", False),
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"GET / HTTP/1.0\n\n", True),
        (b"POST / HTTP/1.1\r\n\r\nbody", True),
    ],
)
def test_a_head_ends_with_an_empty_line(received: bytes, want: bool) -> None:
    assert is_head_complete(received) is want
    assert is_head_complete(bytearray(received)) is want


@pytest.mark.parametrize(
    ("head", "want"),
    [
        pytest.param(
            b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nX-It:  y \r\n\r\n",
            Request("GET", "/a?b=c", {"host": "x", "x-it": "y"}),
            id="method, target and headers",
        ),
        pytest.param(
            b"\r\nHEAD / HTTP/1.0\r\n\r\n", Request("HEAD", "/", {}), id="an empty line before it"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
            Request("GET", "/", {"expect": "100-continue"}),
            id="100-continue is ignored",
        ),
    ],
)
def test_a_request_is_read(head: bytes, want: Request) -> None:
    assert read_request(head) == want


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"\r\n\r\n", 400, id="nothing"),
        pytest.param(b"\x16\x03\x01\x00\r\n\r\n", 400, id="TLS"),
        pytest.param(b"GET / HTTP/9.1\r\n\r\n", 505, id="another version"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431, id="many headers"),
    ],
)
def test_an_invalid_request_has_a_status(head: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        read_request(head)
    assert caught.value.answer.status == status


@pytest.mark.parametrize(
    ("received", "want"),
    [
        pytest.param(b"POST / HTTP/1.1\r\n\r\nbody", 19, id="and a body"),
        pytest.param(b"POST / HTTP/1.1\n\na\r\n\r\nb", 17, id="an empty line in the body"),
    ],
)
def test_the_head_ends_after_the_first_empty_line(received: bytes, want: int) -> None:
    assert head_length(received) == want


@pytest.mark.parametrize(
    ("method", "headers", "want"),
    [
        pytest.param("POST", {"content-length": "70"}, 70, id="stated"),
        pytest.param("POST", {}, 0, id="not stated: none"),
        pytest.param("GET", {"content-length": "70"}, 0, id="of a GET it is not read"),
        pytest.param("POST", {"content-length": "9" * 5000}, 9_999_999_999, id="huge"),
        pytest.param("POST", {"content-length": "0" * 5000 + "7"}, 7, id="many zeros"),
    ],
)
def test_a_body_has_the_stated_length(method: str, headers: dict[str, str], want: int) -> None:
    assert body_length(Request(method, "/", headers)) == want


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"transfer-encoding": "chunked"}, 411, id="in chunks"),
        pytest.param({"content-length": "-1"}, 400, id="negative"),
        pytest.param({"content-length": "1_0"}, 400, id="not decimal"),
        pytest.param({"content-length": ""}, 400, id="empty"),
        pytest.param({"content-length": "\u0661"}, 400, id="other digits"),
    ],
)
def test_a_body_without_a_valid_length_is_refused(headers: dict[str, str], status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        body_length(Request("POST", "/", headers))
    assert caught.value.answer.status == status


def test_an_answer_is_encoded_with_its_length_and_ends_the_connection() -> None:
    answer = Answer(200, b"up 1\n", "text/special", (("Link", "<next>"),))
    head = (
        b"HTTP/1.0 200 OK\r\nDate: Wed, 25 Nov 2026 12:00:00 GMT\r\nContent-Type: text/special\r\n"
        b"Content-Length: 5\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
        b"Link: <next>\r\n\r\n"
    )
    assert encode(answer, NOON) == head + b"up 1\n"
    assert encode(answer, NOON, with_body=False) == head


def test_the_answer_to_head_may_have_the_length_of_the_body() -> None:
    head = encode(Answer(200, b"", length=70), NOON, with_body=False)
    assert b"\r\nContent-Length: 70\r\n" in head


def test_a_request_has_the_address_of_its_connection() -> None:
    head = b"GET / HTTP/1.1\r\nX-Forwarded-For: 10.9.8.7\r\n\r\n"
    assert read_request(head, ("10.1.2.3", 45)).client == ("10.1.2.3", 45)


def test_a_status_without_a_phrase_is_still_sent() -> None:
    assert encode(Answer(299, b""), NOON).startswith(b"HTTP/1.0 299 \r\n")
