"""Open pages of many people, as browsers have them: `python -m tests.benchmarks.page_viewers`.

The first line of its standard input is a JSON document, `Opened`. Each page has a stream of events,
and asks for its view again when news come, one question at a time. It ends with its standard input,
and then prints a JSON document: `asked`, the views that were answered; `refused`, the questions
that came while a person's share was spent; `closed`, the connections that the server closed during
an answer or before it; `slowest_ms` and `median_ms`, how long a view took; `bytes`, of all answers.
What was refused or lost is asked again, as a browser does.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Final

import msgspec

from tests.tls_files import client_context

HOST: Final = "127.0.0.1"
READY: Final = "ready"
TOO_MANY: Final = b"HTTP/1.1 429 "

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LONGEST_LINE: Final = 1 << 20
_CLOSED: Final = (
    asyncio.IncompleteReadError,
    BrokenPipeError,
    ConnectionAbortedError,
    ConnectionResetError,
)
_AGAIN_SECONDS: Final = 2.0
_HANDSHAKES: Final = 8
"""Connections that are opened at once: the server resets those that are too many."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """What is opened.

    Attributes:
        port: Of the page.
        cookies: The session of each person; they have the pages in turn.
        paths: The views, which the pages have in turn.
        count: How many pages.
    """

    port: int
    cookies: list[str]
    paths: list[str]
    count: int


def address_of(person: int) -> str:
    """Return the address of this machine that a person asks from: bounds hold for an address."""
    return f"127.0.1.{person + 1}"


class Viewers:
    """Open pages.

    Args:
        opened: Which.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._tls = client_context()
        self._handshakes = asyncio.Semaphore(_HANDSHAKES)
        self._took: list[float] = []
        self._bytes = 0
        self._refused = 0
        self._closed = 0
        self._streams = set[int]()

    async def run(self) -> None:
        """Keep the pages open until the standard input ends."""
        count = self._opened.count
        tasks = [asyncio.create_task(self._view(number)) for number in range(count)]
        ends = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while len(self._streams) < count and not any(each.done() for each in tasks):
            await asyncio.sleep(0.05)
        print(READY, flush=True)
        # None of the pages ends by itself, but by an error.
        await asyncio.wait({ends, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        failed = [each.exception() for each in tasks if each.done()]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if failed:
            sys.exit(f"{len(failed)} of {count} pages have ended: {failed[0]!r}")
        print(msgspec.json.encode(self._summary()).decode(), flush=True)

    def _summary(self) -> dict[str, float]:
        took = self._took or [0.0]
        return {
            "asked": len(self._took),
            "refused": self._refused,
            "closed": self._closed,
            "median_ms": 1e3 * median(took),
            "slowest_ms": 1e3 * max(took),
            "bytes": self._bytes,
        }

    async def _view(self, number: int) -> None:
        """Keep one page open."""
        news = asyncio.Event()
        person = number % len(self._opened.cookies)
        path = self._opened.paths[number % len(self._opened.paths)]
        await asyncio.gather(
            self._again(lambda: self._listen(number, person, news)),
            self._again(lambda: self._follow(person, path, news)),
        )

    async def _again(self, use: Callable[[], Coroutine[None, None, None]]) -> None:
        """Use a connection after the other."""
        while True:
            try:
                await use()
            except _CLOSED:
                self._closed += 1
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow(self, person: int, path: str, news: asyncio.Event) -> None:
        """Ask for a view, and again with each news, until the server closes the connection."""
        connection = await self._connect(person)
        try:
            while not connection[0].at_eof():
                await self._ask(connection, person, path)
                await news.wait()
                news.clear()
        finally:
            connection[1].close()

    async def _connect(self, person: int) -> _Connection:
        async with self._handshakes:
            return await asyncio.open_connection(
                HOST,
                self._opened.port,
                limit=_LONGEST_LINE,
                ssl=self._tls,
                local_addr=(address_of(person), 0),
            )

    async def _ask(self, connection: _Connection, person: int, path: str) -> None:
        """Ask until the person's share is not spent."""
        began = time.perf_counter()
        reader, _ = connection
        while True:
            head = await self._request(connection, person, path)
            length = _number(head, b"content-length:")
            await reader.readexactly(length)
            if not head.startswith(TOO_MANY):
                break
            self._refused += 1
            await asyncio.sleep(_number(head, b"retry-after:"))
        self._took.append(time.perf_counter() - began)
        self._bytes += length

    async def _request(self, connection: _Connection, person: int, path: str) -> bytes:
        """Return the head of an answer."""
        reader, writer = connection
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {HOST}:{self._opened.port}",
            "Accept: application/json",
            f"Cookie: {self._opened.cookies[person]}",
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 200 ", TOO_MANY)):
            raise ConnectionError(head.decode(errors="replace"))
        return head

    async def _listen(self, number: int, person: int, news: asyncio.Event) -> None:
        """Take the news until the server closes the connection."""
        connection = await self._connect(person)
        try:
            head = await self._request(connection, person, "/page/events")
            if head.startswith(TOO_MANY):
                raise ConnectionError(head.decode(errors="replace"))
            self._streams.add(number)
            while line := await connection[0].readline():
                if line.startswith(b"data:"):
                    news.set()
        finally:
            connection[1].close()
        raise ConnectionResetError("a stream of events ended")


def _number(head: bytes, name: bytes) -> int:
    """Return the number in a header of an answer."""
    lines = head.lower().split(b"\r\n")
    return next(int(line.removeprefix(name)) for line in lines if line.startswith(name))


if __name__ == "__main__":
    told = msgspec.json.decode(sys.stdin.readline(), type=Opened)
    asyncio.run(Viewers(told).run())
