"""The head of a request with all its headers."""

from __future__ import annotations

import pytest

from shared_api.process.http_exchange import BadRequestError
from shared_api.process.http_head import read_every_header

MANY = 500


def test_repeated_headers_are_kept_in_order() -> None:
    more = b"".join(b"X-Group: g%d\r\n" % number for number in range(MANY))
    head = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\n" + more + b"x-last:  \xe9 \r\n\r\n"
    got = read_every_header(head, ("127.0.0.1", 1))
    assert (got.method, got.target, got.client) == ("GET", "/a?b=c", ("127.0.0.1", 1))
    groups = [value for name, value in got.lines if name == "x-group"]
    assert groups == [f"g{number}" for number in range(MANY)]
    assert got.headers == {"host": "h", "x-group": f"g{MANY - 1}", "x-last": "\xe9"}


def test_what_follows_the_head_is_not_read() -> None:
    head = b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nX-It: 1\r\n\r\n"
    got = read_every_header(head)
    assert (got.method, got.target, got.lines) == ("POST", "/a", (("content-length", "3"),))


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"hello\r\n\r\n", id="no HTTP"),
        pytest.param(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", id="no header"),
        pytest.param(b"GET /\xe9 HTTP/1.1\r\n\r\n", id="a path that is not ASCII"),
        pytest.param(
            b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", id="an upgrade"
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two lengths"
        ),
    ],
)
def test_what_is_no_request(head: bytes) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_every_header(head)
    assert refused.value.answer.status == 400


@pytest.mark.parametrize(
    ("head", "want"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", True, id="of HTTP/1.1"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", False, id="of HTTP/1.0"),
        pytest.param(b"GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n", False, id="says close"),
        pytest.param(
            b"GET / HTTP/1.1\r\nConnection: close\r\nConnection: x\r\n\r\n", False, id="twice"
        ),
    ],
)
def test_whether_another_request_may_follow(head: bytes, want: bool) -> None:
    assert read_every_header(head).keep_alive == want
