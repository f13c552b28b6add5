"""The contract declares every answer, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.openapi import CONTRACT_FILE, build_contract
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from tests.queue_insight.debug_api.posted_bodies import bodies
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

CONTRACT: dict[str, Any] = msgspec.json.decode(CONTRACT_FILE.read_bytes())
PATHS: dict[str, Any] = CONTRACT["paths"]

WORDS = st.one_of(
    st.sampled_from(("", ".", "..", "%2F", "%00", "null", "nan", "1e400")),
    st.integers(0, 12).map(str),
    st.integers().map(str),
    st.integers(1, 5000).map("9".__mul__),
    st.floats().map(str),
    st.text(max_size=300),
    st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    kit = ShellKit()
    kit.add_quota("team", 4)
    for name in ("a", "b", "c"):
        kit.add_unit(name)
    kit.decide()
    answers = Answers(StateAnswers(kit.shared, lambda: True))
    with served(build_whole_app(answers, open_access, (), "0")) as client:
        yield client


def escape(word: str) -> str:
    return quote(word, safe="", errors="surrogateescape")


def operation_of(path: str) -> tuple[str, dict[str, Any]]:
    """Return the one method of a path, and what the contract says of it."""
    ((method, operation),) = PATHS[path].items()
    return method, operation


@st.composite
def requests(draw: st.DrawFn, path: str) -> str:
    """Return a path of the contract with any values for its parameters, and some unknown ones."""
    asked: list[str] = []
    for parameter in operation_of(path)[1].get("parameters", ()):
        name, word = parameter["name"], draw(WORDS)
        if parameter["in"] == "path":
            known = "default" if name == "namespace" else "team" if "queues" in path else "a"
            path = path.replace(f"{{{name}}}", escape(draw(st.sampled_from((known, word)))))
        elif draw(st.booleans()):
            asked.append(f"{name}={escape(word)}")
    others = st.builds("{}={}".format, WORDS.map(escape), WORDS.map(escape))
    asked += draw(st.lists(others, max_size=2))
    return "?".join((path, "&".join(asked)))


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_is_declared(client: httpx.Client, path: str) -> None:
    method, operation = operation_of(path)
    declared = operation["responses"]
    sent = bodies(path) if method == "post" else st.none()

    @given(requests(path), sent)
    def ask(target: str, body: bytes | None) -> None:
        headers = {} if body is None else {"content-type": "application/json"}
        answer = client.request(method, target, content=body, headers=headers)
        assert answer.status_code != 500, answer.text  # 503: without insight
        assert str(answer.status_code) in declared, answer.text
        assert answer.headers["content-type"] in declared[str(answer.status_code)]["content"]
        assert answer.json() is not None

    ask()


def test_every_route_declares_its_answers() -> None:
    for path in PATHS:
        method, operation = operation_of(path)
        assert method == "get" or operation["requestBody"]["required"], path
        for code, answer in operation["responses"].items():
            schema = answer["content"]["application/json"]["schema"]
            assert schema, (path, code)
            assert code == "200" or schema["$ref"], (path, code)


def test_the_committed_contract_is_what_is_served(client: httpx.Client) -> None:
    served_now = client.get("/openapi.json").json()
    written = msgspec.json.decode(CONTRACT_FILE.read_bytes())
    del served_now["info"]["version"], written["info"]["version"]
    assert written == served_now, "run: make openapi"


def test_the_contract_is_written_deterministically() -> None:
    assert CONTRACT_FILE.read_bytes() == build_contract()
