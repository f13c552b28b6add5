"""Open pages, as browsers have them: `python -m tests.benchmarks.page_viewers PORT COUNT PATH...`.

Each has a stream of events, and asks for its view again when news come, one question at a time. It
ends with its standard input, and then prints a JSON document: `asked`, the views that were
answered; `refused`, the questions that came while the caller's share was spent, and are asked again
as a page does; `slowest_ms` and `median_ms`, how long a view took with that; `bytes`, of all
answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from statistics import median
from typing import Final

HOST: Final = "127.0.0.1"
READY: Final = "ready"
TOO_MANY: Final = b"HTTP/1.1 429 "


class Viewers:
    """Open pages.

    Args:
        port: Of the page.
        paths: The views, which the pages have in turn.
    """

    def __init__(self, port: int, paths: list[str]) -> None:
        self._port = port
        self._paths = paths
        self._took: list[float] = []
        self._bytes = 0
        self._refused = 0
        self._opened = 0

    async def run(self, count: int) -> None:
        """Keep pages open until the standard input ends."""
        tasks = [asyncio.create_task(self._view(number)) for number in range(count)]
        ends = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while self._opened < count and not any(each.done() for each in tasks):
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
        print(json.dumps(self._summary()), flush=True)

    def _summary(self) -> dict[str, float]:
        took = self._took or [0.0]
        return {
            "asked": len(self._took),
            "refused": self._refused,
            "median_ms": 1e3 * median(took),
            "slowest_ms": 1e3 * max(took),
            "bytes": self._bytes,
        }

    async def _view(self, number: int) -> None:
        news = asyncio.Event()
        path = self._paths[number % len(self._paths)]
        listens = asyncio.create_task(self._listen(news))
        try:
            reader, writer = await asyncio.open_connection(HOST, self._port)
            while True:
                await self._ask(reader, writer, path)
                waits = asyncio.create_task(news.wait())
                await asyncio.wait({waits, listens}, return_when=asyncio.FIRST_COMPLETED)
                waits.cancel()
                if listens.done():
                    listens.result()
                news.clear()
        finally:
            listens.cancel()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> None:
        began = time.perf_counter()
        head = await self._request(reader, writer, path)
        length = _number(head, b"content-length:")
        await reader.readexactly(length)
        self._took.append(time.perf_counter() - began)
        self._bytes += length

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> bytes:
        """Ask until the caller's share is not spent; return the head of the answer."""
        while True:
            writer.write(_request(path))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(TOO_MANY):
                _check(head)
                return head
            self._refused += 1
            await reader.readexactly(_number(head, b"content-length:"))
            await asyncio.sleep(_number(head, b"retry-after:"))

    async def _listen(self, news: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(HOST, self._port, limit=1 << 20)
        await self._request(reader, writer, "/page/events")
        self._opened += 1
        while line := await reader.readline():
            if line.startswith(b"data:"):
                news.set()
        raise ConnectionError("a stream of events ended")


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nAccept: application/json\r\n\r\n".encode()


def _number(head: bytes, name: bytes) -> int:
    """Return the number in a header of an answer."""
    lines = head.lower().split(b"\r\n")
    return next(int(line.removeprefix(name)) for line in lines if line.startswith(name))


def _check(head: bytes) -> None:
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(head.decode(errors="replace"))


if __name__ == "__main__":
    _, at, many, *views = sys.argv
    asyncio.run(Viewers(int(at), views).run(int(many)))
