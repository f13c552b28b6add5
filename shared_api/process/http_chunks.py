"""Reads a body that is sent in chunks: a client that does not know its length sends it so."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import httptools

from shared_api.process.http_exchange import BadRequestError, Request, text_answer

_HEAD: Final = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
"""In place of the real head, which is read already."""

MAX_OVERHEAD: Final = 8
"""Bytes received for each byte that a body may have: a chunk of one byte takes six."""


def is_chunked(request: Request) -> bool:
    """Return whether the body of a request is sent in chunks.

    Raises:
        BadRequestError: It is sent in another way, or its length is stated as well.
    """
    encoding = request.headers.get("transfer-encoding", "").lower()
    if not encoding or request.method != "POST":
        return False
    if encoding != "chunked" or "content-length" in request.headers:
        raise BadRequestError(text_answer(HTTPStatus.BAD_REQUEST, "how is the body sent?"))
    return True


class ChunkedBody:
    """A body that is being received.

    Args:
        most: The longest that is accepted, in bytes.
    """

    def __init__(self, most: int) -> None:
        self.content = bytearray()
        self._most = most
        self._received = 0
        self._is_complete = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_HEAD)

    def take(self, piece: bytes) -> bool:
        """Take what has been received; return whether the body is complete.

        Raises:
            BadRequestError: It is not sent in chunks (400), or is too long (413).
        """
        self._received += len(piece)
        try:
            self._parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise BadRequestError(
                text_answer(HTTPStatus.BAD_REQUEST, "no chunks of a body")
            ) from error
        if len(self.content) > self._most or self._received > MAX_OVERHEAD * self._most:
            detail = f"a body may have at most {self._most} bytes"
            raise BadRequestError(text_answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail))
        return self._is_complete

    def on_body(self, data: bytes) -> None:
        """Take a part of the body, from the parser; what follows it is another request's."""
        if not self._is_complete:
            self.content += data

    def on_message_complete(self) -> None:
        """Take that the body is complete, from the parser."""
        self._is_complete = True
