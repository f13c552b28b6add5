"""Reads the head of a request with every header, also one that is repeated.

The standard library's parser takes a hundred headers at most; an API server sends one for each
group of a caller, of which there may be more.
"""

from __future__ import annotations

from http import HTTPStatus

import httptools

from shared_api.process.http_exchange import (
    BadRequestError,
    Client,
    Request,
    head_length,
    text_answer,
)


def read_every_header(head: bytes, client: Client | None = None) -> Request:
    """Return the request of a complete head, with its headers in `lines` as well.

    Raises:
        BadRequestError: The bytes are not a valid request.
    """
    seen = _Head()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(head[: head_length(head)])  # what follows may be another request
    except httptools.HttpParserUpgrade:
        raise BadRequestError(
            text_answer(HTTPStatus.BAD_REQUEST, "nothing is upgraded here")
        ) from None
    except httptools.HttpParserError as error:
        raise BadRequestError(text_answer(HTTPStatus.BAD_REQUEST)) from error
    if not seen.is_complete:
        raise BadRequestError(text_answer(HTTPStatus.BAD_REQUEST))
    method = parser.get_method().decode("ascii")
    target = seen.target.decode("ascii")
    return Request(
        method,
        target,
        dict(seen.lines),
        client,
        lines=tuple(seen.lines),
        keep_alive=parser.get_http_version() == "1.1" and not _wants_close(seen.lines),
    )


def _wants_close(lines: list[tuple[str, str]]) -> bool:
    # The parser itself has forgotten it at the end of the message.
    options = ",".join(value for name, value in lines if name == "connection").split(",")
    return "close" in {each.strip().lower() for each in options}


class _Head:
    """What httptools calls with the parts of a request."""

    def __init__(self) -> None:
        self.target = b""
        self.lines: list[tuple[str, str]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.lines.append((name.decode("latin-1").lower(), value.decode("latin-1").strip()))

    def on_headers_complete(self) -> None:
        self.is_complete = True
