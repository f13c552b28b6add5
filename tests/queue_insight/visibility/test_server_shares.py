"""Callers share the aggregated API's port, and discovery waits for none of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from itertools import islice
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from queue_insight.visibility.caller import CALLER
from queue_insight.visibility.gatekeeper import OWN_PLACES, WAITING
from tests.queue_insight.visibility.server_kit import BASE, LIST, PROXY, Served, echo, served

GREEDY = 40
"""Requests of one caller at once: more than the port holds of all callers."""


class Stuck:
    """An application whose answers to one user and to users without rights do not come."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: list[str] = []

    def answer(self, request: Request) -> Response:
        user = request.scope["state"][CALLER].user
        self.asked.append(user)
        if user.startswith("greedy"):
            assert self.may_answer.wait(30)
        return echo(request)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    stuck = Stuck()
    yield stuck
    stuck.may_answer.set()


Ask = Callable[..., httpx.Response]
"""Asks as a user whom the API server names."""


@pytest.fixture
def api(tmp_path: Path, stuck: Stuck) -> Iterator[Served]:
    with served(tmp_path, stuck.answer) as running:
        yield running
        stuck.may_answer.set()


@pytest.fixture
def ask(api: Served) -> Ask:
    def ask(user: str, path: str = LIST) -> httpx.Response:
        return api.ask(path, identity=PROXY, headers=[("X-Remote-User", user)])

    return ask


def flood(ask: Ask, pool: ThreadPoolExecutor) -> list[Future[httpx.Response]]:
    """Let a user ask often at once; return what is held, once all other requests are refused."""
    asked = [pool.submit(ask, "greedy") for _ in range(GREEDY)]
    held = OWN_PLACES + WAITING
    refused = list(islice(as_completed(asked, 30), GREEDY - held))
    for each in refused:
        answer = each.result()
        assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (429, True)
        assert answer.json()["reason"] == "TooManyRequests"
    return [each for each in asked if each not in refused]


def test_a_flood_of_one_caller_holds_up_neither_others_nor_discovery(
    api: Served, ask: Ask, stuck: Stuck
) -> None:
    with ThreadPoolExecutor(GREEDY) as pool:
        held = flood(ask, pool)
        assert ask("bob").json()["user"] == "bob"
        for user in ("system:kube-aggregator", "bob"):
            for path in (BASE, "/apis", "/openapi/v2", "/openapi/v3"):
                assert ask(user, path).status_code == 200
        assert api.ask("/readyz").status_code == 200
        stuck.may_answer.set()
        codes = [each.result(30).status_code for each in held]
        assert codes.count(200) >= OWN_PLACES


def test_a_flood_of_discovery_holds_up_neither_the_api_server_nor_answers(
    ask: Ask, stuck: Stuck
) -> None:
    with ThreadPoolExecutor(GREEDY) as pool:
        asked = [pool.submit(ask, "greedy", BASE) for _ in range(GREEDY)]
        wait(asked, 30, "FIRST_COMPLETED")
        assert ask("system:kube-aggregator", BASE).status_code == 200
        assert ask("bob").status_code == 200
        stuck.may_answer.set()
        assert {each.result(30).status_code for each in asked} == {200, 429}
