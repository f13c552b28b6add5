"""Turns in a loop: who waits for its share needs no thread, and who is refused is told when."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from threading import Event

import anyio
import pytest

from queue_insight.debug_api.answer_turns import LoopTurns
from shared_api.caller_shares import ShareLimits
from shared_api.question_errors import Code, QuestionError
from shared_api.testing.virtual_clock import VirtualClock

LaneRequest = Callable[[], Coroutine[None, None, str]]

LIMITS = ShareLimits(places=2, waiting=2, patience_seconds=3.0, rate=0.5, own_rate=0.1)


class Server:
    """Turns, and what was answered in which order."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.turns = LoopTurns(self.clock, LIMITS)
        self.begun: list[str] = []
        self.may_end = Event()

    def work(self, name: str) -> str:
        self.begun.append(name)
        assert self.may_end.wait(30.0)
        return name

    def ask(self, caller: str, name: str) -> LaneRequest:
        return partial(self.turns.run, caller, partial(self.work, name))


def played(play: Callable[[Server], Coroutine[None, None, None]]) -> Server:
    """Return a server after a test's coroutine, which has some seconds."""
    server = Server()
    with_deadline = partial(_play, play, server)
    anyio.run(with_deadline)
    return server


async def _play(play: Callable[[Server], Coroutine[None, None, None]], server: Server) -> None:
    try:
        with anyio.fail_after(30.0):
            await play(server)
    finally:
        server.may_end.set()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.sleep(0.01)


def test_each_caller_has_a_place_and_the_others_wait() -> None:
    async def play(server: Server) -> None:
        async with anyio.create_task_group() as tasks:
            for caller, name in (("ann", "a1"), ("ann", "a2"), ("bob", "b1")):
                tasks.start_soon(server.ask(caller, name))
                await anyio.sleep(0.05)
            assert server.begun == ["a1", "b1"]
            server.may_end.set()

    assert played(play).begun == ["a1", "b1", "a2"]


def test_who_has_spent_its_share_is_told_when_to_come_back() -> None:
    async def play(server: Server) -> None:
        server.may_end.set()
        await server.ask("ann", "a1")()
        await server.turns.run("ann", partial(server.clock.advance, 1000.0))
        with pytest.raises(QuestionError) as refused:
            await server.turns.run("ann", partial(server.work, "a2"))
        got = refused.value.code, refused.value.retry_after
        assert got == (Code.RESOURCE_EXHAUSTED, 10)

    assert played(play).begun == ["a1"]


def test_one_that_fails_or_leaves_gives_its_place_back() -> None:
    async def play(server: Server) -> None:
        with pytest.raises(ZeroDivisionError):
            await server.turns.run("ann", partial(divmod, 1, 0))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.ask("ann", "a1"))
            await _until(lambda: server.begun == ["a1"])
            with anyio.move_on_after(0.05):
                await server.ask("ann", "a2")()  # waits, and leaves
            server.may_end.set()
        assert await server.ask("ann", "a3")() == "a3"

    assert played(play).begun == ["a1", "a3"]
