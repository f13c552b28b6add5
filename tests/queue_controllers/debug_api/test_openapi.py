"""All answers to any request are declared in the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_controllers.debug_api.app import build_app
from queue_controllers.debug_api.openapi import CONTRACT_FILE, build_contract
from shared_api.debug_api.access import open_access
from tests.queue_controllers.controllers_world import World
from tests.served_app import served

CONTRACT: dict[str, Any] = msgspec.json.decode(CONTRACT_FILE.read_bytes())
JOBS = "/debug/jobs/{namespace}/{kind}/{name}"

WORDS = st.one_of(
    st.sampled_from(("team", "Job", "jobs.batch", "main", "tfjob", "", "..", "%2F", "%00")),
    st.integers(1, 600).map("9".__mul__),
    st.text(max_size=300),
)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    world = World()
    controllers = world.start("--enabled-extensions=job,tfjob")
    world.job()
    world.settle()
    with served(build_app(controllers.debug_api(), open_access, "0")) as client:
        yield client


def test_the_checked_in_contract_is_current() -> None:
    assert CONTRACT_FILE.read_bytes() == build_contract(), "make openapi writes it"


def test_the_contract_has_all_paths(client: httpx.Client) -> None:
    assert set(CONTRACT["paths"]) == {"/", JOBS}
    assert client.get("/").json() == {"paths": ["/", JOBS, "/openapi.json"]}


def test_the_contract_is_what_is_served(client: httpx.Client) -> None:
    got = client.get("/openapi.json").json()
    assert got["info"].pop("version") == "0"
    want = msgspec.json.decode(CONTRACT_FILE.read_bytes())
    want["info"].pop("version")
    assert got == want


def test_no_request_gets_an_undeclared_answer(client: httpx.Client) -> None:
    declared = CONTRACT["paths"][JOBS]["get"]["responses"]

    @given(st.tuples(WORDS, WORDS, WORDS))
    def ask(words: tuple[str, str, str]) -> None:
        parts = [quote(each, safe="", errors="surrogateescape") for each in words]
        answer = client.get("/".join(("/debug/jobs", *parts)))
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in declared, answer.text
        assert answer.headers["content-type"] == "application/json"

    ask()
