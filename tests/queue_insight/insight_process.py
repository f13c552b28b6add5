"""The insight program in this process, with its threads, and a feed that a test steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from queue_insight.insight_feed.messages import ANSWERS_SOCKET
from queue_insight.insight_program.flags import PROGRAM, parse_insight_flags
from queue_insight.insight_program.wiring import Insight
from shared_api.local_program import LocalProgram
from tests.queue_insight.insight_kit import Sender
from tests.waiting import within

PATIENCE_SECONDS = 60.0


def build(folder: Path, *more: str) -> Insight:
    flags = parse_insight_flags([f"--socket-dir={folder}", *more])
    return Insight(LocalProgram(PROGRAM, flags.process), flags)


@contextmanager
def running(folder: Path, *more: str) -> Iterator[tuple[Insight, httpx.Client]]:
    insight = build(folder, *more)
    insight.start()
    transport = httpx.HTTPTransport(uds=str(folder / ANSWERS_SOCKET))
    try:
        with httpx.Client(
            transport=transport, base_url="http://insight", timeout=PATIENCE_SECONDS
        ) as client:
            yield insight, client
    finally:
        insight.stop()


def follow(sender: Sender, client: httpx.Client) -> None:
    """Let the feed send until its last call has come."""

    def has_come() -> bool:
        sender.feed.step()
        answer = client.get("/debug/insight")
        return answer.status_code == 200 and answer.json()["number"] == sender.calls.last

    assert within(PATIENCE_SECONDS, has_come), client.get("/debug/insight").text
