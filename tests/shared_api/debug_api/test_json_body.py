"""What a POST sends is checked before it is read: site, type, size; then its fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.requests import Request

from shared_api.debug_api.access import open_access
from shared_api.debug_api.debug_app import build_debug_app, problems
from shared_api.debug_api.json_body import (
    BODY_PROBLEMS,
    JSON,
    MAX_ERRORS,
    YAML,
    BodyReader,
    PostedBody,
    read_json,
    request_body,
    schema_of,
)
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.server import MAX_BODY_BYTES
from shared_api.debug_api.views import View
from tests.served_app import served


class Part(View):
    """A part of a question."""

    of_what: str
    parts: list[int]


class Question(View):
    """A question."""

    parts: list[Part]
    horizon_seconds: int = 0


class Heard(View):
    """What was heard."""

    media_type: str
    length: int


Sent = Annotated[PostedBody, Depends(BodyReader(JSON, YAML))]


def build(access: Guard = open_access) -> FastAPI:
    app = build_debug_app("Example", "0.0.0", access)

    def ask(body: Sent) -> Heard:
        return Heard(media_type=body.media_type, length=len(body.content))

    def read(body: Sent) -> Question:
        return read_json(body, Question)

    extra = request_body({JSON: schema_of(Question)})
    app.post("/debug/ask", responses=problems(*BODY_PROBLEMS))(ask)
    app.post("/debug/read", responses=problems(*BODY_PROBLEMS), openapi_extra=extra)(read)
    return app


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(build()) as client:
        yield client


TYPED: Final = {"Content-Type": JSON}


@pytest.mark.parametrize("media_type", [JSON, YAML, "Application/JSON; charset=UTF-8"])
def test_a_body_of_the_accepted_types_is_read(client: httpx.Client, media_type: str) -> None:
    answer = client.post("/debug/ask", content=b"{}", headers={"Content-Type": media_type})
    want = media_type.partition(";")[0].lower()
    assert answer.json() == {"mediaType": want, "length": 2}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 415, id="no type"),
        pytest.param({"Content-Type": "text/plain"}, 415, id="what any page may send"),
        pytest.param({"Content-Type": "multipart/form-data; boundary=x"}, 415, id="a form"),
        pytest.param({"Content-Type": f"{JSON}; charset=utf-16"}, 415, id="another encoding"),
        pytest.param(TYPED | {"Origin": "https://evil.example.com"}, 403, id="another origin"),
        pytest.param(TYPED | {"Origin": "null"}, 403, id="an origin that is not told"),
        pytest.param(TYPED | {"Sec-Fetch-Site": "cross-site"}, 403, id="another site"),
        pytest.param(TYPED | {"Sec-Fetch-Site": "same-site"}, 403, id="a neighbor"),
        pytest.param(TYPED | {"Sec-Fetch-Site": "same-origin"}, 200, id="a page of this server"),
        pytest.param(TYPED | {"Sec-Fetch-Site": "none"}, 200, id="typed by a user"),
    ],
)
def test_who_may_send_what(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    answer = client.post("/debug/ask", content=b"{}", headers=headers)
    assert answer.status_code == status, answer.text
    assert status == 200 or answer.json()["detail"]


def test_a_page_of_this_server_may_ask(client: httpx.Client) -> None:
    origin = str(client.base_url).rstrip("/")
    answer = client.post("/debug/ask", content=b"{}", headers=TYPED | {"Origin": origin})
    assert answer.status_code == 200, answer.text


def test_a_page_of_another_site_is_not_told_that_it_may_ask(client: httpx.Client) -> None:
    """A browser asks first (preflight) for these types."""
    headers = {"Origin": "https://evil.example.com", "Access-Control-Request-Method": "POST"}
    answer = client.options("/debug/ask", headers=headers)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("length", "status"), [(0, 200), (MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413)]
)
def test_a_body_has_a_limit(client: httpx.Client, length: int, status: int) -> None:
    answer = client.post("/debug/ask", content=b"x" * length, headers=TYPED)
    assert answer.status_code == status, answer.text


def test_chunks_are_refused(client: httpx.Client) -> None:
    answer = client.post("/debug/ask", content=iter([b"{", b"}"]), headers=TYPED)
    assert answer.status_code == 411


def test_the_guard_is_asked_before_the_body() -> None:
    def refuse(_request: Request) -> None:
        raise HTTPException(401, "who are you?")

    with served(build(refuse)) as client:
        assert client.post("/debug/read", content=b"no JSON").status_code == 401


def test_a_body_is_read_as_a_model(client: httpx.Client) -> None:
    sent = {"parts": [{"ofWhat": "it", "parts": [1]}], "horizonSeconds": 7}
    assert client.post("/debug/read", json=sent).json() == sent


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "body: Invalid JSON", id="nothing"),
        pytest.param(b"[" * 100_000, "body: Invalid JSON", id="very deep"),
        pytest.param(b"\xff\xfe", "body: Invalid JSON", id="not UTF-8"),
        pytest.param(b'{"parts": [{}]}', "parts.0.ofWhat: Field required", id="a field is missing"),
        pytest.param(b'{"parts": [1,1,1,1,1,1,1]}', "(and 2 more)", id="many mistakes"),
    ],
)
def test_a_body_that_is_not_of_the_model_is_refused_with_its_fields(
    client: httpx.Client, content: bytes, says: str
) -> None:
    answer = client.post("/debug/read", content=content, headers=TYPED)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert answer.json()["detail"].count(";") < MAX_ERRORS


def test_the_contract_has_the_schema_of_the_body_without_references() -> None:
    operation = build().openapi()["paths"]["/debug/read"]["post"]
    schema = operation["requestBody"]["content"][JSON]["schema"]
    assert schema["properties"]["parts"]["items"]["properties"].keys() == {"ofWhat", "parts"}
    assert "$ref" not in str(schema)
