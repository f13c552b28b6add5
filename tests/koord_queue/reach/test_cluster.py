"""Errors of servers, as commands act on them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.cluster import Cluster, Query
from koord_queue.reach.debug_api import read_problem
from koord_queue.reach.errors import Conflicting, Missing, NotServed, Refused
from koord_queue.reach.questions import Question
from koord_queue.reach.sources import AggregatedApi, DebugApi
from shared_api.client.errors import ConnectionLost
from shared_api.client.transport import Request, Response, ResponseStream


class Server:
    """A transport with one answer for all requests; None: it does not answer."""

    def __init__(self, *answers: Response | None) -> None:
        self._answers = list(answers)
        self.asked: list[Request] = []

    def send(self, request: Request, timeout_seconds: float) -> Response:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise ConnectionLost("connection refused", sent=False)
        return answer

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        raise NotImplementedError

    def close(self) -> None: ...


def status(code: int, reason: str, message: str) -> Response:
    body = {"kind": "Status", "reason": reason, "message": message}
    return Response(code, {}, msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        pytest.param(status(403, "Forbidden", "eve may not"), Refused, "eve may not", id="403"),
        pytest.param(status(401, "Unauthorized", "Unauthorized"), Refused,
            "the server does not accept your credentials: Unauthorized", id="401"),
        pytest.param(status(404, "NotFound", "no unit x"), Missing, "no unit x", id="no object"),
        pytest.param(status(409, "Conflict", "changed"), Conflicting, "changed", id="409"),
        pytest.param(Response(404, {}, b"404 page not found\n"), NotServed,
            "404 page not found", id="no such API"),
        pytest.param(Response(503, {}, b"service unavailable\n"), NotServed,
            "service unavailable", id="an API that is down"),
        pytest.param(status(503, "ServiceUnavailable", "no forecast yet"), CommandError,
            "no forecast yet", id="an API that has no answer yet"),
        pytest.param(None, CommandError, "the server api:443 does not answer: connection refused",
            id="nothing listens"),
    ],
)  # fmt: skip
def test_an_error_of_the_api_server(
    answer: Response | None, error: type[CommandError], message: str
) -> None:
    with pytest.raises(CommandError) as got:
        Cluster(Server(answer), "default", "api:443").get("/x")
    assert (type(got.value), got.value.message) == (error, message)


def test_too_many_questions_say_when_to_ask_again() -> None:
    answer = Response(429, {"retry-after": "3"}, b'{"reason":"TooManyRequests","message":"busy"}')
    with pytest.raises(CommandError) as got:
        Cluster(Server(answer), "default", "api").get("/x")
    assert (got.value.message, got.value.next_step) == ("busy", "Ask again in 3 s.")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        pytest.param(Response(404, {}, b'{"detail":"no unit"}'), Missing, "no unit", id="no unit"),
        pytest.param(Response(503, {}, b'{"detail":"off"}'), CommandError, "off", id="no answer"),
        pytest.param(Response(404, {}, b"<html>"), NotServed,
            "this is no debug API of Koord-Queue", id="a stranger"),
        pytest.param(Response(404, {}, b'{"detail":"Not Found"}'), NotServed,
            "this is no debug API of Koord-Queue", id="another program"),
    ],
)  # fmt: skip
def test_an_error_of_the_debug_api(
    answer: Response, error: type[CommandError], message: str
) -> None:
    with pytest.raises(CommandError) as got:
        Cluster(Server(answer), "", "server", read_error=read_problem).get("/debug/x")
    assert (type(got.value), got.value.message) == (error, message)


def test_the_aggregated_api_is_named_where_it_is_not_served() -> None:
    absent = Response(404, {}, b"404 page not found\n")
    api = AggregatedApi(Cluster(Server(absent), "default", "api"))
    asked: list[Question[Any]] = [questions.explain("a", "b"), questions.pending(None, None)]
    for question in asked:
        with pytest.raises(NotServed) as got:
            api.answer(question)
        want = "the aggregated API is not served here (404 page not found)"
        assert got.value.message == want


def test_all_pages_of_a_list_are_read() -> None:
    first = Response(200, {}, b'{"metadata":{"continue":"more"},"items":[1]}')
    last = Response(200, {}, b'{"metadata":{},"items":[2]}')
    server = Server(first, last)
    assert list(Cluster(server, "default", "api").pages("/x")) == [first.body, last.body]
    queries: list[Query] = [request.query for request in server.asked]
    assert queries == [(("limit", "500"),), (("limit", "500"), ("continue", "more"))]


def test_who_asks_is_in_each_request() -> None:
    server = Server(Response(200, {}, b"{}"))
    Cluster(server, "default", "api", (("Impersonate-User", "ann"),)).send("POST", "/x", b"{}")
    assert ("Impersonate-User", "ann") in server.asked[0].headers
    assert ("Content-Type", "application/json") in server.asked[0].headers


def test_units_that_wait_are_collected_from_each_queue() -> None:
    queues = Response(200, {}, b'{"total":1,"items":[{"name":"team"}]}')
    units = (
        b'{"units":[{"namespace":"a","name":"x","queue":"team","position":1},'
        b'{"namespace":"b","name":"y","queue":"team","position":2,'
        b'"refusal":{"reason":"OverQuotaMax","message":"no room"}}]}'
    )
    server = Server(queues, Response(200, {}, units))
    (found,) = DebugApi(Cluster(server, "", "server")).answer(questions.pending("b", None))
    assert found == ("b", "y", "team", 2, "", "no room", "OverQuotaMax", "")
    assert [request.path for request in server.asked] == ["/debug/queues", "/debug/queues/team"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param("train-1", "/x/train-1", id="a name"),
        pytest.param("a b?c=%2f#d", "/x/a%20b%3Fc%3D%252f%23d", id="signs of an URL"),
        pytest.param("a\r\nHost: b\x1b", "/x/a%0D%0AHost:%20b%1B", id="control characters"),
        pytest.param("zug-\N{LATIN SMALL LETTER U WITH DIAERESIS}", "/x/zug-%C3%BC", id="letters"),
        pytest.param("\udcff", "/x/%3F", id="no UTF-8"),
    ],
)
def test_what_a_user_calls_an_object_is_one_part_of_the_path(name: str, path: str) -> None:
    server = Server(Response(200, {}, b"{}"))
    Cluster(server, "default", "api").get(f"/x/{name}")
    assert server.asked[0].path == path


def test_a_name_that_would_be_another_path_is_not_sent() -> None:
    server = Server(Response(200, {}, b"{}"))
    with pytest.raises(Missing):
        Cluster(server, "default", "api").get("/x/../secrets")
    assert not server.asked


def test_units_of_others_have_their_places_on_a_page() -> None:
    queues = Response(200, {}, b'{"total":1,"items":[{"name":"team"}]}')
    first = Response(200, {}, b'{"units":[{"namespace":"a","name":"x"}],"others":999}')
    last = Response(200, {}, b'{"units":[{"namespace":"a","name":"y"}]}')
    api = DebugApi(Cluster(Server(queues, first, last), "", "server"))
    found = api.answer(questions.pending(None, None))
    assert [each.name for each in found] == ["x", "y"]
