"""The application under the routes of both programs."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from starlette.requests import Request
from structlog.testing import capture_logs

from shared_api.debug_api.access import open_access
from shared_api.debug_api.debug_app import build_debug_app, problems
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import PathList
from shared_api.question_errors import Code, QuestionError
from tests.served_app import served


def build(access: Guard = open_access) -> FastAPI:
    app = build_debug_app("Example", "0.0.0", access)

    def hello() -> PathList:
        return PathList(paths=["hello"])

    def fail() -> PathList:
        raise ValueError("oops")

    app.get("/debug/hello", responses=problems(404))(hello)
    app.get("/debug/fail")(fail)
    return app


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with served(build()) as client:
        yield client


def test_the_root_lists_the_added_routes(client: httpx.Client) -> None:
    paths = ["/", "/debug/fail", "/debug/hello", "/openapi.json"]
    assert client.get("/").json() == {"paths": paths}


def test_the_contract_has_the_routes_and_their_refusals(client: httpx.Client) -> None:
    contract = client.get("/openapi.json").json()
    assert contract["info"] == {"title": "Example", "version": "0.0.0"}
    answers = contract["paths"]["/debug/hello"]["get"]["responses"]
    assert set(answers) == {"200", "401", "403", "404", "421", "422", "500", "503"}


def test_every_route_asks_the_guard_first() -> None:
    def nobody(_request: Request) -> None:
        raise HTTPException(403, "not you")

    with served(build(nobody)) as client:
        for path in ("/", "/openapi.json", "/debug/hello", "/debug/fail"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()) == (403, {"detail": "not you"})


@pytest.mark.parametrize(
    ("refusal", "status", "retry_after"),
    [
        pytest.param(QuestionError(Code.NOT_FOUND, "why"), 404, None, id="unknown"),
        pytest.param(QuestionError(Code.RESOURCE_EXHAUSTED, "why", 7), 429, "7", id="too many"),
    ],
)
def test_why_a_question_has_no_answer_is_a_status_and_its_detail(
    refusal: QuestionError, status: int, retry_after: str | None
) -> None:
    app = build(open_access)

    @app.get("/debug/question")
    def question() -> None:
        raise refusal

    with served(app) as client, capture_logs() as logs:
        answer = client.get("/debug/question")
    assert (answer.status_code, answer.json()) == (status, {"detail": "why"})
    assert answer.headers.get("retry-after") == retry_after
    assert logs == []


def test_an_unexpected_error_is_json_and_one_line_in_the_log(client: httpx.Client) -> None:
    with capture_logs() as logs:
        answer = client.get("/debug/fail")
    assert answer.status_code == 500
    assert answer.json() == {"detail": "ValueError while answering; see the program's log"}
    assert [each["event"] for each in logs] == ["request failed"]
