"""Asking the API server for a visitor: with its token, in time, and what a refusal is in words."""

from __future__ import annotations

import pytest

from queue_insight.page.visitor_client import (
    QUESTION_SECONDS,
    VisitorClient,
    in_words,
    is_segment,
    segment,
)
from shared_api.client.errors import (
    AnswerTooLarge,
    ApiFailure,
    ConnectionLost,
    MalformedAnswer,
    NotFound,
    Timeout,
    Unauthorized,
    status_error,
)
from shared_api.client.transport import Request
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.page.visitor_kit import TOKEN, PlayedApi

PATH = "/api/v1/namespaces/default/pods/a"


def test_a_request_has_the_token_of_its_visitor() -> None:
    api = PlayedApi({PATH: b"{}"})
    assert api.client().get_raw(PATH, {"limit": "5"}) == b"{}"
    (asked,) = api.asked
    assert (asked.method, asked.query) == ("GET", (("limit", "5"),))
    assert dict(asked.headers)["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("token", ["", "a b", "a\r\nHost: b", "ä"])
def test_without_a_token_that_can_be_sent_nothing_is_asked(token: str) -> None:
    api = PlayedApi({PATH: b"{}"})
    with pytest.raises(Unauthorized):
        api.client(token).get_raw(PATH)
    assert api.asked == []


def test_all_requests_of_an_answer_have_one_time() -> None:
    clock = VirtualClock()

    def take_long(_: Request) -> bytes:
        clock.advance(QUESTION_SECONDS * 0.6)
        return b"{}"

    api = PlayedApi({PATH: take_long})
    client = VisitorClient(api, TOKEN, clock)
    client.get_raw(PATH)
    client.get_raw(PATH)
    with pytest.raises(Timeout):
        client.get_raw(PATH)
    assert len(api.asked) == 2


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("a", True),
        ("a-1.b", True),
        ("", False),
        (".", False),
        ("..", False),
        ("a/b", False),
        ("a%2fb", False),
        ("a?b", False),
        ("A", False),
        ("a\n", False),
        ("a" * 254, False),
    ],
)
def test_only_names_of_objects_stand_in_a_path(name: str, *, want: bool) -> None:
    assert is_segment(name) is want
    if want:
        assert segment(name) == name
    else:
        with pytest.raises(NotFound):
            segment(name)


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        pytest.param(status_error(401, "", "no"), "does not accept your token", id="401"),
        pytest.param(
            status_error(403, "", "pods is forbidden"), "let you read this: pods is", id="403"
        ),
        pytest.param(status_error(404, "", "pods a not found"), "no such object: pods", id="404"),
        pytest.param(
            status_error(429, "", "", retry_after_seconds=3.0), "Try again in 3 s", id="429"
        ),
        pytest.param(
            status_error(503, "", "etcd\nis down"), "answered 503: etcd is down", id="503"
        ),
        pytest.param(status_error(500, "", "x" * 9000), "x" * 500, id="a long text"),
        pytest.param(Timeout("t", sent=True), "not answered in time", id="time"),
        pytest.param(AnswerTooLarge("t", sent=True), "more than 4 MiB", id="bytes"),
        pytest.param(
            ConnectionLost("10.0.0.1 refused", sent=False), "cannot be reached.", id="connection"
        ),
        pytest.param(MalformedAnswer("t"), "cannot be read", id="no JSON"),
    ],
)
def test_a_failure_is_said_in_words(failure: ApiFailure, want: str) -> None:
    said = in_words(failure)
    assert want in said
    assert "10.0.0.1" not in said
    assert len(said) < 600
