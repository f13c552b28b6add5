"""Requests of one caller that are in progress have a bound, and refusals come late."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial

import anyio
import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from queue_insight.page import caller_bound
from queue_insight.page.caller_bound import EVENTS, MAX_REFUSALS, OWN_REQUESTS, CallerBound
from queue_insight.page.login import COOKIE
from queue_insight.page.networks import read_networks
from queue_insight.page.sessions import Sessions
from shared_api.testing.virtual_clock import VirtualClock

PROXY = "10.9.0.1"


class Page:
    """The middleware over an application that answers once it may; sleeps are a tenth as long."""

    def __init__(self) -> None:
        self.sessions = Sessions(VirtualClock())
        self.may_answer = anyio.Event()
        self.begun = 0
        self.codes: list[int] = []
        shared = read_networks([PROXY])
        self.bound = CallerBound(self.answer, self.sessions, shared)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        await self.may_answer.wait()
        if Request(scope).url.path == "/fails":
            raise RuntimeError
        answer: Response = PlainTextResponse("it")
        await answer(scope, receive, send)

    async def ask(self, path: str = "/", host: str = "10.0.0.1", number: str = "") -> None:
        transport = httpx.ASGITransport(self.bound, raise_app_exceptions=False, client=(host, 4711))
        cookies = {COOKIE: number} if number else None
        async with httpx.AsyncClient(
            transport=transport, base_url="https://it", cookies=cookies
        ) as client:
            answer = await client.get(path)
        assert answer.status_code != 429 or answer.headers["retry-after"] == "1"
        self.codes.append(answer.status_code)


Play = Callable[[Page], Coroutine[None, None, None]]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_bound, "REFUSED_AFTER_SECONDS", 0.1)


def played(play: Play) -> Page:
    async def run() -> Page:
        page = Page()
        with anyio.fail_after(30.0):
            await play(page)
        return page

    return anyio.run(run)


async def flood(page: Page, times: int, **asked: str) -> None:
    """Ask so often at once, and let the answers come once all others are refused."""
    async with anyio.create_task_group() as tasks:
        for _ in range(times):
            tasks.start_soon(partial(page.ask, **asked))
        while page.begun + len(page.codes) < times:
            await anyio.sleep(0.01)
        page.may_answer.set()


def test_what_is_above_the_bound_is_refused() -> None:
    page = played(lambda page: flood(page, OWN_REQUESTS + 5))
    assert page.codes == [429] * 5 + [200] * OWN_REQUESTS


def test_a_request_that_has_ended_gives_its_place_back() -> None:
    async def play(page: Page) -> None:
        await flood(page, OWN_REQUESTS, path="/fails")
        await flood(page, OWN_REQUESTS)

    assert played(play).codes == [500] * OWN_REQUESTS + [200] * OWN_REQUESTS


def test_callers_are_users_and_else_addresses() -> None:
    async def play(page: Page) -> None:
        number, _ = page.sessions.open("ann", "token")
        async with anyio.create_task_group() as tasks:
            for _ in range(OWN_REQUESTS):
                tasks.start_soon(page.ask)
                tasks.start_soon(partial(page.ask, number=number))
            while page.begun < 2 * OWN_REQUESTS:
                await anyio.sleep(0.01)
            # Another address of the same user, and a number that nobody has, of the same address.
            await page.ask(host="10.0.0.2", number=number)
            await page.ask(number="made up")
            assert page.codes == [429, 429]
            tasks.start_soon(partial(page.ask, host="10.0.0.2"))
            page.may_answer.set()

    assert played(play).codes.count(200) == 2 * OWN_REQUESTS + 1


def test_what_many_may_ask_through_a_proxy_has_no_bound_here() -> None:
    page = played(lambda page: flood(page, OWN_REQUESTS + 5, host=PROXY))
    assert page.codes == [200] * (OWN_REQUESTS + 5)


def test_streams_of_a_caller_have_the_same_bound_beside_its_requests() -> None:
    async def play(page: Page) -> None:
        number, _ = page.sessions.open("ann", "token")
        async with anyio.create_task_group() as tasks:
            for path in (EVENTS, "/"):
                for _ in range(OWN_REQUESTS + 2):
                    tasks.start_soon(partial(page.ask, path, number=number))
            while page.begun + len(page.codes) < 2 * OWN_REQUESTS + 4:
                await anyio.sleep(0.01)
            page.may_answer.set()

    assert played(play).codes == [429] * 4 + [200] * 2 * OWN_REQUESTS


def test_refusals_come_late_unless_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_bound, "REFUSED_AFTER_SECONDS", 1000.0)

    async def play(page: Page) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(OWN_REQUESTS + MAX_REFUSALS + 3):
                tasks.start_soon(page.ask)
            while page.codes != [429] * 3:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        page.may_answer.set()
        await page.ask()

    assert played(play).codes == [429] * 3 + [200]
